package chunk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/mpiguard/mpiguard/internal/invariants"
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
// shorter where r returns less.
func LineBlocks(ctx context.Context, r io.Reader, cfg Config) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := lineBlocks(ctx, newSource(r), cfg, countLines(yield)); err != nil {
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
			err = lineBlocks(ctx, newSpanSource(ra, span), cfg, countLines(yield))
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// blockFunc takes a block and returns how many lines it had, and whether to go on.
type blockFunc func(block []byte) (lines int64, more bool)

func countLines(yield func([]byte, error) bool) blockFunc {
	return func(block []byte) (int64, bool) {
		n := bytes.Count(block, newline)
		return int64(n), yield(block, nil)
	}
}

var newline = []byte{'\n'}

// lines yields the lines of the blocks.
func lines(ctx context.Context, src *source, cfg Config, yield func([]byte, error) bool) error {
	if cfg.SplitLongLines {
		return lineBlocks(ctx, src, cfg, func(block []byte) (n int64, more bool) {
			for len(block) > 0 {
				end := bytes.IndexByte(block, '\n') + 1
				if end > 0 {
					n++
				} else {
					end = len(block)
				}
				if !yield(block[:end:end], nil) {
					return n, false
				}
				block = block[end:]
			}
			return n, true
		})
	}
	return lineBlocks(ctx, src, cfg, func(block []byte) (n int64, more bool) {
		for len(block) > 0 {
			end := bytes.IndexByte(block, '\n')
			line, rest := block, []byte(nil)
			if end >= 0 {
				rest = block[end+1:]
				if end > 0 && block[end-1] == '\r' {
					end--
				}
				line = block[:end:end]
			}
			n++
			if !yield(line, nil) {
				return n, false
			}
			block = rest
		}
		return n, true
	})
}

// lineBlocks calls yield for each block and returns the error to yield last.
func lineBlocks(ctx context.Context, src *source, cfg Config, yield blockFunc) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	if src.left == 0 {
		return nil
	}
	// Room for the terminator, and for the read that finds no more.
	most := cfg.MaxLineBytes + 1
	w := newWindow(cfg, min(src.left, math.MaxInt64-1)+1)
	defer w.free()
	line := int64(1)  // the number of the first line in the window
	carry := int64(0) // bytes at the front of the window, without a '\n'
	fail := func(offset int64, err error) error {
		return &Error{OffsetBytes: offset, Line: line, Err: err}
	}
	for {
		if err := ctx.Err(); err != nil {
			return fail(src.offset, err)
		}
		buf, err := w.next(ctx, carry)
		if err != nil {
			return fail(src.offset, err)
		}
		m, err := src.read(buf[carry:])
		fill := carry + int64(m)
		end := carry + int64(bytes.LastIndexByte(buf[carry:fill], '\n')) + 1
		switch {
		case end > carry: // there is a '\n'
		case err == io.EOF:
			end = fill
		case fill == most && cfg.SplitLongLines:
			end = cfg.MaxLineBytes
		default:
			end = 0
		}
		if end > 0 {
			n, more := yield(buf[:end:end])
			if !more {
				return nil
			}
			line += n
			fill = int64(copy(buf, buf[end:fill]))
			invariants.Poison(buf[fill:max(fill, end)])
		}
		carry = fill
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fail(src.offset, err)
		case carry < int64(len(buf)):
		case carry < most:
			if err := w.grow(ctx, most); err != nil {
				return fail(src.offset-carry, err)
			}
		default:
			return fail(src.offset-carry, fmt.Errorf("%w: no end within %d bytes", ErrLineTooLong, cfg.MaxLineBytes))
		}
	}
}
