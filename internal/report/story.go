package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

// story tells what happened, the deaths first, node by node.
func (run *Run) story() []string {
	var kills, others, calm []string
	closed := 0
	for _, n := range run.Nodes {
		kills = append(kills, n.kills()...)
		for _, r := range n.with(Crashed) {
			others = append(others, fmt.Sprintf("rank %d on %s crashed at %s: %s", r.Rank, n.Host, clock(r.EndedAt), r.Because))
		}
		ended := slices.DeleteFunc(n.with(Ended), func(r *Rank) bool { return slices.Contains(n.Suspects, r.Rank) })
		if len(ended) > 0 {
			others = append(others, n.ended(ended))
		}
		for _, r := range n.with(Unknown) {
			others = append(others, fmt.Sprintf("what became of rank %d on %s is unknown: %s", r.Rank, n.Host, r.Because))
		}
		if running := n.with(Running); len(running) > 0 {
			calm = append(calm, fmt.Sprintf("%s on %s %s running", rankList(numbers(running)), n.Host, are(len(running))))
		}
		closed += len(n.with(Closed))
	}
	if closed > 0 && closed == run.Size {
		calm = append(calm, fmt.Sprintf("all %d ranks closed their guards", closed))
	} else if closed > 0 {
		calm = append(calm, fmt.Sprintf("%d of %d ranks closed their guards", closed, run.Size))
	}
	if len(run.Missing) > 0 {
		calm = append(calm, "no record of "+rankList(run.Missing))
	}
	return append(append(kills, others...), calm...)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// kills are the sentences that the launcher never prints.
func (n *Node) kills() []string {
	var out []string
	killed := n.with(OOMKilled)
	switch {
	case len(killed) > 0:
		out = append(out, fmt.Sprintf("%s on %s %s OOM-killed %s: %s", rankList(numbers(killed)), n.Host, were(len(killed)),
			n.when(killed), n.circumstances(killed)))
	case len(n.Suspects) > 0:
		fit := slices.Clone(n.Ranks)
		fit = slices.DeleteFunc(fit, func(r *Rank) bool { return !slices.Contains(n.Suspects, r.Rank) })
		out = append(out, fmt.Sprintf("the kernel killed %d %s for memory on %s, among %s (which, only the kernel's log could tell): %s",
			n.Killed, plural(int(n.Killed), "process"), n.Host, rankList(n.Suspects), n.circumstances(fit)))
	case n.Killed > 0 && len(n.Others) == 0:
		out = append(out, fmt.Sprintf("the kernel killed %d %s for memory on %s that %s no rank of this run",
			n.Killed, plural(int(n.Killed), "process"), n.Host, were(int(n.Killed))))
	}
	for _, k := range n.Others {
		out = append(out, fmt.Sprintf("the kernel killed process %d (%s), which is no rank, on %s at %s for the limit of group %s",
			k.PID, k.Program, n.Host, clock(k.At), k.LimitCgroup))
	}
	return out
}

// when says when ranks ended, which are in that order.
func (n *Node) when(ranks []*Rank) string {
	first, last := clock(ranks[0].EndedAt), clock(ranks[len(ranks)-1].EndedAt)
	if first == last {
		return "at " + first
	}
	return "from " + first + " to " + last
}

// circumstances say who held how much under which limit, and what had grown.
func (n *Node) circumstances(victims []*Rank) string {
	var parts []string
	if l := n.Limit; l != nil {
		parts = append(parts, fmt.Sprintf("%s limit %s", l.name(), size(l.LimitBytes)))
	}
	parts = append(parts, n.held())
	text := strings.Join(parts, ", ")
	if g := grown(victims); g != "" {
		text += "; " + g
	}
	return text
}

// name names the limit in a sentence.
func (l *Limit) name() string {
	if l.Scope == blackbox.ScopeCgroup {
		return "group " + l.Path
	}
	return l.Source
}

// held says what the ranks held at the end.
func (n *Node) held() string {
	if p := n.process(); p != nil {
		return fmt.Sprintf("the process of all ranks held %s, of which they had reserved %s", size(p.AnonBytes), size(n.sum(reserved)))
	}
	var anon []int64
	for _, r := range n.Ranks {
		if r.Last != nil {
			anon = append(anon, r.Last.AnonBytes)
		}
	}
	if len(anon) == 0 {
		return "no sample can be read"
	}
	const listed = 8
	text := plural(len(anon), "rank") + " held " + sizes(anon)
	if len(anon) > listed {
		text = fmt.Sprintf("%d ranks held %s", len(anon), size(n.sum(anonymous)))
	}
	text += ", MPI and native " + size(n.sum(native)) + " of it"
	// Where the samples are too old to explain the use, they do not claim to.
	if l := n.Limit; l != nil && l.Scope == blackbox.ScopeCgroup && float64(n.sum(anonymous)) < staleBelow*float64(l.UsedBytes) {
		text += fmt.Sprintf(" (by samples up to %s old)", seconds(n.end().Sub(n.oldest())))
	}
	return text
}

// staleBelow is the part of what is used under a limit that the last samples of
// the ranks explain when they are fresh: the rest is shared, the kernel's, or the
// launcher's.
const staleBelow = 0.75

// oldest is when the rank that was silent longest was sampled last.
func (n *Node) oldest() time.Time {
	oldest := n.end()
	for _, r := range n.Ranks {
		if r.Last != nil && r.Last.At.Before(oldest) {
			oldest = r.Last.At
		}
	}
	return oldest
}

func anonymous(s *blackbox.Sample) int64 { return max(s.AnonBytes, 0) }
func native(s *blackbox.Sample) int64    { return max(s.NonGoBytes, 0) }
func reserved(s *blackbox.Sample) int64  { return max(s.ReservedBytes, 0) }

// sum adds up the last samples.
func (n *Node) sum(of func(*blackbox.Sample) int64) int64 {
	var sum int64
	for _, r := range n.Ranks {
		if r.Last != nil {
			sum += of(r.Last)
		}
	}
	return sum
}

// process is the last sample of ranks that are all in one process, nil otherwise.
func (n *Node) process() *blackbox.Sample {
	if len(n.Ranks) < 2 || !n.Ranks[0].Header.InProc {
		return nil
	}
	var last *blackbox.Sample
	for _, r := range n.Ranks {
		if r.PID != n.Ranks[0].PID {
			return nil
		}
		if r.Last != nil && (last == nil || r.Last.At.After(last.At)) {
			last = r.Last
		}
	}
	return last
}

// grown says what had grown the most in the ranks of late: a reservation, or
// memory that no reservation covers. Less than a MiB is not worth a word.
func grown(ranks []*Rank) string {
	const least = 1 << 20
	var text string
	var most int64 = least - 1
	for _, r := range ranks {
		if r.Last == nil {
			continue
		}
		over := seconds(r.Growth.Over)
		whose := ""
		if len(ranks) > 1 {
			whose = fmt.Sprintf(" of rank %d", r.Rank)
		}
		for _, h := range r.Holders {
			if h.GrownBytes > most {
				most = h.GrownBytes
				text = fmt.Sprintf("%q%s had grown %s in the last %s", h.Name, whose, size(h.GrownBytes), over)
			}
		}
		if g := r.Growth.UnaccountedBytes; g > most {
			most = g
			text = fmt.Sprintf("memory%s that no reservation covers had grown %s in the last %s", whose, size(g), over)
		}
	}
	return text
}

// ended tells of ranks that ended without Close.
func (n *Node) ended(ranks []*Rank) string {
	text := fmt.Sprintf("%s on %s ended without Close: os.Exit or a signal", rankList(numbers(ranks)), n.Host)
	if len(n.with(OOMKilled)) > 0 {
		return text + ", such as the launcher's"
	}
	if r := ranks[len(ranks)-1]; r.binding >= 0 {
		l := r.limits[r.binding]
		text += fmt.Sprintf(" (last sample at %s: %s used of %s under %s)", clock(r.Last.At), size(l.UsedBytes), size(l.LimitBytes), l.name())
	}
	return text
}
