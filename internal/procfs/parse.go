// Package procfs reads what /proc says of a process and of the machine's
// memory. Each parser is a pure function of the file's text; kB become bytes in
// them and nowhere else.
package procfs

import (
	"bytes"
	"math"
)

// UnknownBytes stands for a number that the kernel does not give; UnlimitedBytes
// for a limit that is not set. They equal the constants of package mpiguard.
const (
	UnknownBytes   int64 = -1
	UnlimitedBytes int64 = math.MaxInt64
)

// Statm is /proc/PID/statm, in pages.
type Statm struct{ SizePages, ResidentPages, SharedPages int64 }

// ParseStatm parses a statm file.
func ParseStatm(text []byte) (Statm, bool) {
	var f [3]int64
	for i := range f {
		n, rest, ok := number(text)
		// Above 2^50 pages nothing is a process, and products would overflow.
		if !ok || n > 1<<50 {
			return Statm{}, false
		}
		f[i], text = n, rest
	}
	return Statm{f[0], f[1], f[2]}, true
}

// Status is the memory of a process. What its file lacks is UnknownBytes
// (sandboxes such as gVisor show a part only).
type Status struct {
	RssAnonBytes  int64 // resident private memory
	RssFileBytes  int64 // resident pages of files
	RssShmemBytes int64 // resident shared memory: System V, tmpfs, shared anonymous
	HWMBytes      int64 // the highest resident size so far
	VmSizeBytes   int64 // address space, the figure that RLIMIT_AS limits
	VmDataBytes   int64 // private writable mappings, the figure that RLIMIT_DATA limits
}

var unknownStatus = Status{UnknownBytes, UnknownBytes, UnknownBytes, UnknownBytes, UnknownBytes, UnknownBytes}

// ParseStatus parses a status file.
func ParseStatus(text []byte) Status {
	s := unknownStatus
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		// All rows of interest start with R or V: most lines are passed over here.
		if len(line) == 0 || line[0] != 'R' && line[0] != 'V' {
			continue
		}
		key, value, ok := bytes.Cut(line, colon)
		if !ok {
			continue
		}
		switch string(key) {
		case "RssAnon":
			s.RssAnonBytes = kilobytes(value)
		case "RssFile":
			s.RssFileBytes = kilobytes(value)
		case "RssShmem":
			s.RssShmemBytes = kilobytes(value)
		case "VmHWM":
			s.HWMBytes = kilobytes(value)
		case "VmSize":
			s.VmSizeBytes = kilobytes(value)
		case "VmData":
			s.VmDataBytes = kilobytes(value)
			return s // the last of them
		}
	}
	return s
}

// memsAllowed returns the list of NUMA nodes of a status file, or nil.
func memsAllowed(status []byte) []byte {
	for len(status) > 0 {
		var line []byte
		line, status = cutLine(status)
		if list, ok := bytes.CutPrefix(line, []byte("Mems_allowed_list:")); ok {
			return trim(list)
		}
	}
	return nil
}

// ParseStartTime returns field 22 of a stat file. The name in field 2 may hold
// spaces and parentheses, so fields are counted from its end.
func ParseStartTime(stat []byte) (uint64, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	f := bytes.Fields(stat[end+1:])
	if len(f) < 20 {
		return 0, false
	}
	n, rest, ok := number(f[19])
	return uint64(n), ok && len(rest) == 0
}
