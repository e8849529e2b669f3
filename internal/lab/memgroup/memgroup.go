// Package memgroup makes memory cgroups with limits, runs commands inside them
// and reads from outside what the kernel counted. It is the same for cgroup v1
// and v2. It shares no code with the library's own reader of cgroups, so that
// each can be held against the other.
package memgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrUnavailable: this machine, or this user, can make no memory cgroup.
var ErrUnavailable = errors.New("no memory cgroup can be made")

// settle is how long the kernel is given to do what it says is busy: to remove
// a group whose last process was just killed, or to reclaim below a new limit.
const settle = 10 * time.Second

// Limits of a group. Zero is no limit. No group with a limit has swap.
type Limits struct {
	// MaxBytes is the hard limit, above which the kernel kills: memory.max, or
	// memory.limit_in_bytes and memory.memsw.limit_in_bytes.
	MaxBytes int64
	// HighBytes is the limit above which the kernel throttles: memory.high.
	// Cgroup v1 has none.
	HighBytes int64
}

// Group is a memory cgroup.
type Group struct {
	hierarchy
	path string // below the mount point, slash-separated, empty for the mount itself
}

// New makes a group with a name of its own, which contains the given one, in the
// top of the memory hierarchy. The error is ErrUnavailable where that cannot be.
func New(name string, l Limits) (*Group, error) {
	h, err := find()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	top := &Group{hierarchy: h}
	if err := top.delegate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	dir, err := os.MkdirTemp(h.mount, "mpiguard-"+name+"-*")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	} else if err != nil {
		return nil, err
	}
	return (&Group{h, filepath.Base(dir)}).limited(l)
}

// Of is the group that a process is in.
func Of(pid int) (*Group, error) {
	h, err := find()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || !h.names(f[1]) {
			continue
		}
		below, ok := strings.CutPrefix(f[2]+"/", strings.TrimSuffix(h.root, "/")+"/")
		if !ok {
			return nil, fmt.Errorf("the group %s of process %d is outside the mount %s", f[2], pid, h.mount)
		}
		return &Group{h, strings.Trim(below, "/")}, nil
	}
	return nil, fmt.Errorf("process %d is in no memory cgroup", pid)
}

// Child makes a group with the given name inside g. On cgroup v2, g must then
// hold no process of its own.
func (g *Group) Child(name string, l Limits) (*Group, error) {
	if err := g.delegate(); err != nil {
		return nil, err
	}
	c := &Group{g.hierarchy, path.Join(g.path, name)}
	if err := os.Mkdir(c.Dir(), 0o755); err != nil {
		return nil, err
	}
	return c.limited(l)
}

// delegate lets children of g have memory limits.
func (g *Group) delegate() error {
	if g.version == 1 {
		return nil
	}
	const file = "cgroup.subtree_control"
	if on, err := g.read(file); err != nil || slices.Contains(strings.Fields(on), "memory") {
		return err
	}
	return g.write(file, "+memory")
}

// limited sets the limits of a group just made, or removes it.
func (g *Group) limited(l Limits) (*Group, error) {
	if err := g.setLimits(l); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

func (g *Group) setLimits(l Limits) error {
	if l.HighBytes != 0 {
		if g.version == 1 {
			return fmt.Errorf("memgroup: cgroup v1 has no memory.high: %w", errors.ErrUnsupported)
		}
		if err := g.write("memory.high", strconv.FormatInt(l.HighBytes, 10)); err != nil {
			return err
		}
	}
	if g.version == 2 && l != (Limits{}) {
		if err := g.writeOptional("memory.swap.max", "0"); err != nil {
			return err
		}
	}
	if l.MaxBytes == 0 {
		return nil
	}
	return g.SetMaxBytes(l.MaxBytes)
}

// SetMaxBytes changes the hard limit of g. A limit below what is in use makes
// the kernel reclaim; where that is not enough, v2 kills and v1 is an error.
func (g *Group) SetMaxBytes(n int64) error {
	limit := strconv.FormatInt(n, 10)
	if g.version == 2 {
		return g.write("memory.max", limit)
	}
	// With swap counted is never below without: the order depends on the way.
	return g.whileBusy(func() error {
		const swapToo = "memory.memsw.limit_in_bytes"
		if err := g.write("memory.limit_in_bytes", limit); !errors.Is(err, syscall.EINVAL) {
			return errors.Join(err, g.writeOptional(swapToo, limit))
		}
		return errors.Join(g.write(swapToo, limit), g.write("memory.limit_in_bytes", limit))
	})
}

// Version is that of the memory hierarchy: 1 or 2.
func (g *Group) Version() int { return g.version }

// Dir is the folder of g.
func (g *Group) Dir() string { return filepath.Join(g.mount, g.path) }

// Path is the name of g within its hierarchy, as /proc/PID/cgroup says it.
func (g *Group) Path() string { return path.Join("/", g.root, g.path) }

// Pids are the processes in g and in the groups below it.
func (g *Group) Pids() ([]int, error) {
	var pids []int
	err := g.walk(func(c *Group) error {
		text, err := c.read("cgroup.procs")
		for _, f := range strings.Fields(text) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 { // 0: of another pid namespace
				pids = append(pids, pid)
			}
		}
		return err
	})
	return pids, err
}

// Remove kills what still runs in g and below it, and removes the groups.
func (g *Group) Remove() error {
	err := g.whileBusy(func() error {
		pids, err := g.Pids()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may be gone already
			}
		}
		var dirs []string
		if err := g.walk(func(c *Group) error { dirs = append(dirs, c.Dir()); return nil }); err != nil {
			return err
		}
		for _, dir := range slices.Backward(dirs) {
			if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove %s: %w", dir, err)
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// walk calls f for g and all groups below it, parents first. What vanishes
// while it walks is passed over.
func (g *Group) walk(f func(*Group) error) error {
	return filepath.WalkDir(g.Dir(), func(dir string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			below, _ := filepath.Rel(g.mount, dir)
			err = f(&Group{g.hierarchy, filepath.ToSlash(below)})
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		return err
	})
}

// whileBusy calls f again until it no longer says EBUSY.
func (g *Group) whileBusy(f func() error) error {
	for end := time.Now().Add(settle); ; time.Sleep(5 * time.Millisecond) {
		if err := f(); !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}

func (g *Group) read(file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(g.Dir(), file))
	return string(b), err
}

// write replaces the contents of a file that is there already.
func (g *Group) write(file, value string) error {
	f, err := os.OpenFile(filepath.Join(g.Dir(), file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// writeOptional writes a file that kernels without swap accounting lack.
func (g *Group) writeOptional(file, value string) error {
	if err := g.write(file, value); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
