package chunk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"unsafe"
)

// Lines yields the lines of r without their terminators. A line ends with "\n" or
// "\r\n"; a '\r' elsewhere is part of the line. What follows the last terminator
// is a line too, unless it is empty.
func Lines(ctx context.Context, r io.Reader, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := lines(ctx, newSource(r), cfg, yield); err != nil {
			yield(nil, err)
		}
	}
}

// LinesAt is Lines for the lines that start in a span of an input of size bytes
// (see LineSpan). Over the spans of Partition(size, ranks, rank), all ranks
// together read every line exactly once. An input that ends before size is
// io.ErrUnexpectedEOF; one that grows changes nothing.
func LinesAt(ctx context.Context, ra io.ReaderAt, size int64, span Span, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		span, err := LineSpan(ctx, ra, size, span)
		if err == nil {
			err = lines(ctx, newSpanSource(ra, span), cfg, yield)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// LineBlocks yields the contents of r in blocks of whole lines, terminators
// included: a block ends with '\n', but for the last one where the input does not.
// All blocks together are the input, byte for byte. It is for parsers that find
// the ends of lines themselves, which saves the cost of a step for every line.
//
// A block is at most as long as the Sizer says, or a single longer line; it may be
// shorter where r returns less. Lines are not counted: an error has its offset.
func LineBlocks(ctx context.Context, r io.Reader, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := lineBlocks(ctx, newSource(r), cfg, nil, func(b []byte) bool { return yield(b, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// LineBlocksAt is LineBlocks for the lines that start in a span of an input of
// size bytes, as in LinesAt. The blocks of all ranks together are the input.
func LineBlocksAt(ctx context.Context, ra io.ReaderAt, size int64, span Span, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		span, err := LineSpan(ctx, ra, size, span)
		if err == nil {
			err = lineBlocks(ctx, newSpanSource(ra, span), cfg, nil, func(b []byte) bool { return yield(b, nil) })
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// lines yields the lines of the blocks and returns the error to yield last.
func lines(ctx context.Context, src *source, cfg Config, yield func([]byte, error) bool) error {
	before := int64(0) // lines before the block
	if cfg.SplitLongLines {
		return lineBlocks(ctx, src, cfg, &before, func(block []byte) bool {
			for len(block) > 0 {
				end := bytes.IndexByte(block, '\n') + 1
				if end > 0 {
					before++
				} else {
					end = len(block)
				}
				if !yield(block[:end:end], nil) {
					return false
				}
				block = block[end:]
			}
			return true
		})
	}
	return lineBlocks(ctx, src, cfg, &before, func(block []byte) bool {
		n := int64(0)
		for at := 0; at < len(block); {
			line := tail(block, at)
			end := bytes.IndexByte(line, '\n')
			if end < 0 {
				end = len(line)
				at = len(block)
			} else {
				at += end + 1
				if end > 0 && line[end-1] == '\r' {
					end--
				}
			}
			n++
			if !yield(line[:end:end], nil) {
				return false
			}
		}
		before += n
		return true
	})
}

// tail returns b[at:] for an at below len(b). The compiler takes care that the
// pointer of an empty slice does not leave its array, which is a tenth of the time
// that a short line takes.
func tail(b []byte, at int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), at)), len(b)-at)
}

// lineBlocks calls yield for each block and returns the error to yield last. The
// number of lines in former blocks is for that error, and nil when they are not
// counted: that would take a quarter of the time of reading.
func lineBlocks(ctx context.Context, src *source, cfg Config, before *int64, yield func([]byte) bool) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if src.left == 0 {
		return nil
	}
	// Room for the terminator, and for the read that finds no more.
	most := cfg.MaxLineBytes + 1
	in := newFeed(src, cfg, 0)
	defer in.close()
	fail := func(offset int64, err error) error {
		e := &Error{OffsetBytes: offset, Err: err}
		if before != nil {
			e.Line = *before + 1
		}
		return e
	}
	var rest []byte // of the data: a line without its end
	grow := int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return fail(in.offset(), err)
		}
		data, full, err := in.next(ctx, rest, grow)
		if data == nil && err != nil && err != io.EOF {
			return fail(in.offset()-int64(len(rest)), err)
		}
		end := bytes.LastIndexByte(data[len(rest):], '\n') + 1
		switch size := int64(len(data)); {
		case end > 0:
			end += len(rest)
		case err == io.EOF:
			end = len(data)
		case size >= most && cfg.SplitLongLines:
			end = int(cfg.MaxLineBytes)
		}
		rest, grow = data[end:], 0
		if end > 0 {
			if err == nil {
				in.ahead(rest)
			}
			if !yield(data[:end:end]) {
				return nil
			}
		}
		begun := in.offset() - int64(len(rest))
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fail(in.offset(), err)
		case !full || end > 0:
		case int64(len(data)) < most:
			grow = min(2*int64(len(data)), most)
		default:
			return fail(begun, fmt.Errorf("%w: no end within %d bytes", ErrLineTooLong, cfg.MaxLineBytes))
		}
	}
}
