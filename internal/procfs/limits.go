package procfs

import (
	"bytes"
)

// Limits are the soft limits of a process on its address space, which the kernel
// enforces on the process alone.
type Limits struct {
	AddressSpaceBytes int64 // RLIMIT_AS
	DataBytes         int64 // RLIMIT_DATA
}

// ParseLimits parses /proc/PID/limits, described in proc_pid_limits(5).
func ParseLimits(text []byte) Limits {
	l := Limits{UnknownBytes, UnknownBytes}
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if value, ok := bytes.CutPrefix(line, []byte("Max data size ")); ok {
			l.DataBytes = rlimit(value)
		} else if value, ok := bytes.CutPrefix(line, []byte("Max address space ")); ok {
			l.AddressSpaceBytes = rlimit(value)
			break // the later of the two
		}
	}
	return l
}

// rlimit parses the first column of a row.
func rlimit(value []byte) int64 {
	value = bytes.TrimLeft(value, " ")
	if bytes.HasPrefix(value, []byte("unlimited")) {
		return UnlimitedBytes
	}
	if n, _, ok := number(value); ok {
		return n
	}
	return UnknownBytes
}
