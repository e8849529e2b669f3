package mpiguard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExplain(t *testing.T) {
	const gib = 1 << 30
	group := Constraint{Source: "cgroup v2 memory.max", Path: "/job/rank", Scope: ScopeCgroup, LimitBytes: UnlimitedBytes, UsedBytes: UnknownBytes}
	parent := Constraint{Source: "cgroup v2 memory.max", Path: "/job", Scope: ScopeCgroup, LimitBytes: 20 * gib, UsedBytes: 18 * gib, Killed: 2}
	high := Constraint{Source: "cgroup v2 memory.high", Path: "/job", Scope: ScopeCgroup, Kind: KindSoft, LimitBytes: 19 * gib, UsedBytes: 18 * gib, Killed: 2, Throttled: 7}
	as := Constraint{Source: "RLIMIT_AS", Path: "/proc/self/limits", LimitBytes: gib, UsedBytes: 2 * gib}
	job := Constraint{Source: "SLURM_MEM_PER_NODE", Path: "SLURM_MEM_PER_NODE", Scope: ScopeJob, Kind: KindAdvisory, LimitBytes: 8 * gib, UsedBytes: gib, Notes: []string{"requested"}}
	ram := Constraint{Source: "MemTotal", Path: "/proc/meminfo", Scope: ScopeNode, LimitBytes: 64 * gib, UsedBytes: 14 * gib}

	for _, c := range []struct {
		name string
		b    Budget
		want string
	}{
		{"a group above", Budget{Constraints: []Constraint{group, parent, as, ram}, Notes: []string{"first"}}, `
constraint                      kind      limit     used  headroom
cgroup v2 memory.max /job/rank  hard  unlimited
cgroup v2 memory.max /job       hard     20 GiB   18 GiB   410 MiB  binds
RLIMIT_AS /proc/self/limits     hard    1.0 GiB  2.0 GiB       0 B
MemTotal /proc/meminfo          hard     64 GiB   14 GiB    48 GiB

cgroup v2 memory.max /job binds: of 20 GiB, 18 GiB is used by all groups below, this one and its siblings, and 1.6 GiB is kept free, which leaves 410 MiB.
- first
- /job: 2 processes were killed for memory since the group was made
`},
		{"throttling", Budget{Constraints: []Constraint{parent, high, ram}}, `
constraint                  kind   limit    used  headroom
cgroup v2 memory.max /job   hard  20 GiB  18 GiB   410 MiB
cgroup v2 memory.high /job  soft  19 GiB  18 GiB       0 B  binds
MemTotal /proc/meminfo      hard  64 GiB  14 GiB    48 GiB

cgroup v2 memory.high /job binds: of 19 GiB, 18 GiB is used by all processes of this group and 1.5 GiB is kept free, which leaves 0 B (532 MiB too much is used already); above it the kernel does not kill but throttles.
- /job: 2 processes were killed for memory since the group was made
- cgroup v2 memory.high /job: processes were throttled 7 times at this limit, which slows them and kills none
`},
		{"a request", Budget{Constraints: []Constraint{job, ram}}, `
constraint              kind        limit     used  headroom
SLURM_MEM_PER_NODE      advisory  8.0 GiB  1.0 GiB   6.4 GiB  binds
MemTotal /proc/meminfo  hard       64 GiB   14 GiB    48 GiB

SLURM_MEM_PER_NODE binds: of 8.0 GiB, 1.0 GiB is used by this process and 655 MiB is kept free, which leaves 6.4 GiB; it was asked for, and nothing in the kernel enforces it.
- SLURM_MEM_PER_NODE: requested
`},
		{"no limit", Budget{Constraints: []Constraint{group, ram}}, `
constraint                      kind      limit    used  headroom
cgroup v2 memory.max /job/rank  hard  unlimited
MemTotal /proc/meminfo          hard     64 GiB  14 GiB    48 GiB  binds

No smaller limit can be seen than the memory of the node: of 64 GiB, 14 GiB is used by all that runs here and 2.0 GiB is kept free, which leaves 48 GiB.
`},
		{"unknown usage", Budget{Constraints: []Constraint{{Source: "cgroup v1 memory.limit_in_bytes", Path: "/", Scope: ScopeCgroup, LimitBytes: gib, UsedBytes: UnknownBytes}}}, `
constraint                         kind    limit     used  headroom
cgroup v1 memory.limit_in_bytes /  hard  1.0 GiB  unknown   unknown  binds

cgroup v1 memory.limit_in_bytes / binds: the limit is 1.0 GiB, how much of it is used is unknown.
`},
		{"nothing", Budget{}, `
constraint  kind  limit  used  headroom

No limit can be read here, not even the memory of the node: the budget is unknown.
`},
	} {
		c.b.KeepFree = defaultKeepFree
		assert.Equal(t, strings.TrimPrefix(c.want, "\n"), c.b.Explain(), c.name)
	}
}
