package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/mpiguard"
)

const gib = 1 << 30

func TestAdvice(t *testing.T) {
	ram := mpiguard.Constraint{Source: "MemTotal", Scope: mpiguard.ScopeNode, LimitBytes: 64 * gib, UsedBytes: gib}
	group := func(limit, used int64) mpiguard.Constraint {
		return mpiguard.Constraint{Source: "cgroup v2 memory.max", Path: "/job", Scope: mpiguard.ScopeCgroup, LimitBytes: limit, UsedBytes: used}
	}
	slurm := mpiguard.Constraint{Source: "SLURM_MEM_PER_NODE", Scope: mpiguard.ScopeJob, Kind: mpiguard.KindAdvisory, LimitBytes: 8 * gib}
	as := mpiguard.Constraint{Source: "RLIMIT_AS", Scope: mpiguard.ScopeProcess, LimitBytes: 2 * gib, UsedBytes: gib + gib/2}
	shm := func(options string) string {
		return "22 1 254:0 / / rw - ext4 /dev/vda rw\n300 22 0:70 / /dev/shm rw,nosuid - tmpfs shm rw," + options + "\n"
	}
	for _, c := range []struct {
		name        string
		constraints []mpiguard.Constraint
		facts       facts
		want        []string // a part of each piece of advice, in order
	}{
		{"nothing wrong", []mpiguard.Constraint{group(8*gib, gib), ram}, facts{environ: []string{"GOMEMLIMIT=4GiB", "PATH=/bin"}, mountinfo: shm("size=8388608k"), thp: "always [madvise] never", maxNone: "511\n"}, nil},
		{"--mem is for the node", []mpiguard.Constraint{group(8*gib, gib), slurm, ram}, facts{environ: []string{"SLURM_MEM_PER_NODE=8192", "SLURM_NTASKS_PER_NODE=16"}}, []string{"16 ranks here share it, 512 MiB for each"}},
		{"--mem of one rank", []mpiguard.Constraint{group(8*gib, gib), slurm, ram}, facts{environ: []string{"SLURM_MEM_PER_NODE=8192"}}, nil},
		{"not enforced", []mpiguard.Constraint{group(mpiguard.UnlimitedBytes, gib), slurm, ram}, facts{}, []string{"SLURM_MEM_PER_NODE is not enforced"}},
		{"a limit above the memory", []mpiguard.Constraint{group(100*gib, gib), ram}, facts{}, []string{"above the memory of the node"}},
		{"little address space", []mpiguard.Constraint{as, ram}, facts{}, []string{"RLIMIT_AS leaves 512 MiB"}},
		{"no room for MPI", []mpiguard.Constraint{group(64<<20, 20<<20), ram}, facts{environ: []string{"OMPI_COMM_WORLD_LOCAL_SIZE=4"}}, []string{"less than 4 ranks take for MPI"}},
		{"GOMEMLIMIT at the limit", []mpiguard.Constraint{group(gib, 0), ram}, facts{environ: []string{"GOMEMLIMIT=1073741824"}}, []string{"leaves nothing of the limit of 1.0 GiB"}},
		{"GOMEMLIMIT that ends programs", []mpiguard.Constraint{ram}, facts{environ: []string{"GOMEMLIMIT=1G"}}, []string{"ends every Go program"}},
		{"GOMEMLIMIT off", []mpiguard.Constraint{group(gib, 0), ram}, facts{environ: []string{"GOMEMLIMIT=off"}}, nil},
		{"lazy return of memory", []mpiguard.Constraint{ram}, facts{environ: []string{"GODEBUG=gctrace=1,madvdontneed=0"}}, []string{"madvdontneed=0"}},
		{"a tiny /dev/shm", []mpiguard.Constraint{ram}, facts{mountinfo: shm("size=65536k")}, []string{"/dev/shm has 64 MiB"}},
		{"a /dev/shm too small for the ranks", []mpiguard.Constraint{ram}, facts{mountinfo: shm("size=262144k"), environ: []string{"OMPI_COMM_WORLD_LOCAL_SIZE=32"}}, []string{"/dev/shm has 256 MiB"}},
		{"a /dev/shm that covers a tiny one", []mpiguard.Constraint{ram}, facts{mountinfo: shm("size=65536k") + shm("nr_inodes=5")}, nil},
		{"huge pages", []mpiguard.Constraint{ram}, facts{thp: "[always] madvise never\n", maxNone: "511\n"}, []string{"huge pages are always on"}},
		{"nothing known", nil, facts{}, nil},
	} {
		got := advise(&mpiguard.Budget{Constraints: c.constraints, KeepFree: 0.08}, c.facts)
		if assert.Len(t, got, len(c.want), "%s: %q", c.name, got) {
			for i := range got {
				assert.Contains(t, got[i], c.want[i], c.name)
			}
		}
	}
}

func TestGoMemLimit(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "1024": 1024, "7B": 7, "1KiB": 1024, "2GiB": 2 * gib, "1TiB": 1 << 40} {
		got, ok := goMemLimit(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "1G", "1Gi", "1gib", "-1", "1.5GiB", "1 GiB", "9999999999999TiB", "B", "1KiBB", "lots"} {
		_, ok := goMemLimit(s)
		assert.False(t, ok, s)
	}
}

func FuzzAdvice(f *testing.F) {
	f.Add("GOMEMLIMIT=1G\nSLURM_MEM_PER_NODE=1", "1 2 3 4 /dev/shm rw - tmpfs shm rw,size=65536k")
	f.Fuzz(func(t *testing.T, environ, mountinfo string) {
		advise(&mpiguard.Budget{Constraints: []mpiguard.Constraint{{Scope: mpiguard.ScopeNode, LimitBytes: gib, UsedBytes: 0}}}, facts{environ: strings.Split(environ, "\n"), mountinfo: mountinfo})
	})
}
