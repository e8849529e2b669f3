package chunk

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"reflect"
	"unsafe"

	"github.com/mpiguard/mpiguard/internal/offheap"
)

// Records yields the binary records of ra in a span that counts records, the first
// one being at offset 0:
//
//	span := chunk.Partition(size/recordBytes, ranks, rank)
//
// T is a number, or a struct or array of numbers, without pointers and of fixed
// size; an error names what is not. A record stands in the file as encoding/binary
// writes it: the fields in order, without padding, in the byte order of
// Config.ByteOrder. Where that is also how T stands in memory (no padding, no bool,
// the byte order of the machine), the yielded slice is the buffer itself; otherwise
// the records are converted within the buffer.
//
// Headers before the records are skipped by an io.SectionReader. An input that ends
// before the span does is io.ErrUnexpectedEOF.
func Records[T any](ctx context.Context, ra io.ReaderAt, span Span, cfg Config) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		if err := records(ctx, ra, span, cfg, yield); err != nil {
			yield(nil, err)
		}
	}
}

func records[T any](ctx context.Context, ra io.ReaderAt, span Span, cfg Config, yield func([]T, error) bool) error {
	l, err := layoutOf(reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	if err := span.valid(math.MaxInt64 / l.fileBytes); err != nil {
		return err
	}
	src := newSpanSource(ra, Span{span.Offset * l.fileBytes, span.Length * l.fileBytes})
	order := cfg.ByteOrder
	if order == nil {
		order = binary.LittleEndian
	}
	swap := order.Uint16([]byte{1, 0}) != binary.NativeEndian.Uint16([]byte{1, 0})
	if l.same() && !swap {
		return read(ctx, src, cfg, l.fileBytes, func(block []byte, _ error) bool {
			return yield(valuesOf[T](block), nil)
		})
	}

	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	values := offheap.NewBuffer(cfg.Account)
	defer values.Free()
	var failed error
	err = read(ctx, src, cfg, l.fileBytes, func(block []byte, _ error) bool {
		mem, e := room(ctx, values, int64(len(block))/l.fileBytes, l.memoryBytes)
		if e != nil {
			failed = &Error{OffsetBytes: src.offset - int64(len(block)), Err: e}
			return false
		}
		for len(block) > 0 {
			n := min(int64(len(mem))/l.memoryBytes, int64(len(block))/l.fileBytes)
			part := mem[:n*l.memoryBytes]
			l.decode(part, block, swap)
			if !yield(valuesOf[T](part), nil) {
				return false
			}
			block = block[n*l.fileBytes:]
		}
		return true
	})
	return cmp.Or(failed, err)
}

// room makes b as large as n values of size bytes, or less where the account
// refuses that; it waits for one value.
func room(ctx context.Context, b *offheap.Buffer, n, size int64) ([]byte, error) {
	have := int64(len(b.Bytes()))
	if want := n * size; want > have || want < have/2 {
		if b.TryResize(want) != nil && have < size {
			if err := b.Resize(ctx, size); err != nil {
				return nil, fmt.Errorf("buffer of %d bytes: %w", size, err)
			}
		}
	}
	return b.Bytes(), nil
}

// valuesOf returns whole values that stand in mem.
func valuesOf[T any](mem []byte) []T {
	p := (*T)(unsafe.Pointer(unsafe.SliceData(mem)))
	n := len(mem) / int(unsafe.Sizeof(*p))
	return unsafe.Slice(p, n)[:n:n]
}

// Load lets the program fill batches: fill stores values at the front of its
// argument and returns how many, as an io.Reader does with bytes, with io.EOF at the
// end. Each batch but the last has as many values as take the bytes that the Sizer
// says, and one at least. T must not hold pointers, since the batch is outside the
// Go heap; an error names what does. What fill stored before an error is yielded
// before that error.
func Load[T any](ctx context.Context, fill func(batch []T) (int, error), cfg Config) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		if err := load(ctx, fill, cfg, yield); err != nil {
			yield(nil, err)
		}
	}
}

func load[T any](ctx context.Context, fill func([]T) (int, error), cfg Config, yield func([]T, error) bool) error {
	t := reflect.TypeFor[T]()
	size := int64(t.Size())
	if name := pointerIn(t, t.String()); name != "" {
		return fmt.Errorf("chunk: %s holds a pointer", name)
	}
	if size == 0 {
		return fmt.Errorf("chunk: %s takes no bytes", t)
	}
	src := newSource(readFunc(func(p []byte) (int, error) {
		n, err := fill(valuesOf[T](p))
		return n * int(size), err
	}))
	return read(ctx, src, cfg, size, func(block []byte, _ error) bool {
		return yield(valuesOf[T](block), nil)
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
