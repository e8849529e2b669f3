package mpiguard

import (
	"bytes"
	"encoding/binary"

	"github.com/mpiguard/mpiguard/internal/cgroup"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

// sources name the limits of a group by version.
var sources = map[int]struct{ max, second string }{
	1: {"cgroup v1 memory.limit_in_bytes", "cgroup v1 memory.memsw.limit_in_bytes"},
	2: {"cgroup v2 memory.max", "cgroup v2 memory.high"},
}

// refreshGroups reads the limits of the groups, and finds the groups anew when
// the process was moved.
func (m *monitor) refreshGroups() {
	var text []byte
	if m.membershipFile != nil {
		text, _ = m.membershipFile.Read(m.buf[:])
	}
	if m.groups != nil {
		if bytes.Equal(text, m.membership) && m.groups.Refresh(m.buf[:]) == nil {
			return
		}
		m.groups.Close()
	}
	m.membership = append(m.membership[:0], text...)
	m.groups = cgroup.Open(m.fsys, m.pid, m.membership, m.buf[:])
}

// add appends a constraint and how its usage is read.
func (m *monitor) add(b *Budget, r row, c Constraint) {
	c.UsedBytes, c.cpus = UnknownBytes, m.host.cpus
	b.Constraints = append(b.Constraints, c)
	m.rows = append(m.rows, r)
}

// addGroup adds the limits of one level.
func (m *monitor) addGroup(b *Budget, g *cgroup.Group) {
	if g.Absent {
		return
	}
	source := sources[m.groups.Version]
	c := Constraint{Path: g.Path, Scope: ScopeCgroup, Killed: g.Killed}
	c.Source, c.LimitBytes, c.id = source.max, g.MaxBytes, m.groupID(g, source.max)
	m.add(b, row{rowMemory, g}, c)
	if g.SecondBytes == UnlimitedBytes {
		return
	}
	c.Source, c.LimitBytes, c.id = source.second, g.SecondBytes, m.groupID(g, source.second)
	if m.groups.Version == 1 {
		m.add(b, row{rowSwap, g}, c)
		return
	}
	c.Kind, c.Throttled = KindSoft, g.Throttled
	m.add(b, row{rowMemory, g}, c)
}

// addHidden adds the limit of a group that cannot be seen. What is used there is
// at least what is used at the top of what can be seen.
func (m *monitor) addHidden(b *Budget) {
	if m.groups.HiddenBytes == UnlimitedBytes {
		return
	}
	top := m.groups.Top()
	m.add(b, row{rowMemory, top}, Constraint{
		Source: "cgroup v1 hierarchical_memory_limit", Path: "above " + top.Path, Scope: ScopeCgroup,
		LimitBytes: m.groups.HiddenBytes, id: m.groupID(top, "hidden"),
		Notes: []string{"the group cannot be seen: used is the part of " + top.Path + " alone"},
	})
}

// addLimits adds the RLIMITs that count address space.
func (m *monitor) addLimits(b *Budget) {
	limits := procfs.Limits{AddressSpaceBytes: UnknownBytes, DataBytes: UnknownBytes}
	if m.limitsFile != nil {
		if text, err := m.limitsFile.Read(m.buf[:]); err == nil {
			limits = procfs.ParseLimits(text)
		}
	} else if m.ownProcess() {
		limits = procfs.OwnLimits()
	}
	path := "/" + procfs.Dir(m.pid) + "/limits"
	m.add(b, row{kind: rowAddressSpace}, Constraint{Source: "RLIMIT_AS", Path: path, Scope: ScopeProcess, LimitBytes: limits.AddressSpaceBytes})
	m.add(b, row{kind: rowData}, Constraint{Source: "RLIMIT_DATA", Path: path, Scope: ScopeProcess, LimitBytes: limits.DataBytes})
}

// ownProcess reports whether the monitor is of this process.
func (m *monitor) ownProcess() bool { return m.pid == 0 && m.fsys.Live() }

// processUsage is what counts against an RLIMIT.
func (m *monitor) processUsage(kind rowKind) int64 {
	status, err := m.process().Status()
	if err != nil {
		return UnknownBytes
	}
	if kind == rowData {
		return status.VmDataBytes
	}
	return status.VmSizeBytes
}

// ownBytes is the private and shared memory of the process.
func (m *monitor) ownBytes() int64 {
	status, err := m.process().Status()
	if err != nil || status.RssAnonBytes < 0 {
		return UnknownBytes
	}
	return status.RssAnonBytes + max(status.RssShmemBytes, 0)
}

// process opens the files of the process at the first need.
func (m *monitor) process() *procfs.Self {
	if m.self == nil {
		m.self = procfs.OpenSelf(m.root, m.pid)
	}
	return m.self
}

// groupID is the id of a limit of a group: a group is one directory of one file
// system, whatever mount, name or namespace it is seen through.
func (m *monitor) groupID(g *cgroup.Group, source string) uint64 {
	if g.ID.Ino == 0 {
		return m.id(source, g.Path)
	}
	var inode [16]byte
	binary.LittleEndian.PutUint64(inode[:], g.ID.Dev)
	binary.LittleEndian.PutUint64(inode[8:], g.ID.Ino)
	return m.id(source, string(inode[:]))
}

// id is a constraintID on the host.
func (m *monitor) id(a, b string) uint64 { return constraintID(m.host.bootID, a, b) }

// constraintID is a hash of what names something on one running kernel (FNV-1a).
// It is not zero.
func constraintID(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := range len(p) + 1 {
			var b byte // a zero ends each part
			if i < len(p) {
				b = p[i]
			}
			h = (h ^ uint64(b)) * 1099511628211
		}
	}
	return h | 1
}
