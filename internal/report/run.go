// Package report makes the story of a run of the records that its ranks left:
// who died and of what, who held how much, and pictures of it. It is pure: what
// it knows of files, clocks and kernels is given to it.
package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/kernellog"
)

// Evidence is what is known besides the records.
type Evidence struct {
	// Now is the time at which the records were read.
	Now time.Time
	// BootID is that of the kernel on which they were read: a rank of the same
	// kernel whose record nobody holds has ended.
	BootID string
	Logs   []Log
}

// Log is the kills of a kernel's log.
type Log struct {
	// BootID is that of the kernel, "" where it is not known whose log it is: then
	// what it does not have proves nothing.
	BootID string
	// Since is the time of its first line.
	Since time.Time
	Kills []kernellog.Kill
}

// covers reports whether the rank would be in the log if the kernel had killed it.
func (l *Log) covers(r *Rank) bool {
	return l.BootID != "" && l.BootID == r.Header.BootID && !r.Header.OwnPIDs && !l.Since.After(r.EndedAt)
}

// Run is what the ranks of one run recorded.
type Run struct {
	ID      string    `json:"run"`
	Job     string    `json:"job,omitempty"`
	Program string    `json:"program"`
	Size    int       `json:"size"` // ranks of the run
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"` // of the last sample, or close
	// Missing are the ranks without a record.
	Missing    []int    `json:"missing,omitempty"`
	InputBytes int64    `json:"input_bytes,omitempty"`
	Nodes      []*Node  `json:"nodes"`
	Story      []string `json:"story"` // what happened, in sentences
}

// Node is the ranks of one host, or of one container.
type Node struct {
	Host  string  `json:"host"`
	Ranks []*Rank `json:"ranks"` // in order of their numbers
	// Limit is the limit that was tightest at the end, nil where none is known.
	Limit *Limit `json:"limit,omitempty"`
	// Killed is how many processes the kernel killed for memory among those that
	// the limit counts, as the ranks saw it; -1 where none of them could.
	Killed int64 `json:"killed"`
	// Others are killed processes under the limit that are no ranks, by the
	// kernel's log.
	Others []kernellog.Kill `json:"others,omitempty"`
	// Suspects are the ranks among which are those that the kernel killed, where
	// nothing tells which.
	Suspects []int `json:"suspects,omitempty"`
}

// Limit is a limit and how it was used.
type Limit struct {
	Source     string         `json:"source"`
	Path       string         `json:"path"`
	Scope      blackbox.Scope `json:"-"`
	LimitBytes int64          `json:"limit_bytes"`
	// KeptFreeBytes is what was not given out.
	KeptFreeBytes int64 `json:"kept_free_bytes"`
	UsedBytes     int64 `json:"used_bytes"` // at the end
	PeakUsedBytes int64 `json:"peak_used_bytes"`
	id            uint64
}

// Rank is what one rank recorded.
type Rank struct {
	Rank    int    `json:"rank"`
	PID     int    `json:"pid"`
	Fate    Fate   `json:"fate"`
	Because string `json:"because"` // how that is known
	// EndedAt is when it ended as far as known: the kernel's word, or its last
	// sign of life.
	EndedAt time.Time `json:"ended_at"`

	Last          *blackbox.Sample `json:"last,omitempty"`
	PeakAnonBytes int64            `json:"peak_anon_bytes"`
	// HighWaterBytes is the kernel's high-water mark of the resident set.
	HighWaterBytes int64                 `json:"high_water_bytes"`
	Holders        []Holder              `json:"reservations,omitempty"` // the largest at the end
	Growth         Growth                `json:"growth"`
	Phases         []blackbox.Phase      `json:"phases,omitempty"`
	Transitions    []blackbox.Transition `json:"transitions,omitempty"`
	Damage         string                `json:"damage,omitempty"`

	// Samples are the last ones in full and an outline of those before.
	Samples []blackbox.Sample `json:"-"`
	Header  blackbox.Header   `json:"-"`

	limits  []Limit // of the last sample, by index
	binding int
	crash   string
	closed  *blackbox.Close
	held    bool
}

// Holder is a reservation and what it had grown by of late.
type Holder struct {
	Name       string `json:"name"`
	SizeBytes  int64  `json:"size_bytes"`
	GrownBytes int64  `json:"grown_bytes"`
}

