package benchmarks

import (
	"github.com/mpiguard/mpiguard/benchmarks/pairs"
)

// Row is an operation of the library with what it is measured beside.
type Row struct {
	Name string
	Goal Goal
	// Bytes is how many an operation works through, 0 where a rate says nothing.
	Bytes int64
	// Steps is how often an operation comes to the caller, as an iterator over a
	// file does with each chunk; 0 is once. Allocations are counted for a step.
	Steps int
	// Reason is why the goal is missed where it is, as far as that is known.
	Reason string

	Ours, Primitive pairs.Contender
	Rivals          []pairs.Contender
}

// The names of the rows that have rivals in benchmarks/peers.
const (
	SampleRSS          = "sample own RSS"
	SampleGroup        = "sample RSS + cgroup usage + Go memory"
	FindBudget         = "find the budget"
	GrowShrink         = "TryGrow + Shrink"
	GrowShrinkParallel = "TryGrow + Shrink, two goroutines"
	PoolGetPut         = "pool get + put"
)

// Contenders are all that are measured: ours, the primitive and the rivals.
func (r Row) Contenders() []pairs.Contender {
	return append([]pairs.Contender{r.Ours, r.Primitive}, r.Rivals...)
}

// Indices of Row.Contenders and Measured.Names.
const (
	ours = iota
	primitive
	firstRival
)

// Measured is a row with its figures, as one process hands it to another.
type Measured struct {
	Name   string       `json:"name"`
	Goal   Goal         `json:"goal"`
	Bytes  int64        `json:"bytes"`
	Steps  int          `json:"steps"`
	Reason string       `json:"reason"`
	Names  []string     `json:"names"` // of the contenders
	Result pairs.Result `json:"result"`
}

// Measure measures the row.
func (r Row) Measure(c pairs.Config) Measured {
	m := Measured{Name: r.Name, Goal: r.Goal, Bytes: r.Bytes, Steps: max(r.Steps, 1), Reason: r.Reason}
	for _, o := range r.Contenders() {
		m.Names = append(m.Names, o.Name)
	}
	m.Result = pairs.Measure(c, r.Contenders()...)
	return m
}

// allocs is how many allocations contender i makes in a step.
func (m Measured) allocs(i int) int { return m.Result.Allocs(i) / m.Steps }
