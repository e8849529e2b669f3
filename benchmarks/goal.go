package benchmarks

import (
	"fmt"
	"strings"
)

// Goal is what an operation is to reach. Times are in nanoseconds. A bound that is
// zero is none, but for Allocs.
type Goal struct {
	// AtMost bounds the time of an operation.
	AtMost float64 `json:"at_most"`
	// AtLeast bounds the rate, in bytes a nanosecond, which are GB (1e9) a second.
	AtLeast float64 `json:"at_least"`
	// OfPrimitive and OfRival bound the speed: as a fraction of that of the
	// primitive, and as a multiple of that of the first rival.
	OfPrimitive float64 `json:"of_primitive"`
	OfRival     float64 `json:"of_rival"`
	// MoreThanPrimitive bounds the time that comes on top of the primitive's.
	MoreThanPrimitive float64 `json:"more_than_primitive"`
	// Allocs bounds the allocations of a step.
	Allocs int `json:"allocs"`

	// Reference is what the primitive took on the machine on which AtMost and
	// MoreThanPrimitive were set. On a faster or slower machine, or one that is
	// busy, it makes ratios to the primitive of them.
	Reference float64 `json:"reference"`
}

// AnyAllocs is a Goal.Allocs for operations whose allocations do not matter.
const AnyAllocs = -1

// ratio is what a goal in nanoseconds allows as a multiple of the primitive, 0
// where there is no such goal.
func (g Goal) ratio() float64 {
	switch {
	case g.Reference == 0:
		return 0
	case g.MoreThanPrimitive > 0:
		return 1 + g.MoreThanPrimitive/g.Reference
	}
	return g.AtMost / g.Reference
}

// check is one bound of a goal and how far it is reached.
type check struct {
	text string
	of   float64 // ours as a fraction of what is allowed
}

// checks holds the medians of a row against each bound of its goal.
func (m Measured) checks() []check {
	var all []check
	add := func(of float64, format string, args ...any) {
		all = append(all, check{fmt.Sprintf(format, args...), of})
	}
	g, took := m.Goal, m.Result.Nanoseconds(ours).Median
	if g.AtMost > 0 {
		add(took/g.AtMost, "≤ %s", duration(g.AtMost))
	}
	if g.AtLeast > 0 {
		add(g.AtLeast*took/float64(m.Bytes), "≥ %.3g GB/s", g.AtLeast)
	}
	if g.OfPrimitive > 0 {
		add(g.OfPrimitive*m.Result.Ratio(ours, primitive).Median, "≥ %.3g × %s", g.OfPrimitive, m.Names[primitive])
	}
	if g.OfRival > 0 {
		add(g.OfRival*m.Result.Ratio(ours, firstRival).Median, "≥ %.3g × %s", g.OfRival, m.Names[firstRival])
	}
	if g.MoreThanPrimitive > 0 {
		add(m.Result.More(ours, primitive).Median/g.MoreThanPrimitive, "≤ %s + %s", m.Names[primitive],
			duration(g.MoreThanPrimitive))
	}
	if g.Allocs >= 0 {
		// One is added to both, since none is a bound too.
		add(float64(m.allocs(ours)+1)/float64(g.Allocs+1), "≤ %d allocs", g.Allocs)
	}
	return all
}

// slack is what a test allows above a goal.
const slack = 1.25

// Missed says what of the goal, and a quarter, ours does not reach, as ratios to
// what was timed in the same run; empty if it reaches all. Only what is sure is
// said: the better end of each interval counts.
func (m Measured) Missed() string {
	var missed []string
	compare := func(i int, allowed float64) {
		if r := m.Result.Ratio(ours, i); r.Low > allowed {
			missed = append(missed, fmt.Sprintf("%.2f × %s (%.2f to %.2f), allowed %.2f", r.Median, m.Names[i], r.Low, r.High, allowed))
		}
	}
	g := m.Goal
	if r := g.ratio(); r > 0 {
		compare(primitive, slack*r)
	}
	if g.OfPrimitive > 0 {
		compare(primitive, slack/g.OfPrimitive)
	}
	if g.OfRival > 0 {
		compare(firstRival, slack/g.OfRival)
	}
	if n := m.allocs(ours); g.Allocs >= 0 && n > g.Allocs {
		missed = append(missed, fmt.Sprintf("%d allocations, allowed %d", n, g.Allocs))
	}
	return strings.Join(missed, "; ")
}
