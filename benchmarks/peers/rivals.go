package main

import (
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/prometheus/procfs"
	"github.com/shirou/gopsutil/v4/process"
	"github.com/valyala/bytebufferpool"
	"golang.org/x/sync/semaphore"

	"github.com/mpiguard/mpiguard/benchmarks"
	"github.com/mpiguard/mpiguard/benchmarks/pairs"
)

// sink keeps the compiler from dropping what is computed.
var sink uint64

// rivals are what other libraries do instead, by row.
func rivals() map[string][]pairs.Contender {
	many := semaphore.NewWeighted(1 << 50)
	all := map[string][]pairs.Contender{
		benchmarks.SampleRSS: {
			operation("gopsutil", func() error {
				m, err := self.MemoryInfo()
				if err == nil {
					sink += m.RSS
				}
				return err
			}),
			operation("procfs", func() error {
				p, err := procfs.Self()
				if err != nil {
					return err
				}
				s, err := p.Stat()
				sink += uint64(s.ResidentMemory())
				return err
			}),
		},
		benchmarks.FindBudget: {
			containerd(func() error {
				g, err := loadGroup()
				if err != nil {
					return err
				}
				n, err := g.limit()
				sink += n
				return err
			}),
		},
		benchmarks.GrowShrink:         {pairs.CPU("x/sync semaphore", take(many))},
		benchmarks.GrowShrinkParallel: {pairs.Parallel("x/sync semaphore", take(many), take(many))},
		benchmarks.PoolGetPut: {pairs.CPU("bytebufferpool", func(n int) {
			for range n {
				b := bytebufferpool.Get()
				if b.B == nil {
					b.B = make([]byte, 0, 1<<20)
				}
				bytebufferpool.Put(b)
			}
		})},
	}
	// It has no answer where no group has a limit.
	if _, err := memlimit.FromCgroup(); err == nil {
		all[benchmarks.FindBudget] = append(all[benchmarks.FindBudget], operation("automemlimit", func() error {
			n, err := memlimit.FromCgroup()
			sink += n
			return err
		}))
	}
	if g, err := loadGroup(); err == nil {
		all[benchmarks.SampleGroup] = []pairs.Contender{containerd(func() error {
			n, err := g.usage()
			sink += n
			return err
		})}
	}
	return all
}

var self = func() *process.Process {
	p, err := process.NewProcess(int32(os.Getpid()))
	must(err)
	return p
}()

func operation(name string, do func() error) pairs.Contender {
	return pairs.CPU(name, times(do))
}

// containerd reads each controller in a goroutine of its own: what the calling
// thread takes would be but a part of it.
func containerd(do func() error) pairs.Contender {
	return pairs.Wall("containerd/cgroups", times(do))
}

func times(do func() error) func(n int) {
	return func(n int) {
		for range n {
			must(do())
		}
	}
}

func take(s *semaphore.Weighted) func(n int) {
	return func(n int) {
		for range n {
			if !s.TryAcquire(4096) {
				panic("semaphore: refused")
			}
			s.Release(4096)
		}
	}
}

// group is the memory group of this process as containerd/cgroups sees it, with
// no controller but that of memory.
type group interface {
	usage() (uint64, error)
	limit() (uint64, error)
}

func loadGroup() (group, error) {
	if cgroups.Mode() == cgroups.Unified {
		path, err := cgroup2.PidGroupPath(os.Getpid())
		if err != nil {
			return nil, err
		}
		m, err := cgroup2.Load(path)
		return groupV2{m}, err
	}
	c, err := cgroup1.Load(cgroup1.PidPath(os.Getpid()),
		cgroup1.WithHierarchy(cgroup1.SingleSubsystem(cgroup1.Default, cgroup1.Memory)))
	return groupV1{c}, err
}

type groupV1 struct{ cgroup1.Cgroup }

func (g groupV1) usage() (uint64, error) {
	m, err := g.Stat(cgroup1.IgnoreNotExist)
	if err != nil {
		return 0, err
	}
	return m.Memory.Usage.Usage, nil
}

func (g groupV1) limit() (uint64, error) {
	m, err := g.Stat(cgroup1.IgnoreNotExist)
	if err != nil {
		return 0, err
	}
	return m.Memory.Usage.Limit, nil
}

type groupV2 struct{ *cgroup2.Manager }

func (g groupV2) usage() (uint64, error) {
	m, err := g.StatFiltered(cgroup2.StatMemory)
	if err != nil {
		return 0, err
	}
	return m.Memory.Usage, nil
}

func (g groupV2) limit() (uint64, error) {
	m, err := g.StatFiltered(cgroup2.StatMemory)
	if err != nil {
		return 0, err
	}
	return m.Memory.UsageLimit, nil
}
