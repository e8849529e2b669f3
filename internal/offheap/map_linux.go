package offheap

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapped reports whether memory of this package is outside the Go heap.
const Mapped = true

// Map returns n bytes of zeroes at the start of a page, none of them resident. n
// is a multiple of PageBytes. With huge, the memory starts at a huge page and the
// kernel is advised to use such pages (madvise(2), MADV_HUGEPAGE).
func Map(n int64, huge bool) ([]byte, error) {
	if err := checkSize(n); err != nil {
		return nil, err
	}
	size := uintptr(n)
	spare := uintptr(0)
	if huge {
		spare = HugeBytes
	}
	p, err := unix.MmapPtr(-1, 0, nil, size+spare, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if huge {
		head := -uintptr(p) % HugeBytes
		p = cut(p, head, size, spare-head)
		// Advice: a kernel without huge pages serves small ones.
		_ = unix.Madvise(unsafe.Slice((*byte)(p), n), unix.MADV_HUGEPAGE)
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// cut unmaps the head and the tail around size bytes and returns where these start.
func cut(p unsafe.Pointer, head, size, tail uintptr) unsafe.Pointer {
	if head > 0 {
		_ = unix.MunmapPtr(p, head)
	}
	p = unsafe.Add(p, head)
	if tail > 0 {
		_ = unix.MunmapPtr(unsafe.Add(p, size), tail)
	}
	return p
}

// Populate makes b, whole pages of a mapping, resident and writable without a
// fault: by MADV_POPULATE_WRITE (Linux 5.14), and by touch on older kernels.
func Populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if err == unix.EINVAL {
		for i := 0; i < len(b); i += int(PageBytes) {
			b[i] = 0
		}
		return nil
	}
	return os.NewSyscallError("madvise", err)
}

// Unmap ends a mapping. Any use of b after that faults.
func Unmap(b []byte) error {
	return os.NewSyscallError("munmap", unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))))
}

// Remap returns the mapping b with a size of n bytes, a multiple of PageBytes. It
// may be elsewhere; the pages move without a copy, and b must not be used any
// more. What is new is zero and not resident. On an error b stays as it is.
func Remap(b []byte, n int64) ([]byte, error) {
	if err := checkSize(n); err != nil {
		return nil, err
	}
	p, err := unix.MremapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), nil, uintptr(n), unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil, fmt.Errorf("mremap from %d to %d bytes: %w", len(b), n, err)
	}
	return unsafe.Slice((*byte)(p), n), nil
}
