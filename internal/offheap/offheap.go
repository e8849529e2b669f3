// Package offheap maps memory outside the Go heap and keeps the account of a
// caller in step with it. The garbage collector neither sees nor moves such
// memory, and it counts neither for GOGC nor for the Go memory limit.
//
// Where there is no mmap the Go heap serves instead (Mapped is false): the same
// calls work, and nothing is committed.
package offheap

import (
	"fmt"
	"math"
	"os"
)

// HugeBytes is the size of a huge page that the package aligns to: that of
// x86-64, and of arm64 with pages of 4 KiB.
const HugeBytes = 2 << 20

// MaxBytes bounds what can be mapped: no address space holds more.
const MaxBytes = math.MaxInt - HugeBytes

// PageBytes is the unit in which memory becomes resident.
var PageBytes = int64(os.Getpagesize())

// RoundUp returns the least multiple of unit that is not below n, or
// math.MaxInt64 if there is none.
func RoundUp(n, unit int64) int64 {
	if n > math.MaxInt64-unit {
		return math.MaxInt64
	}
	return (n + unit - 1) / unit * unit
}

// checkSize tells sizes that an address space cannot hold from the rest.
func checkSize(n int64) error {
	if n <= 0 || n > MaxBytes {
		return fmt.Errorf("offheap: cannot map %d bytes", n)
	}
	return nil
}
