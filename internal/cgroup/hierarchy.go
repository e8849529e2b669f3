// Package cgroup finds the groups that limit the memory of a process, in
// version 1 and 2 of the kernel's control groups, and reads their limits and
// what counts against them. Parsers are pure functions of a file's text.
//
// Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst and
// cgroup-v1/memory.rst of the kernel.
package cgroup

import (
	"path"
	"strings"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// Hierarchy is a process's place in the hierarchy that owns memory.
type Hierarchy struct {
	// Version is 1 or 2, or 0 when none was found.
	Version int
	// Groups are the levels that can be seen, from the group of the process up.
	Groups []*Group
	// HiddenBytes is the limit of a group above those, UnlimitedBytes if there is none
	// or none can be known. Version 1 alone tells it.
	HiddenBytes int64
	// Notes are remarks for people.
	Notes []string

	bounded bool // the top is not the root of the hierarchy: there are groups above it
}

// Open finds the groups of process pid (0: proc/self) and reads their limits.
// membership is the text of its cgroup file, nil when that cannot be read. Open
// never fails: a machine without the memory controller has a Hierarchy without
// groups.
func Open(fsys *kernfs.FS, pid int, membership []byte, buf []byte) *Hierarchy {
	h := &Hierarchy{HiddenBytes: UnlimitedBytes}
	m := ParseMembership(membership)
	if m.Hybrid {
		h.note("hybrid host: memory is a controller of cgroup v1")
	}
	p, found := locate(fsys, pid, m, buf, h.note)
	if !found {
		h.note("no cgroup hierarchy with the memory controller can be seen")
		return h
	}
	h.Version = p.mount.Version
	h.Groups = groups(fsys, p)
	h.Refresh(buf)
	h.describe(fsys, buf)
	h.refreshHidden(buf)
	return h
}

// groups are the levels from a place to the top of its mount.
func groups(fsys *kernfs.FS, p place) []*Group {
	var groups []*Group
	for below := p.below; ; below = path.Dir(below) {
		g := &Group{
			Path:        path.Join(p.mount.Root, below),
			MaxBytes:    UnknownBytes,
			SecondBytes: UnknownBytes,
			fsys:        fsys,
			dir:         path.Join(p.mount.Point, below),
			leaf:        below == p.below,
			files:       versions[p.mount.Version],
		}
		g.ID, _ = fsys.IsDir(g.dir)
		groups = append(groups, g)
		if below == "/" {
			return groups
		}
	}
}

// Refresh reads the limits again. The error says that a group is gone, so that
// the process must be in another one: Open again.
func (h *Hierarchy) Refresh(buf []byte) error {
	for _, g := range h.Groups {
		if err := g.refresh(buf); err != nil {
			return err
		}
	}
	h.refreshHidden(buf)
	return nil
}

// refreshHidden looks for a limit above the top: memory.stat of version 1 has
// the smallest limit of a group and of all groups above it.
func (h *Hierarchy) refreshHidden(buf []byte) {
	if !h.bounded || h.Version != 1 {
		return
	}
	top := h.Top()
	top.open()
	if s, err := top.stat(buf); err == nil {
		h.HiddenBytes = UnlimitedBytes
		if s.hierarchicalLimit < top.MaxBytes {
			h.HiddenBytes = s.hierarchicalLimit
		}
	}
}

// Top is the highest group that can be seen, nil if there is none.
func (h *Hierarchy) Top() *Group {
	if len(h.Groups) == 0 {
		return nil
	}
	return h.Groups[len(h.Groups)-1]
}

// Close closes all files.
func (h *Hierarchy) Close() {
	for _, g := range h.Groups {
		g.close()
	}
}

// describe notes what the groups are, as far as it explains the answer.
func (h *Hierarchy) describe(fsys *kernfs.FS, buf []byte) {
	top, absent := h.Top(), 0
	for _, g := range h.Groups {
		if g.Absent {
			absent++
		}
	}
	if absent == len(h.Groups) {
		h.note(h.whyAbsent(fsys, buf))
		return
	}
	for _, g := range h.Groups {
		switch {
		case !g.Absent || g == top:
		case strings.HasSuffix(g.read("cgroup.type", buf), "threaded"):
			h.note(g.Path + " is a threaded group: its memory is counted in the group above")
		default:
			h.note("memory controller not available at " + g.Path)
		}
	}
	// The root of version 2 has no limit file; that of version 1 alone has this one.
	if h.Version == 2 {
		h.bounded = !top.Absent
	} else {
		h.bounded = top.read("cgroup.sane_behavior", buf) == ""
	}
	if h.bounded && h.Version == 2 {
		h.note("limits of groups above " + top.Path + " cannot be seen: the cgroup namespace or the mount ends there")
	}
}

// whyAbsent says why no group has files of the memory controller.
func (h *Hierarchy) whyAbsent(fsys *kernfs.FS, buf []byte) string {
	text, _ := fsys.Read("proc/cgroups", buf)
	for line := range strings.Lines(string(text)) {
		// subsys_name hierarchy num_cgroups enabled
		if f := strings.Fields(line); len(f) == 4 && f[0] == "memory" && f[3] == "0" {
			return "memory controller not available: disabled in the kernel"
		}
	}
	if controllers := h.Top().read("cgroup.controllers", buf); controllers != "" {
		return "memory controller not available: " + h.Top().Path + " has " + controllers + " alone"
	}
	return "memory controller not available: no group has its files"
}

// read returns a short file of the group in one line, "" if that cannot be.
func (g *Group) read(name string, buf []byte) string {
	text, err := g.fsys.Read(g.dir+"/"+name, buf)
	if err != nil || len(text) > maxPathBytes {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (h *Hierarchy) note(text string) { h.Notes = append(h.Notes, text) }
