package chunk

import (
	"context"
	"io"
	"iter"
	"math"

	"github.com/mpiguard/mpiguard/internal/invariants"
)

// Read yields the contents of r in chunks. Each but the last is as long as the
// Sizer says, however short the single reads are. What was read before an error
// is yielded before that error.
func Read(ctx context.Context, r io.Reader, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := read(ctx, newSource(r), cfg, yield); err != nil {
			yield(nil, err)
		}
	}
}

// ReadAt yields the bytes of a span of ra in chunks. An input that ends before the
// span does, such as a file that was truncated meanwhile, is io.ErrUnexpectedEOF;
// one that grows changes nothing.
func ReadAt(ctx context.Context, ra io.ReaderAt, span Span, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		err := span.valid(math.MaxInt64)
		if err == nil {
			err = read(ctx, newSpanSource(ra, span), cfg, yield)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// read yields chunks and returns the error to yield last.
func read(ctx context.Context, src *source, cfg Config, yield func([]byte, error) bool) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if src.left == 0 {
		return nil
	}
	w := newWindow(cfg, src.left)
	defer w.free()
	for {
		if err := ctx.Err(); err != nil {
			return &Error{OffsetBytes: src.offset, Err: err}
		}
		buf, err := w.next(ctx, 0)
		if err != nil {
			return &Error{OffsetBytes: src.offset, Err: err}
		}
		n, err := src.fill(buf)
		if n > 0 {
			if !yield(buf[:n:n], nil) {
				return nil
			}
			invariants.Poison(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &Error{OffsetBytes: src.offset, Err: err}
		}
	}
}
