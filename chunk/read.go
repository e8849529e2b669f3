package chunk

import (
	"context"
	"io"
	"iter"
	"math"
)

// Read yields the contents of r in chunks. Each but the last is as long as the
// Sizer says, however short the single reads are. What was read before an error
// is yielded before that error.
func Read(ctx context.Context, r io.Reader, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := read(ctx, newSource(r), cfg, 1, yield); err != nil {
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
			err = read(ctx, newSpanSource(ra, span), cfg, 1, yield)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// read yields whole units of the input, and returns the error to yield last.
func read(ctx context.Context, src *source, cfg Config, unit int64, yield func([]byte, error) bool) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if src.left == 0 {
		return nil
	}
	in := newFeed(src, cfg, unit)
	defer in.close()
	var rest []byte // less than a unit
	for {
		if err := ctx.Err(); err != nil {
			return &Error{OffsetBytes: in.offset(), Err: err}
		}
		data, _, err := in.next(ctx, rest, 0)
		end := len(data) - int(int64(len(data))%unit)
		rest = data[end:]
		if end > 0 {
			if err == nil {
				in.ahead(rest)
			}
			if !yield(data[:end:end], nil) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &Error{OffsetBytes: in.offset(), Err: err}
		}
	}
}
