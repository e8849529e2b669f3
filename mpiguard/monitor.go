package mpiguard

import (
	"hash/fnv"
	"runtime"
	"slices"

	"github.com/mpiguard/mpiguard/internal/kernfs"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

// monitor reads the constraints of one process again and again, through
// descriptors that are held open. It is not safe for concurrent use.
type monitor struct {
	fsys           *kernfs.FS
	keepFree       float64
	nodeLimitBytes int64
	meminfo        *kernfs.File
	last           *Budget
	buf            [16 << 10]byte
}

func openMonitor(m Machine, keepFree float64, nodeLimitBytes int64) *monitor {
	mon := &monitor{fsys: kernfs.New(m.Root), keepFree: keepFree, nodeLimitBytes: nodeLimitBytes}
	mon.meminfo, _ = mon.fsys.Open("proc/meminfo")
	return mon
}

func (m *monitor) close() {
	m.meminfo.Close()
	m.fsys.Close()
}

// refresh reads all limits and uses. changed: a limit, the set of constraints or
// the group of the process is not what it was at the last refresh.
func (m *monitor) refresh() (b *Budget, changed bool) {
	b = &Budget{KeepFree: m.keepFree, ShareBytes: UnknownBytes}
	if m.nodeLimitBytes > 0 {
		b.Constraints = append(b.Constraints, Constraint{
			Source: "MPIGUARD_LIMIT", Path: "MPIGUARD_LIMIT", Scope: ScopeJob, Kind: KindAdvisory,
			LimitBytes: m.nodeLimitBytes, UsedBytes: UnknownBytes, id: constraintID("job"), cpus: runtime.NumCPU(),
		})
	}
	limit, used := m.node()
	b.Constraints = append(b.Constraints, Constraint{
		Source: "MemTotal", Path: "/proc/meminfo", Scope: ScopeNode, Kind: KindHard,
		LimitBytes: limit, UsedBytes: used, id: constraintID("ram"), cpus: runtime.NumCPU(),
	})
	changed = m.last == nil || !slices.EqualFunc(m.last.Constraints, b.Constraints, func(x, y Constraint) bool {
		return x.id == y.id && x.LimitBytes == y.LimitBytes
	})
	m.last = b
	return b, changed
}

func (m *monitor) node() (limit, used int64) {
	if m.meminfo == nil {
		return UnknownBytes, UnknownBytes
	}
	text, err := m.meminfo.Read(m.buf[:])
	if err != nil {
		return UnknownBytes, UnknownBytes
	}
	info := procfs.ParseMeminfo(text)
	return info.TotalBytes, info.TotalBytes - info.AvailableBytes
}

// sample stores at used[i] what counts against the last Budget's Constraints[i]
// now, UnknownBytes where there is no limit or nothing can be read.
func (m *monitor) sample(used []int64, full bool) {
	for i, c := range m.last.Constraints {
		used[i] = UnknownBytes
		if c.Scope == ScopeNode {
			_, used[i] = m.node()
		}
	}
}

func constraintID(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}
