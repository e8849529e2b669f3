package benchmarks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/internal/cgroup"
	"github.com/mpiguard/mpiguard/internal/kernfs"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/procfs"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// openKernel adds what reads /proc and the memory group of this process.
func (b *Bench) openKernel(string) error {
	self := procfs.OpenSelf("", 0)
	b.onClose(func() error { self.Close(); return nil })
	statm, err := b.openPlain("/proc/self/statm")
	if err != nil {
		return err
	}
	b.add(Row{
		Name: SampleRSS,
		Goal: Goal{AtMost: 1600, Reference: 1300},
		Ours: pairs.CPU("Statm", func(n int) {
			for range n {
				resident, _, err := self.Statm()
				must(err)
				sink += resident
			}
		}),
		Primitive: pairs.CPU("pread", func(n int) {
			for range n {
				statm.read()
			}
		}),
	})
	if err := b.openGroup(self, statm); err != nil {
		b.Missing = append(b.Missing, fmt.Sprintf("%s; %s: %v", SampleGroup, FindBudget, err))
	}
	return nil
}

// beyondBytes is more than is leased ahead of a TryGrow.
const beyondBytes = 16 << 20

// openGroup adds what reads the memory group. What the watcher of a guard reads
// is put together here as in the guard, which exports no single sample.
func (b *Bench) openGroup(self *procfs.Self, statm *plainFile) error {
	group, err := memgroup.Of(os.Getpid())
	if err != nil {
		return err
	}
	name := map[int]struct {
		limit, usage string
		counts       []string
	}{
		1: {"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"memory.stat", "memory.kmem.usage_in_bytes"}},
		2: {"memory.max", "memory.current", []string{"memory.stat"}},
	}[group.Version()]
	usage, err := b.openPlain(filepath.Join(group.Dir(), name.usage))
	if err != nil {
		return err // the root of version 2 counts nothing
	}
	// What counts against the limits of the group and of the node.
	var counts []*plainFile
	for _, name := range append(name.counts, "/proc/meminfo") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(group.Dir(), name)
		}
		f, err := b.openPlain(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel that does not count its own memory
		} else if err != nil {
			return err
		}
		counts = append(counts, f)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	account, err := b.reserve("beyond the lease", 1<<20)
	if err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	fsys := kernfs.New("")
	hierarchy := cgroup.Open(fsys, 0, membership, buf)
	b.onClose(func() error { hierarchy.Close(); return fsys.Close() })
	own := hierarchy.Groups[0]

	// What is read to know the budget: who and where the process is, the limits of
	// all levels, the usage of its own group, the memory of the node.
	budget := []string{"/proc/self/cgroup", "/proc/meminfo", filepath.Join(group.Dir(), "memory.stat")}
	for dir, levels := group.Dir(), strings.Count(strings.TrimSuffix(group.Path(), "/"), "/"); levels >= 0; levels-- {
		budget = append(budget, filepath.Join(dir, name.limit))
		dir = filepath.Dir(dir)
	}
	theirGo, ourGo := goSamples(), goSamples()
	b.add(Row{
		Name: SampleGroup,
		Goal: Goal{AtMost: 3500, Reference: 2600},
		Ours: pairs.CPU("what the watcher reads", func(n int) {
			for range n {
				metrics.Read(ourGo)
				resident, _, err := self.Statm()
				must(err)
				group, _ := own.Ceiling(buf)
				sink += resident + group.MemoryBytes
			}
		}),
		Primitive: pairs.CPU("2 pread + metrics", func(n int) {
			for range n {
				statm.read()
				usage.read()
				metrics.Read(theirGo)
			}
		}),
	}, Row{
		Name: "TryGrow + Shrink beyond the lease, with a fresh sample",
		Goal: Goal{AtMost: 12e3, Reference: 8e3},
		Ours: pairs.CPU("reservation", func(n int) {
			for range n {
				must(account.TryGrow(beyondBytes))
				account.Shrink(beyondBytes)
			}
		}),
		Primitive: pairs.CPU(fmt.Sprintf("%d pread + metrics", 1+len(counts)), func(n int) {
			for range n {
				statm.read()
				for _, f := range counts {
					f.read()
				}
				metrics.Read(theirGo)
			}
		}),
	}, Row{
		Name: FindBudget,
		Goal: Goal{AtMost: 60e3, Allocs: AnyAllocs, Reference: 35e3},
		Ours: pairs.CPU("DetectBudget", func(n int) {
			for range n {
				sink += mpiguard.DetectBudget(mpiguard.Machine{}).LimitBytes()
			}
		}),
		Primitive: pairs.CPU(fmt.Sprintf("open, read, close %d files", len(budget)), func(n int) {
			for range n {
				for _, name := range budget {
					f, err := openPlain(name)
					must(err)
					f.read()
					must(f.close())
				}
			}
		}),
	})
	return nil
}

func goSamples() []metrics.Sample {
	return []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
}

// plainFile is a file read by the system call alone.
type plainFile struct {
	fd  int
	buf [4 << 10]byte
}

func openPlain(name string) (*plainFile, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return &plainFile{fd: fd}, nil
}

func (b *Bench) openPlain(name string) (*plainFile, error) {
	f, err := openPlain(name)
	if err == nil {
		b.onClose(f.close)
	}
	return f, err
}

func (f *plainFile) read() {
	n, err := unix.Pread(f.fd, f.buf[:], 0)
	must(err)
	sink += int64(n)
}

func (f *plainFile) close() error { return unix.Close(f.fd) }
