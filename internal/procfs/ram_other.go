//go:build !linux

package procfs

import "github.com/pbnjay/memory"

// RAM returns the memory of the running system; what of it is free is not known
// here, UnknownBytes.
func RAM() (totalBytes, freeBytes int64) {
	total := memory.TotalMemory()
	if total == 0 || total > 1<<62 {
		return UnknownBytes, UnknownBytes
	}
	return int64(total), UnknownBytes
}
