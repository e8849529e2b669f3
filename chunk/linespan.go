package chunk

import (
	"bytes"
	"context"
	"io"
)

// LineSpan returns the lines that belong to a span of an input of size bytes: those
// that start in it. A line starts at offset 0 and after each '\n'. The spans of
// all ranks so become spans of whole lines, which again follow each other and
// cover the input: every line belongs to exactly one rank, and a rank whose span
// lies within one long line has none.
//
// It reads the input from each end of the span to the next '\n', and nothing at or
// beyond size. The LineSpan of its result is that result.
func LineSpan(ctx context.Context, ra io.ReaderAt, size int64, span Span) (Span, error) {
	if err := span.valid(size); err != nil {
		return Span{}, err
	}
	start, err := lineStart(ctx, ra, size, span.Offset)
	if err != nil {
		return Span{}, err
	}
	end := start
	if span.End() > start { // else the line goes on beyond the span
		if end, err = lineStart(ctx, ra, size, span.End()); err != nil {
			return Span{}, err
		}
	}
	return Span{Offset: start, Length: end - start}, nil
}

// lineStart returns the first start of a line that is not before at, or size. The
// rule asks for the byte before at: a line that starts at the very beginning of a
// span must belong to that span, and not also to the one before.
func lineStart(ctx context.Context, ra io.ReaderAt, size, at int64) (int64, error) {
	if at == 0 || at == size {
		return at, nil
	}
	src := newSpanSource(ra, Span{Offset: at - 1, Length: size - at + 1})
	buf := make([]byte, 4<<10)
	for {
		if err := ctx.Err(); err != nil {
			return 0, &Error{OffsetBytes: src.offset, Err: err}
		}
		before := src.offset
		n, err := src.read(buf)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return before + int64(i) + 1, nil
		}
		if err == io.EOF {
			return size, nil
		}
		if err != nil {
			return 0, &Error{OffsetBytes: src.offset, Err: err}
		}
	}
}
