package chunk

import "fmt"

// Span is the part [Offset, Offset+Length) of something, in the unit of what was
// partitioned: bytes of a file, elements of a slice, records.
type Span struct {
	Offset, Length int64
}

// End returns Offset + Length.
func (s Span) End() int64 { return s.Offset + s.Length }

// String returns the span as an interval.
func (s Span) String() string { return fmt.Sprintf("[%d, %d)", s.Offset, s.End()) }

// valid reports whether s is a part of [0, size).
func (s Span) valid(size int64) error {
	if s.Offset < 0 || s.Length < 0 || s.Length > size-s.Offset {
		return &Error{OffsetBytes: s.Offset, Err: fmt.Errorf("a span of length %d is not within [0, %d)", s.Length, size)}
	}
	return nil
}

// Partition returns the part of rank when size units are dealt to ranks: the
// spans of all ranks follow each other, cover [0, size) and differ in length by
// at most one unit. It panics on a negative size, and when rank is not in
// [0, ranks).
func Partition(size int64, ranks, rank int) Span {
	if size < 0 {
		panic("chunk: Partition: negative size")
	}
	if rank < 0 || rank >= ranks {
		panic(fmt.Sprintf("chunk: Partition: rank %d of %d", rank, ranks))
	}
	n, k := int64(ranks), int64(rank)
	short, longer := size/n, size%n // the first ranks have one more
	s := Span{Offset: k*short + min(k, longer), Length: short}
	if k < longer {
		s.Length++
	}
	return s
}
