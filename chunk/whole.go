package chunk

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/mpiguard/mpiguard/internal/offheap"
)

// Whole is a span of an input that is in memory as a whole, outside the Go heap.
type Whole struct{ buf *offheap.Buffer }

// Bytes returns the contents, which the caller may change. They must not be used
// after Release.
func (w *Whole) Bytes() []byte { return w.buf.Bytes() }

// Release gives the memory back. A second Release does nothing.
func (w *Whole) Release() { w.buf.Free() }

// ReadWhole reads a span of ra into memory that is charged to acct before the first
// byte is read, and waits for it until ctx ends. A span above the whole budget is
// refused at once, by the account, in its words and numbers. A nil acct charges
// nobody. An input that ends before the span does is io.ErrUnexpectedEOF. On an
// error nothing is kept.
//
// It is for programs that need all of a file at a time. Those that do not take
// ReadAt, which needs a small part of the memory.
func ReadWhole(ctx context.Context, ra io.ReaderAt, span Span, acct Account) (*Whole, error) {
	if err := span.valid(math.MaxInt64); err != nil {
		return nil, err
	}
	if acct == nil {
		acct = unaccounted{}
	}
	w := &Whole{offheap.NewBuffer(acct)}
	if err := w.buf.Resize(ctx, span.Length); err != nil {
		return nil, &Error{OffsetBytes: span.Offset, Err: fmt.Errorf("%d bytes do not fit into memory: %w", span.Length, err)}
	}
	if err := w.read(ctx, newSpanSource(ra, span)); err != nil {
		w.Release()
		return nil, err
	}
	return w, nil
}

// read fills w, with a look at ctx now and then.
func (w *Whole) read(ctx context.Context, src *source) error {
	for rest := w.Bytes(); len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return &Error{OffsetBytes: src.offset, Err: err}
		}
		n, err := src.fill(rest[:min(len(rest), DefaultMaxBytes)])
		if err != nil {
			return &Error{OffsetBytes: src.offset, Err: err}
		}
		rest = rest[n:]
	}
	return nil
}
