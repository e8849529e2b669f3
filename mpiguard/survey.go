package mpiguard

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// RankUsage is one rank's row of a Survey.
type RankUsage struct {
	Rank int
	Host string
	// Node and Process index Survey.Nodes and count processes: ranks with equal
	// Process are goroutines of one process, whose memory all their rows show.
	Node, Process int
	PID           int
	Level         Level
	// HeadroomBytes is what the rank could reserve, under the constraint that
	// Binding names, whose limit and use follow.
	HeadroomBytes int64
	Binding       string
	LimitBytes    int64
	UsedBytes     int64
	Usage
}

// NodeUsage sums up the ranks of one node. Resident sets are never added:
// shared pages would count many times.
type NodeUsage struct {
	Host  string
	Ranks int
	Level Level // the worst of its ranks
	// HeadroomBytes is the least of its ranks, under the constraint that Binding
	// names; UsedBytes is what everybody under it uses of LimitBytes, as the
	// kernel counts it.
	HeadroomBytes         int64
	Binding               string
	LimitBytes, UsedBytes int64
	// AnonBytes is the private memory of the ranks' processes, ShmemBytes the
	// largest shared memory that one of them maps; the ranks of a node map the
	// same segments.
	AnonBytes, ShmemBytes int64
}

// OthersBytes is what of UsedBytes is neither private nor shared memory of the
// ranks: other processes, such as mpirun, and memory of the kernel. It is
// UnknownBytes where UsedBytes is.
func (n NodeUsage) OthersBytes() int64 {
	if n.UsedBytes == UnknownBytes {
		return UnknownBytes
	}
	return max(n.UsedBytes-n.AnonBytes-max(n.ShmemBytes, 0), 0) // they are read one after the other
}

// Survey is the usage of all ranks of a communicator at one call.
type Survey struct {
	Ranks []RankUsage
	Nodes []NodeUsage
}

// Survey gives every rank the usage of all ranks, freshly measured. Collective.
//
// It costs one Allgather of some 250 bytes a rank. In-process ranks get the same
// Survey, which they must not change. A ctx that is done when Survey
// is called, or a guard that is closed, on any rank makes all ranks return the
// same *CollectiveError; a ctx that ends during the wait, or the guard's
// CollectiveTimeout, breaks the communicator (see Comm).
func (g *Guard) Survey(ctx context.Context) (*Survey, error) {
	var s *Survey
	start := time.Now()
	err := g.collective(ctx, "survey", func(ctx context.Context, mine vote) (int, vote, error) {
		var row usageRow
		if mine == voteYes { // a closed guard has nothing to measure with
			row = g.usageRow()
		}
		all, err := gather(ctx, g.comm, usageRowBytes, mine, &row, (*usageRow).code)
		if err == nil && all.vote == voteYes {
			s = g.proc.survey(g.peers, all.rows)
			g.noteSurvey(start, all.rows)
		}
		return all.worst, all.vote, err
	})
	return s, err
}

// usageRow measures this rank for the others.
func (g *Guard) usageRow() usageRow {
	p := g.proc
	sums := p.untouched()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(full)
	row := usageRow{level: p.ladder.level, limitBytes: UnlimitedBytes, usedBytes: UnknownBytes, usage: g.usage()}
	left, i := p.left(&sums)
	row.headroomBytes = left
	if i >= 0 {
		c := &p.budget.Load().Constraints[i]
		row.binding, row.limitBytes, row.usedBytes = c.label(), c.LimitBytes, p.used[i]
	}
	return row
}

// usageRow is what a rank tells the others in a Survey.
type usageRow struct {
	level                                Level
	headroomBytes, limitBytes, usedBytes int64
	binding                              string
	usage                                Usage
}

const usageRowBytes = 1 + 8*(3+11) + bindingBytes
const bindingBytes = 128

func (r *usageRow) code(c *coder) {
	c.byte((*byte)(&r.level))
	at := r.usage.At.UnixNano()
	for _, p := range []*int64{
		&r.headroomBytes, &r.limitBytes, &r.usedBytes,
		&at, (*int64)(&r.usage.Interval),
		&r.usage.AnonBytes, &r.usage.ShmemBytes, &r.usage.FileBytes, &r.usage.PeakBytes,
		&r.usage.GoBytes, &r.usage.NonGoBytes,
		&r.usage.ReservedBytes, &r.usage.UntouchedBytes, &r.usage.UnaccountedBytes,
	} {
		c.int64(p)
	}
	r.usage.At = time.Unix(0, at)
	c.text(&r.binding, bindingBytes)
}

func (g *Guard) noteSurvey(start time.Time, rows []usageRow) {
	rank, lag := slowest(rows)
	g.proc.mu.Lock()
	defer g.proc.mu.Unlock()
	g.surveys.note(start, rank, lag)
}