// Growth is what changed in the time before the last sample.
type Growth struct {
	Over             time.Duration `json:"over_ns"`
	AnonBytes        int64         `json:"anon_bytes"`
	UnaccountedBytes int64         `json:"unaccounted_bytes"`
}

// growthOver is the time over which growth is told.
const growthOver = 2 * time.Second

// Collection takes in records, one after the other, and keeps of each what a
// report shows.
type Collection struct{ ranks []*Rank }

// Add takes in a record.
func (c *Collection) Add(f *blackbox.File) { c.ranks = append(c.ranks, newRank(f)) }

// Runs makes the reports of all runs, the earliest first.
func (c *Collection) Runs(e Evidence) []*Run {
	byRun := map[string][]*Rank{}
	for _, r := range c.ranks {
		byRun[r.Header.Run] = append(byRun[r.Header.Run], r)
	}
	var runs []*Run
	for _, id := range slices.Sorted(maps.Keys(byRun)) {
		runs = append(runs, newRun(id, byRun[id], e))
	}
	slices.SortStableFunc(runs, func(a, b *Run) int { return a.Start.Compare(b.Start) })
	return runs
}

func newRun(id string, ranks []*Rank, e Evidence) *Run {
	slices.SortFunc(ranks, func(a, b *Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	run := &Run{ID: id}
	type place struct{ boot, host string }
	nodes := map[place]*Node{}
	have := map[int]bool{}
	for _, r := range ranks {
		h := &r.Header
		run.Job, run.Program = cmp.Or(run.Job, h.Job), cmp.Or(run.Program, h.Program)
		run.Size = max(run.Size, h.Size, h.Rank+1)
		run.InputBytes = max(run.InputBytes, h.InputBytes)
		if first := r.firstSign(); !first.IsZero() && (run.Start.IsZero() || first.Before(run.Start)) {
			run.Start = first
		}
		if r.EndedAt.After(run.End) {
			run.End = r.EndedAt
		}
		have[r.Rank] = true
		p := place{h.BootID, h.Host}
		if nodes[p] == nil {
			nodes[p] = &Node{Host: h.Host, Killed: blackboxUnknown}
			run.Nodes = append(run.Nodes, nodes[p])
		}
		nodes[p].Ranks = append(nodes[p].Ranks, r)
	}
	for rank := range run.Size {
		if !have[rank] {
			run.Missing = append(run.Missing, rank)
		}
	}
	for _, n := range run.Nodes {
		n.settle(e)
		for _, r := range n.Ranks { // the kernel may know better than the last sample
			if r.EndedAt.After(run.End) {
				run.End = r.EndedAt
			}
		}
	}
	run.Story = run.story()
	return run
}

const (
	blackboxUnknown   int64 = -1
	blackboxUnlimited int64 = 1<<63 - 1
)

func newRank(f *blackbox.File) *Rank {
	r := &Rank{
		Rank: f.Header.Rank, PID: f.Header.PID, Header: f.Header,
		HighWaterBytes: blackboxUnknown, binding: -1,
		Phases: f.Phases, Transitions: f.Transitions, Damage: damage(f),
		crash: f.Crash, closed: f.Close, held: f.Held,
	}
	if n := len(f.Samples); n > 0 {
		last := f.Samples[n-1]
		r.Last, r.EndedAt = &last, last.At
		r.PeakAnonBytes, r.HighWaterBytes = last.PeakAnonBytes, last.HighWaterBytes
		r.limits = limitsOf(f, &last)
		if b := last.Binding; b >= 0 && b < len(r.limits) {
			r.binding = b
		}
		since := last.At.Add(-growthOver)
		before := sampleAt(f.Samples, since)
		r.Growth = Growth{last.At.Sub(before.At), last.AnonBytes - before.AnonBytes, last.UnaccountedBytes - before.UnaccountedBytes}
		r.Holders = holders(f.Holders, since)
		r.Phases = slices.Clone(f.Phases)
		for i := range r.Phases {
			if p := &r.Phases[i]; p.End.IsZero() {
				for j := range f.Samples {
					if s := &f.Samples[j]; !s.At.Before(p.Start) {
						p.PeakAnonBytes = max(p.PeakAnonBytes, s.AnonBytes)
					}
				}
			}
		}
	}
	if r.closed != nil {
		r.EndedAt = r.closed.At
	}
	r.Samples = thin(f.Samples)
	return r
}

func (r *Rank) firstSign() time.Time {
	if !r.Header.Started.IsZero() || len(r.Samples) == 0 {
		return r.Header.Started
	}
	return r.Samples[0].At
}

// limitsOf are the limits as of a sample.
func limitsOf(f *blackbox.File, s *blackbox.Sample) []Limit {
	var limits []Limit
	for i := range s.Limits {
		l, ok := f.Limit(s, i)
		if !ok {
			break
		}
		u := s.Limits[i]
		limits = append(limits, Limit{l.Source, l.Path, l.Scope, u.LimitBytes, l.KeptFreeBytes, u.UsedBytes, u.PeakUsedBytes, l.ID})
	}
	return limits
}

// sampleAt is the last of the samples at or before t, or the first one.
func sampleAt(samples []blackbox.Sample, t time.Time) *blackbox.Sample {
	i, found := slices.BinarySearchFunc(samples, t, func(s blackbox.Sample, t time.Time) int { return s.At.Compare(t) })
	if !found && i > 0 {
		i--
	}
	return &samples[i]
}

// holders are the largest reservations at the end and what each grew by since.
// One that was not among the largest before has grown from zero.
func holders(records []blackbox.Holders, since time.Time) []Holder {
	if len(records) == 0 {
		return nil
	}
	before := map[string]int64{}
	for _, r := range records {
		if r.At.After(since) && len(before) > 0 {
			break
		}
		clear(before)
		for _, h := range r.Top {
			before[h.Name] += h.SizeBytes
		}
	}
	var out []Holder
	for _, h := range records[len(records)-1].Top {
		out = append(out, Holder{h.Name, h.SizeBytes, h.SizeBytes - before[h.Name]})
	}
	return out
}

// The samples that are kept of a rank: the last ones, and the largest of so many
// stretches of the time before.
const (
	keptRecent  = 400
	keptOutline = 300
)

// thin keeps the last samples, and of the time before the largest of each of
// equal stretches: what a picture needs.
func thin(samples []blackbox.Sample) []blackbox.Sample {
	if len(samples) <= keptRecent+keptOutline {
		return slices.Clone(samples)
	}
	old, recent := samples[:len(samples)-keptRecent], samples[len(samples)-keptRecent:]
	first, span := old[0].At, old[len(old)-1].At.Sub(old[0].At)+1
	largest := make([]*blackbox.Sample, keptOutline)
	for i := range old {
		s := &old[i]
		k := min(max(int(float64(s.At.Sub(first))/float64(span)*keptOutline), 0), keptOutline-1)
		if largest[k] == nil || s.AnonBytes > largest[k].AnonBytes {
			largest[k] = s
		}
	}
	var out []blackbox.Sample
	for _, s := range largest {
		if s != nil {
			out = append(out, *s)
		}
	}
	return append(out, recent...)
}

// Running reports whether a rank of the run still lives.
func (run *Run) Running() bool {
	for _, n := range run.Nodes {
		if len(n.with(Running)) > 0 {
			return true
		}
	}
	return false
}

// PeakBytes is the most memory that the ranks of the node needed at one time: the
// private memory of the ranks and the shared memory that they map, or what was
// used under the cgroup's limit where that is more, since it counts the launcher
// and the kernel's part too. The latter is measured less often.
func (n *Node) PeakBytes() int64 {
	const columns = 1000
	var start, end time.Time
	var shmem, peak, counted int64
	if n.Limit != nil && n.Limit.Scope == blackbox.ScopeCgroup {
		counted = n.Limit.PeakUsedBytes
	}
	for _, r := range n.Ranks {
		if first := r.firstSign(); start.IsZero() || first.Before(start) {
			start = first
		}
		if r.EndedAt.After(end) {
			end = r.EndedAt
		}
		for i := range r.Samples {
			shmem = max(shmem, r.Samples[i].ShmemBytes)
		}
	}
	f := frame{start, end.Add(1), columns}
	sum := make([]int64, columns)
	for _, l := range n.layers(f) {
		for k, v := range l.bytes {
			sum[k] += v
			peak = max(peak, sum[k])
		}
	}
	return max(peak+shmem, counted)
}

// RAMBytes is the memory of the node, 0 where it was not recorded.
func (n *Node) RAMBytes() int64 {
	for _, r := range n.Ranks {
		for _, l := range r.limits {
			if l.Scope == blackbox.ScopeNode && l.LimitBytes > 0 && l.LimitBytes < blackboxUnlimited {
				return l.LimitBytes
			}
		}
	}
	return 0
}
