package cgroup

import (
	"bytes"
	"math"
)

// UnknownBytes stands for a number that cannot be read, UnlimitedBytes for a
// limit that is not set. They equal the constants of package mpiguard.
const (
	UnknownBytes   int64 = -1
	UnlimitedBytes int64 = math.MaxInt64
)

// Usage is what a group uses that cannot be dropped: page cache and reclaimable
// slab are no part of it, shared memory and tmpfs are.
type Usage struct {
	MemoryBytes int64 // counts against the limit of memory
	SwapBytes   int64 // what of it is in swap, on top (version 1)
}

// stat is what is read of a memory.stat file; absent rows are UnknownBytes.
type stat struct {
	anon, shmem, swap    int64
	activeAnon, inactive int64 // the lists of anonymous and shared pages
	kernel               int64 // all kernel memory but sock, since Linux 5.18
	kernelRows           int64 // sum of the kernel's rows that cannot be reclaimed
	reclaimable, sock    int64
	hugetlb              int64
	hierarchicalLimit    int64
}

var noStat = stat{-1, -1, -1, -1, -1, -1, 0, -1, 0, 0, UnlimitedBytes}

// statV2 parses the memory.stat of version 2 (cgroup-v2.rst). It does not
// allocate; rows that it does not know, or that hold no number, are passed over.
func statV2(text []byte) stat {
	s := noStat
	for len(text) > 0 {
		var key []byte
		var n int64
		var ok bool
		if key, n, text, ok = keyValue(text); !ok {
			continue
		}
		switch string(key) {
		case "anon":
			s.anon = n
		case "shmem":
			s.shmem = n
		case "inactive_anon":
			s.inactive = n
		case "active_anon":
			s.activeAnon = n
		case "kernel":
			s.kernel = n
		case "slab_reclaimable":
			s.reclaimable = n
		case "sock":
			s.sock = n
		case "hugetlb":
			s.hugetlb = n
		case "kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc", "slab_unreclaimable":
			s.kernelRows += n
		}
	}
	return s
}

// statV1 parses the memory.stat of version 1 (cgroup-v1/memory.rst): its rows
// that count the groups below too.
func statV1(text []byte) stat {
	s := noStat
	for len(text) > 0 {
		var key []byte
		var n int64
		var ok bool
		if key, n, text, ok = keyValue(text); !ok {
			continue
		}
		switch string(key) {
		case "total_rss":
			s.anon = n
		case "total_shmem":
			s.shmem = n
		case "total_swap":
			s.swap = n
		case "total_inactive_anon":
			s.inactive = n
		case "total_active_anon":
			s.activeAnon = n
		case "hierarchical_memory_limit":
			if n < maxRowBytes {
				s.hierarchicalLimit = n
			}
		}
	}
	return s
}

// usage adds the rows up. Not ok: the row without which there is no figure is
// missing, as in sandboxes.
func (s stat) usage() (Usage, bool) {
	if s.anon < 0 {
		return unknownUsage, false
	}
	shmem := s.shmem
	if shmem < 0 && s.inactive >= 0 && s.activeAnon >= 0 {
		// Old kernels (CentOS 7) have no such row, but pages of tmpfs are on the
		// lists of anonymous pages.
		shmem = s.inactive + s.activeAnon - s.anon
	}
	kernel := s.kernelRows
	if s.kernel >= 0 && s.reclaimable >= 0 {
		// Everything, also what no row of its own counts (zswap, large kmalloc).
		kernel = max(kernel, s.kernel-s.reclaimable)
	}
	return Usage{
		MemoryBytes: s.anon + max(shmem, 0) + kernel + s.sock + s.hugetlb,
		SwapBytes:   max(s.swap, 0),
	}, true
}

// maxRowBytes is above what any machine has, and so low that sums of rows do not
// overflow.
const maxRowBytes = 1 << 53

// keyValue takes one line "key number" off the text; numbers are capped at
// maxRowBytes.
func keyValue(text []byte) (key []byte, n int64, rest []byte, ok bool) {
	line := text
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		line, rest = text[:i], text[i+1:]
	}
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return nil, 0, rest, false
	}
	u, ok := parseUint(line[i+1:])
	return line[:i], int64(min(u, maxRowBytes)), rest, ok
}

// parseUint parses a decimal number of 64 bits that is all of the text.
func parseUint(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	for _, c := range text {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
