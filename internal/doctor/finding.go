package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// Severity is how bad a finding is.
type Severity uint8

// The severities.
const (
	Warning Severity = iota // the job may run, and may come to grief
	Failure                 // it will not work, or not as meant
)

// String returns warning or error.
func (s Severity) String() string {
	if s == Failure {
		return "error"
	}
	return "warning"
}

// MarshalText returns warning or error.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is something that is wrong, and what to do about it.
type Finding struct {
	Severity Severity `json:"severity"`
	Hosts    []string `json:"hosts"` // where; none: of the job as a whole
	Text     string   `json:"text"`
}

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

// What a job takes at least, by experience.
const (
	// Open MPI's segment has 4 MiB a rank, its windows and other libraries more.
	minShmBytes     = 128 * mebibyte
	shmBytesPerRank = 16 * mebibyte
	minSessionBytes = 32 * mebibyte
	// Four ranks that do nothing and their launcher need some 30 MiB.
	mpiBytes        = 16 * mebibyte
	mpiBytesPerRank = 8 * mebibyte
	// RDMA needs room for the buffers that are registered.
	minLockedBytes = gibibyte
	// Files beside a connection to each rank.
	otherFiles = 256
)

// Findings are what is wrong, errors first. The same finding on several nodes is
// one.
func (r *Report) Findings() []Finding {
	var f findings
	f.answers(r)
	f.ranks(r)
	for i := range r.Nodes {
		f.node(r, i)
	}
	f.network(r)
	slices.SortStableFunc(f, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	return f
}

// Worst is the highest severity of findings; not ok: there are none.
func Worst(all []Finding) (worst Severity, ok bool) {
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	return worst, len(all) > 0
}

type findings []Finding

func (f *findings) add(s Severity, host, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	hosts := []string{}
	if host != "" {
		hosts = []string{host}
	}
	for i := range *f {
		if o := &(*f)[i]; o.Severity == s && o.Text == text {
			if !slices.Contains(o.Hosts, host) {
				o.Hosts = append(o.Hosts, hosts...)
			}
			return
		}
	}
	*f = append(*f, Finding{s, hosts, text})
}

// answers is about ranks and ways that do not answer.
func (f *findings) answers(r *Report) {
	silent := map[int]bool{}
	for _, s := range r.Silent {
		silent[s.Rank] = true
		f.add(Failure, s.Host, "rank %d did not answer %s: it is stopped, or cannot be reached", s.Rank, s.When)
	}
	if r.Err != nil {
		f.add(Failure, "", "%v", r.Err)
	}
	for _, l := range r.Links {
		if !l.Blocked {
			continue
		}
		a, b := r.ranksOn(l.Nodes[0])[0], r.ranksOn(l.Nodes[1])[0]
		if !silent[a] && !silent[b] {
			f.add(Failure, r.Nodes[l.Nodes[0]].Host, "rank %d cannot talk to rank %d on %s, though both answer rank 0: look for a firewall, or another interface that is used between them",
				a, b, r.Nodes[l.Nodes[1]].Host)
		}
	}
}

// ranks is about what should be the same on all ranks.
func (f *findings) ranks(r *Report) {
	if len(r.Ranks) == 1 && r.Ranks[0].SaidRanks > 1 {
		f.add(Failure, "", "%s says %d ranks, and each is alone: the launcher is not that of %s, with which this program was built",
			r.Ranks[0].SaidBy, r.Ranks[0].SaidRanks, LibraryName(r.Ranks[0].Library))
		return
	}
	if groups := groupBy(r.Ranks, func(k Rank) string { return k.Library }); len(groups) > 1 {
		f.add(Failure, "", "the ranks run different MPI libraries: %s", describe(groups, LibraryName))
	}
	if groups := groupBy(r.Ranks, func(k Rank) string { return k.ThreadLevel }); len(groups) > 1 {
		f.add(Warning, "", "the ranks run with different thread levels: %s", describe(groups, func(s string) string { return s }))
	}
}

// node is about one node and its ranks.
func (f *findings) node(r *Report, i int) {
	n := &r.Nodes[i]
	warn := func(format string, args ...any) { f.add(Warning, n.Host, format, args...) }
	ranks := int64(len(r.ranksOn(i)))

	if need := mpiBytes + Bytes(ranks)*mpiBytesPerRank; n.HeadroomBytes.limited() && n.HeadroomBytes < need {
		warn("the headroom, %v under %s, is less than what %s take for MPI itself, some %v", n.HeadroomBytes, n.Binding, count(ranks, "rank"), need)
	}
	if h := n.Helpers; n.LimitBytes.limited() && h.AnonBytes >= n.LimitBytes/10 && h.AnonBytes > 0 {
		warn("%v of the limit of %s are taken by %s beside the ranks: %s", h.AnonBytes, h.Group, count(int64(h.Count), "process"), strings.Join(h.Names, ", "))
	}
	if need := max(minShmBytes, Bytes(ranks)*shmBytesPerRank); n.Shm.FreeBytes.limited() && n.Shm.FreeBytes < need {
		warn("%s has %v free of %v, and %s may need %v: a rank dies of SIGBUS when it is full (docker run --shm-size, a memory-backed emptyDir)",
			n.Shm.Path, n.Shm.FreeBytes, n.Shm.SizeBytes, count(ranks, "rank"), need)
	}
	if n.Session.FreeBytes.limited() && n.Session.FreeBytes < minSessionBytes {
		warn("%s, where the launcher keeps its files, has %v free (TMPDIR says another place)", n.Session.Path, n.Session.FreeBytes)
	}
	if s := n.Stale; s.Count > 0 {
		warn("%v of %s are taken by %s that MPI jobs have left behind", s.HeldBytes, n.Shm.Path, count(int64(s.Count), "segment"))
	}
	if len(n.Unresolved) > 0 {
		warn("host names that do not resolve: %s", strings.Join(n.Unresolved, ", "))
	}
	if len(n.Misresolved) > 0 {
		warn("/etc/hosts has loopback addresses for other hosts: %s", strings.Join(n.Misresolved, ", "))
	}
	for _, k := range r.Ranks {
		if k.Node == i {
			f.rank(r, n, k, ranks)
		}
	}
}

// rank is about one rank on a node with so many.
func (f *findings) rank(r *Report, n *Node, k Rank, ranks int64) {
	if k.SaidRanks > 0 && int64(k.SaidRanks) != ranks && len(r.Ranks) > 1 {
		f.add(Warning, n.Host, "%s says %d ranks on this node, and there are %d: do not divide by it", k.SaidBy, k.SaidRanks, ranks)
	}
	if len(n.RDMA) > 0 && k.LockedBytes.limited() && k.LockedBytes < minLockedBytes {
		f.add(Warning, n.Host, "the limit on locked memory is %v, and %s needs it to be large: RDMA will fail, or fall back to what is slower (ulimit -l unlimited)",
			k.LockedBytes, strings.Join(n.RDMA, ", "))
	}
	if need := int64(len(r.Ranks)) + otherFiles; k.OpenFiles >= 0 && k.OpenFiles < need {
		f.add(Warning, n.Host, "the limit on open files is %d: %s over TCP may need %d (ulimit -n)", k.OpenFiles, count(int64(len(r.Ranks)), "rank"), need)
	}
}

// network is about nodes and links that are slower than the others.
func (f *findings) network(r *Report) {
	networks := r.Network()
	latency, inverse := median(r.costs(linkLatency)), median(r.costs(linkInverse))
	for i, n := range networks {
		if n.Slow {
			f.add(Warning, r.Nodes[i].Host, "latency %s, where %s is typical", seconds(n.LatencySeconds), seconds(latency))
		}
		if n.Narrow {
			f.add(Warning, r.Nodes[i].Host, "bandwidth %s, where %s is typical", rate(n.BytesPerSecond), rate(1/inverse))
		}
	}
	for _, l := range r.badLinks(linkLatency) {
		f.add(Warning, r.Nodes[l.Nodes[0]].Host, "latency %s to %s, where %s is typical", seconds(l.LatencySeconds), r.Nodes[l.Nodes[1]].Host, seconds(latency))
	}
	for _, l := range r.badLinks(linkInverse) {
		f.add(Warning, r.Nodes[l.Nodes[0]].Host, "bandwidth %s to %s, where %s is typical", rate(l.BytesPerSecond), r.Nodes[l.Nodes[1]].Host, rate(1/inverse))
	}
}

func count(n int64, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// seconds prints a latency with two digits or more.
func seconds(s float64) string {
	unit := "s"
	switch {
	case s < 1e-3:
		s, unit = s*1e6, "µs"
	case s < 1:
		s, unit = s*1e3, "ms"
	}
	if s < 10 {
		return fmt.Sprintf("%.1f %s", s, unit)
	}
	return fmt.Sprintf("%.0f %s", s, unit)
}

// rate prints a bandwidth.
func rate(bytesPerSecond float64) string {
	return humanize.IBytes(uint64(bytesPerSecond)) + "/s"
}
