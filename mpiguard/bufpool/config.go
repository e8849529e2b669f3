package bufpool

import (
	"fmt"

	"github.com/mpiguard/mpiguard/internal/offheap"
)

// Config says what a pool consists of.
type Config struct {
	// BufferBytes is the length of each buffer, at least 1. In memory a buffer
	// takes whole pages.
	BufferBytes int64
	// Buffers is their number, at least 1.
	Buffers int
	// ForMPI says that MPI will read and write the buffers. They are then neither
	// trimmed nor unmapped before Close: a network library may have registered
	// them, and learns of an unmapping only where libc does it, which Go does not
	// use. Close such a pool after the communication over it has ended.
	ForMPI bool
	// HugePages advises the kernel to use huge pages (madvise(2), MADV_HUGEPAGE),
	// which makes large buffers several times faster to fault in. A buffer then
	// takes a multiple of 2 MiB. Without effect outside Linux.
	HugePages bool
}

// stride returns the memory that one buffer takes.
func (c Config) stride() (int64, error) {
	if c.BufferBytes < 1 {
		return 0, fmt.Errorf("bufpool: Config.BufferBytes is %d, must be at least 1", c.BufferBytes)
	}
	if c.Buffers < 1 {
		return 0, fmt.Errorf("bufpool: Config.Buffers is %d, must be at least 1", c.Buffers)
	}
	unit := offheap.PageBytes
	if c.HugePages {
		unit = offheap.HugeBytes
	}
	stride := offheap.RoundUp(c.BufferBytes, unit)
	if stride > offheap.MaxBytes/int64(c.Buffers) {
		return 0, fmt.Errorf("bufpool: Config.Buffers × Config.BufferBytes, %d × %d, is more than an address space holds", c.Buffers, c.BufferBytes)
	}
	return stride, nil
}
