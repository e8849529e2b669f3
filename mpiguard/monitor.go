package mpiguard

import (
	"slices"

	"github.com/mpiguard/mpiguard/internal/cgroup"
	"github.com/mpiguard/mpiguard/internal/kernfs"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

// monitor reads the constraints of one process again and again, through files
// that are held open. It is not safe for concurrent use.
type monitor struct {
	root     string
	pid      int
	fsys     *kernfs.FS
	keepFree float64
	// own: the usage of the own group is read even without a limit. It decides
	// nothing then.
	own  bool
	host host
	job  []Constraint // of the environment, which does not change

	membershipFile *kernfs.File
	membership     []byte            // what it said when groups was opened
	groups         *cgroup.Hierarchy // nil before the first refresh
	limitsFile     *kernfs.File      // nil for this process, which can ask the kernel
	self           *procfs.Self      // nil until its status is needed
	ram            ram
	notes          []string // what was met once and for all

	rows []row // how to read the usage of last.Constraints[i]
	last *Budget
	used []int64 // scratch
	buf  [16 << 10]byte
}

// row says where the usage of a constraint comes from.
type row struct {
	kind  rowKind
	group *cgroup.Group
}

type rowKind uint8

const (
	rowFixed        rowKind = iota // nothing here: the guard knows the usage of the job
	rowMemory                      // of a group
	rowSwap                        // of a group, with what it has in swap
	rowAddressSpace                // of the process
	rowData
	rowRAM
)

// openMonitor opens the files that say what limits the process. nodeLimitBytes
// is Config.LimitBytes, or the MPIGUARD_LIMIT that overrides it, 0 for none. It
// never fails: what cannot be opened is unknown.
func openMonitor(m Machine, keepFree float64, nodeLimitBytes int64) *monitor {
	mon := &monitor{root: m.Root, pid: m.PID, fsys: kernfs.New(m.Root), keepFree: keepFree}
	mon.host = hostOf(mon.fsys)
	mon.membershipFile, _ = mon.fsys.Open(procfs.Dir(m.PID) + "/cgroup")
	if m.PID != 0 || !mon.fsys.Live() {
		mon.limitsFile, _ = mon.fsys.Open(procfs.Dir(m.PID) + "/limits")
	}
	mon.ram.open(mon.fsys)
	mon.openJob(mon.environment(m), nodeLimitBytes)
	return mon
}

// close closes all files.
func (m *monitor) close() {
	m.membershipFile.Close()
	m.limitsFile.Close()
	if m.groups != nil {
		m.groups.Close()
	}
	if m.self != nil {
		m.self.Close()
	}
	m.ram.close()
	m.fsys.Close()
}

// refresh reads all limits and usages. changed: a limit, the set of constraints
// or the group of the process is not what it was at the last refresh.
func (m *monitor) refresh() (b *Budget, changed bool) {
	m.refreshGroups()
	m.refreshRAM()
	b = &Budget{
		Constraints: make([]Constraint, 0, len(m.rows)),
		KeepFree:    m.keepFree,
		ShareBytes:  UnknownBytes,
		Notes:       slices.Concat(m.notes, m.groups.Notes, m.ram.notes),
	}
	m.rows = m.rows[:0]
	for _, g := range m.groups.Groups {
		m.addGroup(b, g)
	}
	m.addHidden(b)
	m.addLimits(b)
	m.addJobs(b)
	m.add(b, row{kind: rowRAM}, Constraint{
		Source: "MemTotal", Path: m.ram.path, Scope: ScopeNode, LimitBytes: m.ram.memory.TotalBytes, id: m.id("ram", m.ram.path),
	})
	changed = m.last == nil || !slices.EqualFunc(m.last.Constraints, b.Constraints, func(x, y Constraint) bool {
		return x.id == y.id && x.Source == y.Source && x.LimitBytes == y.LimitBytes
	})
	m.last = b
	m.fillUsage(b)
	return b, changed
}

// fillUsage measures what counts against each constraint of a new Budget.
func (m *monitor) fillUsage(b *Budget) {
	n := len(b.Constraints)
	m.used = slices.Grow(m.used[:0], n)[:n]
	m.sample(m.used[:n-1], true)
	m.used[n-1] = m.ram.memory.UsedBytes // the last one, read together with its limit
	for i := range b.Constraints {
		c, g := &b.Constraints[i], m.rows[i].group
		c.UsedBytes = m.used[i]
		if g == nil {
			continue
		}
		if i == 0 || m.rows[i-1].group != g { // once for all limits of the group
			c.Notes = append(slices.Clip(g.Notes), c.Notes...)
		}
		if c.UsedBytes == UnknownBytes && c.LimitBytes != UnlimitedBytes {
			if _, err := g.Usage(m.buf[:]); err != nil {
				c.Notes = append(c.Notes, "usage unknown: "+err.Error())
			}
		}
	}
}

// sample stores at used[i] what counts against the last Budget's Constraints[i]
// now, UnknownBytes where there is no limit or nothing can be read. Unless full,
// the usage of what is far from its limit may be an upper bound that is cheaper
// to read. It does not allocate.
func (m *monitor) sample(used []int64, full bool) {
	for i := 0; i < len(used); {
		// The limits of a group are neighbours and share one reading.
		n := i + 1
		for n < len(used) && m.rows[i].group != nil && m.rows[n].group == m.rows[i].group {
			n++
		}
		m.measure(used[i:n], m.rows[i:n], m.last.Constraints[i:n], full)
		i = n
	}
}

// measure stores the usage of constraints that are read together.
func (m *monitor) measure(used []int64, rows []row, constraints []Constraint, full bool) {
	limit := UnlimitedBytes
	for i := range constraints {
		used[i] = UnknownBytes
		if n := constraints[i].LimitBytes; n != UnknownBytes {
			limit = min(limit, n)
		}
	}
	if limit == UnlimitedBytes && !(m.own && rows[0].group != nil && rows[0].group == m.groups.Groups[0]) {
		return
	}
	switch rows[0].kind {
	case rowMemory, rowSwap:
		u := m.groupUsage(rows[0].group, limit, full)
		for i, r := range rows {
			used[i] = u.MemoryBytes
			if r.kind == rowSwap && used[i] >= 0 {
				used[i] += u.SwapBytes
			}
		}
	case rowAddressSpace, rowData:
		used[0] = m.processUsage(rows[0].kind)
	case rowRAM:
		used[0] = m.ram.usedBytes(limit, full, m.buf[:])
	}
}

// farFromLimit is the fraction of a limit below which an upper bound of the
// usage is as good as the usage.
const farFromLimit = 0.7

func far(usedBytes, limitBytes int64) bool {
	return float64(usedBytes) < farFromLimit*float64(limitBytes)
}

func (m *monitor) groupUsage(g *cgroup.Group, limitBytes int64, full bool) cgroup.Usage {
	if !full {
		if u, ok := g.Ceiling(m.buf[:]); ok && far(u.MemoryBytes, limitBytes) {
			return u
		}
	}
	u, _ := g.Usage(m.buf[:])
	return u
}
