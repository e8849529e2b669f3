package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mpiguard/mpiguard/internal/cgroup"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

// Helpers are the processes that share a memory limit with the ranks and are
// none: the launcher, daemons, shells.
type Helpers struct {
	Group     string   `json:"group"` // the cgroup with the limit, "" if there is none
	Count     int      `json:"count"`
	AnonBytes Bytes    `json:"anon_bytes"` // their private memory
	Names     []string `json:"names"`      // the largest first
}

// process is one that may be a helper.
type process struct {
	pid       int
	name      string
	group     cgroup.Membership
	anonBytes int64
}

// helpers looks for the helpers of the ranks with the given PIDs.
func (m *machine) helpers(group string, ranks []int) Helpers {
	if group == "" {
		return Helpers{Names: []string{}}
	}
	version := cgroup.ParseMembership([]byte(m.read("proc/self/cgroup"))).Version
	var all []process
	for _, pid := range m.pids() {
		dir := procfs.Dir(pid)
		p := process{pid: pid, group: cgroup.ParseMembership([]byte(m.read(dir + "/cgroup")))}
		if p.group.Version != version || slices.Contains(ranks, pid) || !inGroup(p.group.Path, group) {
			continue
		}
		p.name = strings.TrimSpace(m.read(dir + "/comm"))
		p.anonBytes = procfs.ParseStatus([]byte(m.read(dir + "/status"))).RssAnonBytes
		all = append(all, p)
	}
	return sumHelpers(group, all)
}

// inGroup reports whether a group is another one or below it.
func inGroup(path, group string) bool {
	return path == group || strings.HasPrefix(path, strings.TrimSuffix(group, "/")+"/")
}

func sumHelpers(group string, all []process) Helpers {
	h := Helpers{Group: group, Count: len(all)}
	slices.SortFunc(all, func(a, b process) int { return cmp.Compare(b.anonBytes, a.anonBytes) })
	for _, p := range all {
		h.AnonBytes += Bytes(max(p.anonBytes, 0)) // unknown: it has ended
		if !slices.Contains(h.Names, p.name) {
			h.Names = append(h.Names, p.name)
		}
	}
	h.Names = bounded(h.Names)
	return h
}
