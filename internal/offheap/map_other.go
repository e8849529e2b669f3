//go:build !linux

package offheap

// Mapped reports whether memory of this package is outside the Go heap.
const Mapped = false

// Map returns n bytes of zeroes of the Go heap.
func Map(n int64, _ bool) ([]byte, error) {
	if err := checkSize(n); err != nil {
		return nil, err
	}
	return make([]byte, n), nil
}

// Populate makes b resident.
func Populate(b []byte) error {
	for i := 0; i < len(b); i += int(PageBytes) {
		b[i] = 0
	}
	return nil
}

// Unmap leaves the memory to the garbage collector.
func Unmap([]byte) error { return nil }

// Remap returns b with a size of n bytes, as a copy when it grows.
func Remap(b []byte, n int64) ([]byte, error) {
	if err := checkSize(n); err != nil {
		return nil, err
	}
	if n <= int64(cap(b)) {
		return b[:n], nil
	}
	c := make([]byte, n)
	copy(c, b)
	return c, nil
}
