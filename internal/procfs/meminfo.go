package procfs

import (
	"bytes"
	"strings"
)

// Meminfo is /proc/meminfo or, with the rows that it has, the meminfo of one
// NUMA node. What is not there is UnknownBytes. Source: proc_meminfo(5).
type Meminfo struct {
	TotalBytes        int64
	FreeBytes         int64
	AvailableBytes    int64 // not of a node, nor before Linux 3.14
	ActiveFileBytes   int64
	InactiveFileBytes int64
	SReclaimableBytes int64
	HugePageBytes     int64 // the default size of huge pages; not of a node
	HugetlbBytes      int64 // the pools of huge pages of all sizes; not of a node, nor before Linux 4.16
	HugePages         int64 // how many pages the pool of the default size has
}

// ParseMeminfo parses /proc/meminfo, or the meminfo of a NUMA node, whose lines
// start with "Node N ". It does not allocate.
func ParseMeminfo(text []byte) Meminfo {
	m := Meminfo{-1, -1, -1, -1, -1, -1, -1, -1, -1}
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if rest, ok := bytes.CutPrefix(line, nodePrefix); ok {
			_, line, _ = bytes.Cut(rest, space)
		}
		if len(line) == 0 || strings.IndexByte("MAISH", line[0]) < 0 {
			continue // most lines are passed over here
		}
		key, value, ok := bytes.Cut(line, colon)
		if !ok {
			continue
		}
		switch string(key) {
		case "MemTotal":
			m.TotalBytes = kilobytes(value)
		case "MemFree":
			m.FreeBytes = kilobytes(value)
		case "MemAvailable":
			m.AvailableBytes = kilobytes(value)
		case "Active(file)":
			m.ActiveFileBytes = kilobytes(value)
		case "Inactive(file)":
			m.InactiveFileBytes = kilobytes(value)
		case "SReclaimable":
			m.SReclaimableBytes = kilobytes(value)
		case "Hugepagesize":
			m.HugePageBytes = kilobytes(value)
		case "Hugetlb":
			m.HugetlbBytes = kilobytes(value)
		case "HugePages_Total":
			if n, _, ok := number(value); ok && n < maxKilobytes {
				m.HugePages = n
			}
		}
	}
	return m
}

// Memory is what there is of memory, and what of it is used up: it holds neither
// nothing nor cache that can be dropped. The pools of huge pages are in neither.
type Memory struct{ TotalBytes, UsedBytes, PoolBytes int64 }

// Memory adds the rows up; hugePageBytes is the size of the pages in the pool
// that m counts without a size of its own. Not ok: a row that is needed is missing.
func (m Meminfo) Memory(hugePageBytes int64) (Memory, bool) {
	pool := m.HugetlbBytes
	if pool < 0 {
		pool = 0
		if m.HugePages > 0 && hugePageBytes > 0 && m.HugePages < maxKilobytes/hugePageBytes {
			pool = m.HugePages * hugePageBytes
		}
	}
	available := m.AvailableBytes
	if available < 0 {
		if m.FreeBytes < 0 || m.ActiveFileBytes < 0 || m.InactiveFileBytes < 0 {
			return Memory{UnknownBytes, UnknownBytes, UnknownBytes}, false
		}
		available = m.FreeBytes + m.ActiveFileBytes + m.InactiveFileBytes + max(m.SReclaimableBytes, 0)/2
	}
	total := m.TotalBytes - pool
	if m.TotalBytes <= 0 || total < 0 {
		return Memory{UnknownBytes, UnknownBytes, UnknownBytes}, false
	}
	return Memory{total, max(total-available, 0), pool}, true
}

var (
	nodePrefix = []byte("Node ")
	space      = []byte(" ")
)
