package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mpiguard/mpiguard/internal/sched"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// facts are what advice is taken from, beside the budget: the texts of files,
// empty where there are none.
type facts struct {
	environ   []string
	host      string
	mountinfo string
	thp       string // transparent_hugepage/enabled
	maxNone   string // khugepaged/max_ptes_none
}

const mebibyte = 1 << 20

// What MPI itself takes. Four ranks that do nothing and their mpirun were seen to
// need 30 MiB in their group; libraries with many peers need more.
const (
	mpiBytes        = 16 * mebibyte
	mpiBytesPerRank = 8 * mebibyte
)

// advise says what is wrong with the set-up, and what to do.
func advise(b *mpiguard.Budget, f facts) []string {
	var advice []string
	say := func(format string, args ...any) { advice = append(advice, fmt.Sprintf(format, args...)) }
	job := sched.Detect(f.environ, f.host)
	ranks := int64(max(job.Ranks, 1))

	for _, l := range job.Limits {
		if l.Source == "SLURM_MEM_PER_NODE" && ranks > 1 {
			say("--mem is for the node: the %d ranks here share it, %s for each (--mem-per-cpu is for each CPU)", ranks, text(l.Bytes/ranks))
		}
	}
	ram := ramBytes(b)
	for _, c := range b.Constraints {
		switch {
		case c.Scope == mpiguard.ScopeJob && !enforced(b, c.LimitBytes) && c.Source != "MPIGUARD_LIMIT":
			say("%s is not enforced by a cgroup: a job that passes it takes memory from others until the node has none (Slurm: ConstrainRAMSpace=yes in cgroup.conf)", c.Source)
		case c.Scope == mpiguard.ScopeCgroup && limited(c.LimitBytes) && ram > 0 && c.LimitBytes > ram:
			say("the limit of %s, %s, is above the memory of the node, %s: it protects nothing", c.Path, text(c.LimitBytes), text(ram))
		case c.Scope == mpiguard.ScopeProcess && limited(c.LimitBytes) && c.UsedBytes >= 0 && c.LimitBytes-c.UsedBytes < 1<<30:
			say("%s leaves %s of address space: Go reserves hundreds of MiB that it never touches; limit memory with a cgroup instead of ulimit -v or h_vmem", c.Source, text(max(c.LimitBytes-c.UsedBytes, 0)))
		}
	}
	if left := b.HeadroomBytes(); left >= 0 && left < mpiBytes+ranks*mpiBytesPerRank {
		say("the headroom, %s, is less than %d ranks take for MPI itself, some %s", text(left), ranks, text(mpiBytes+ranks*mpiBytesPerRank))
	}
	adviseGo(b, f, say)
	if shm, ok := shmBytes(f.mountinfo); ok && shm < max(128*mebibyte, ranks*16*mebibyte) {
		say("/dev/shm has %s: MPI keeps its shared segments there, and a rank dies of SIGBUS when it is full (docker run --shm-size, a memory-backed emptyDir)", text(shm))
	}
	if strings.Contains(f.thp, "[always]") && strings.TrimSpace(f.maxNone) == "511" {
		say("huge pages are always on and khugepaged/max_ptes_none is 511: the kernel may refill memory that Go has returned, and the resident size grows beyond what is in use")
	}
	return advice
}

// adviseGo is about the variables of the Go runtime.
func adviseGo(b *mpiguard.Budget, f facts, say func(string, ...any)) {
	for _, setting := range strings.Split(lookup(f.environ, "GODEBUG"), ",") {
		if setting == "madvdontneed=0" {
			say("GODEBUG=madvdontneed=0: memory that Go has returned stays in the resident size until the kernel needs it")
		}
	}
	v := lookup(f.environ, "GOMEMLIMIT")
	if v == "" || v == "off" {
		return
	}
	limit, ok := goMemLimit(v)
	switch budget := b.LimitBytes(); {
	case !ok:
		say("GOMEMLIMIT=%.20s ends every Go program at its start: the units are B, KiB, MiB, GiB and TiB", v)
	case limited(budget) && limit > budget-budget/20:
		say("GOMEMLIMIT=%.20s leaves nothing of the limit of %s for memory outside the Go heap (C, MPI, stacks): unset it and let mpiguard manage it, or take less", v, text(budget))
	}
}

// goMemLimit parses GOMEMLIMIT as the Go runtime does.
func goMemLimit(s string) (int64, bool) {
	unit := int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, bytes
		}
	}
	if unit == 1 {
		s = strings.TrimSuffix(s, "B")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)/unit {
		return 0, false
	}
	return n * unit, true
}

// shmBytes is the size of the file system at /dev/shm where its mount says one.
func shmBytes(mountinfo string) (bytes int64, ok bool) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || mount[4] != "/dev/shm" || len(super) < 3 || super[0] != "tmpfs" {
			continue
		}
		ok = false // a later mount covers an earlier one
		for _, option := range strings.Split(super[len(super)-1], ",") {
			if v, found := strings.CutPrefix(option, "size="); found {
				kib, err := strconv.ParseInt(strings.TrimSuffix(v, "k"), 10, 64)
				if bytes, ok = kib<<10, err == nil && kib >= 0 && kib < 1<<50 && strings.HasSuffix(v, "k"); !ok {
					break
				}
			}
		}
	}
	return bytes, ok
}

// enforced reports whether a cgroup has this limit, or a smaller one.
func enforced(b *mpiguard.Budget, limitBytes int64) bool {
	for _, c := range b.Constraints {
		if c.Scope == mpiguard.ScopeCgroup && c.Kind == mpiguard.KindHard && limited(c.LimitBytes) && c.LimitBytes <= limitBytes+limitBytes/8 {
			return true
		}
	}
	return false
}

func ramBytes(b *mpiguard.Budget) int64 {
	for _, c := range b.Constraints {
		if c.Scope == mpiguard.ScopeNode {
			return c.LimitBytes
		}
	}
	return mpiguard.UnknownBytes
}

func limited(bytes int64) bool { return bytes >= 0 && bytes != mpiguard.UnlimitedBytes }

func text(bytes int64) string { return humanize.IBytes(uint64(bytes)) }

func lookup(environ []string, key string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}
