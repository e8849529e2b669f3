package report

import (
	"slices"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

// frame is a stretch of time in columns of equal width.
type frame struct {
	from, to time.Time
	columns  int
}

// column is the column of a moment; it may lie outside.
func (f frame) column(t time.Time) int {
	return int(float64(t.Sub(f.from)) / float64(f.to.Sub(f.from)) * float64(f.columns))
}

// layer is one rank's memory over the columns of a frame.
type layer struct {
	label string
	rank  *Rank // nil: the rest of a process that holds several ranks
	bytes []int64
}

// layers are what is stacked in the picture of a node: the private memory of the
// ranks, or where they share a process, what each has reserved and the rest.
func (n *Node) layers(f frame) []layer {
	of := anonymous
	shared := n.process() != nil
	if shared {
		of = reserved
	}
	var out []layer
	for _, r := range n.Ranks {
		out = append(out, layer{rankList([]int{r.Rank}), r, r.series(f, of)})
	}
	if shared {
		rest := n.Ranks[0].series(f, anonymous)
		for i := range rest {
			for _, l := range out {
				rest[i] -= l.bytes[i]
			}
			rest[i] = max(rest[i], 0)
		}
		out = slices.Insert(out, 0, layer{"rest of the process", nil, rest})
	}
	return out
}

// series is the largest value of the samples in each column. A column without a
// sample has that of the one before, until the rank has ended.
func (r *Rank) series(f frame, of func(*blackbox.Sample) int64) []int64 {
	out := make([]int64, f.columns)
	filled := make([]bool, f.columns)
	var before int64 // the value at the left edge
	last := -1
	for i := range r.Samples {
		s := &r.Samples[i]
		k := f.column(s.At)
		switch {
		case s.At.Before(f.from):
			before = of(s)
		case k < f.columns:
			out[k] = max(out[k], of(s))
			filled[k] = true
		}
		last = max(last, k)
	}
	if !r.EndedAt.IsZero() && len(r.Samples) > 0 {
		last = max(last, f.column(r.EndedAt))
	}
	for k := range out {
		if !filled[k] && k <= last {
			out[k] = before
		}
		before = out[k]
	}
	return out
}

// underLimit are the limit and the use of it over the columns, the most of what
// any rank saw; -1 where nobody looked.
func (n *Node) underLimit(f frame) (limit, used []int64) {
	limit, used = make([]int64, f.columns), make([]int64, f.columns)
	for k := range limit {
		limit[k], used[k] = blackboxUnknown, blackboxUnknown
	}
	for _, r := range n.Ranks {
		i := slices.IndexFunc(r.limits, func(l Limit) bool { return l.id == n.Limit.id })
		if i < 0 {
			continue
		}
		for j := range r.Samples {
			s := &r.Samples[j]
			k := f.column(s.At)
			if s.LimitSet != r.Last.LimitSet || s.At.Before(f.from) || k >= f.columns {
				continue
			}
			used[k] = max(used[k], s.Limits[i].UsedBytes)
			limit[k] = max(limit[k], s.Limits[i].LimitBytes)
		}
	}
	return limit, used
}
