package chunk

import (
	"iter"
	"unsafe"
)

// Slice yields s in consecutive parts, like slices.Chunk, with as many elements as
// take the bytes that the Sizer says, and one at least. The parts share memory
// with s. Nothing is charged to the account: s is there already.
func Slice[T any](s []T, cfg Config) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		sizer := cfg.Sizer
		if sizer == nil {
			sizer = defaultSizer(cfg.Account)
		}
		var zero T
		each := max(int64(unsafe.Sizeof(zero)), 1)
		for len(s) > 0 {
			if int64(len(s)) <= sizer.limits.min/each { // whatever the next size is
				yield(s[:len(s):len(s)])
				return
			}
			n := min(max(sizer.Next()/each, 1), int64(len(s)))
			if !yield(s[:n:n]) {
				return
			}
			s = s[n:]
		}
	}
}