// survey is newSurvey, once for the ranks of the process that have the same rows.
func (p *process) survey(peers []peer, rows []usageRow) *Survey {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.surveyed.rows != &rows[0] {
		p.surveyed.rows, p.surveyed.survey = &rows[0], newSurvey(peers, rows)
	}
	return p.surveyed.survey
}

// newSurvey joins what New learnt of the ranks and their rows of now.
func newSurvey(peers []peer, rows []usageRow) *Survey {
	s := &Survey{Ranks: make([]RankUsage, len(rows))}
	process := map[uint64]int{}
	node := map[uint64]int{}
	for i, r := range rows {
		p := peers[i]
		n, ok := node[p.node]
		if !ok {
			n = len(s.Nodes)
			node[p.node] = n
			s.Nodes = append(s.Nodes, NodeUsage{Host: p.host, HeadroomBytes: UnlimitedBytes,
				LimitBytes: UnlimitedBytes, UsedBytes: UnknownBytes})
		}
		proc, seen := process[p.process]
		if !seen {
			proc = len(process)
			process[p.process] = proc
		}
		s.Ranks[i] = RankUsage{
			Rank: i, Host: p.host, Node: n, Process: proc, PID: int(p.pid), Level: r.level,
			HeadroomBytes: r.headroomBytes, Binding: r.binding, LimitBytes: r.limitBytes, UsedBytes: r.usedBytes,
			Usage: r.usage,
		}
		nu := &s.Nodes[n]
		nu.Ranks++
		nu.Level = max(nu.Level, r.level)
		if r.binding != "" && (nu.Binding == "" || r.headroomBytes < nu.HeadroomBytes) {
			nu.HeadroomBytes, nu.Binding, nu.LimitBytes, nu.UsedBytes = r.headroomBytes, r.binding, r.limitBytes, r.usedBytes
		}
		if !seen {
			nu.AnonBytes += max(r.usage.AnonBytes, 0)
		}
		nu.ShmemBytes = max(nu.ShmemBytes, r.usage.ShmemBytes)
	}
	return s
}

// Worst is the rank with the highest level, of those the one with the least
// headroom.
func (s *Survey) Worst() RankUsage {
	w := s.Ranks[0]
	for _, r := range s.Ranks[1:] {
		if r.Level > w.Level || r.Level == w.Level && r.HeadroomBytes < w.HeadroomBytes {
			w = r
		}
	}
	return w
}

// Imbalance is the private memory of the largest process over the mean of all
// processes: 1 is even.
func (s *Survey) Imbalance() float64 {
	var sum, largest int64
	process := map[int]bool{}
	for _, r := range s.Ranks {
		if !process[r.Process] {
			process[r.Process] = true
			sum += r.AnonBytes
			largest = max(largest, r.AnonBytes)
		}
	}
	if sum <= 0 {
		return 1
	}
	return float64(largest) * float64(len(process)) / float64(sum)
}

// String is a table of the ranks and a line for each node. Ranks of one process
// show its memory once, at the first of them.
func (s *Survey) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rank\thost\tlevel\tanon\tshmem\tGo\tother\tpeak\treserved\tuntouched\theadroom\t")
	process := map[int]int{}
	for _, r := range s.Ranks {
		memory := []any{"=", "=", "=", "=", "="}
		first, shared := process[r.Process]
		if shared {
			memory[0] = fmt.Sprintf("as rank %d", first)
		} else {
			process[r.Process] = r.Rank
			for i, n := range []int64{r.AnonBytes, r.ShmemBytes, r.GoBytes, r.NonGoBytes, r.PeakBytes} {
				memory[i] = sizeText(n)
			}
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", append(append([]any{r.Rank, r.Host, r.Level}, memory...),
			sizeText(r.ReservedBytes), sizeText(r.UntouchedBytes), sizeText(r.HeadroomBytes))...)
	}
	w.Flush()
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "%s: %d %s, %s, anon %s + shmem %s + others and kernel %s; %s left under %s (%s used of %s)\n",
			n.Host, n.Ranks, plural(n.Ranks, "rank"), n.Level, sizeText(n.AnonBytes), sizeText(n.ShmemBytes), sizeText(n.OthersBytes()),
			sizeText(n.HeadroomBytes), n.Binding, sizeText(n.UsedBytes), sizeText(n.LimitBytes))
	}
	return b.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// sizeText prints a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n == UnknownBytes:
		return "unknown"
	case n == UnlimitedBytes:
		return "unlimited"
	case n < 0:
		return "-" + humanize.IBytes(uint64(-n))
	}
	return humanize.IBytes(uint64(n))
}
