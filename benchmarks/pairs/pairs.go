// Package pairs measures operations beside each other, in one run. Every round
// gives each of them a batch, in an order that moves on by one, so that the
// clock rate, the caches and other work on the machine meet all alike. What is
// compared are the batches of a round with each other, and what is reported the
// median over the rounds: one that was disturbed changes little.
package pairs

import (
	"slices"
	"time"
)

// Config says how long to measure.
type Config struct {
	// Rounds is their number; fewer than 15 tell little.
	Rounds int
	// Batch is about how long a batch is to take: its number of operations is
	// found before the first round.
	Batch time.Duration
	// Times, where not zero, is the number of operations of a batch instead: the
	// ranks of a job must do the same number.
	Times int
}

// Result is what was measured.
type Result struct {
	// Times[i] is the number of operations in a batch of contender i.
	Times []int `json:"times"`
	// Samples[i][r] is what contender i took in round r.
	Samples [][]Sample `json:"samples"`
}

// Measure runs the contenders in turn.
func Measure(c Config, contenders ...Contender) Result {
	r := Result{make([]int, len(contenders)), make([][]Sample, len(contenders))}
	for i, o := range contenders {
		if r.Times[i] = c.Times; c.Times == 0 {
			r.Times[i] = calibrate(o, c.Batch)
		}
		o.Run(r.Times[i]) // warms up
	}
	for round := range c.Rounds {
		for k := range contenders {
			i := (round + k) % len(contenders)
			r.Samples[i] = append(r.Samples[i], contenders[i].Run(r.Times[i]))
		}
	}
	return r
}

// calibrate finds how many operations take as long as a batch.
func calibrate(o Contender, batch time.Duration) int {
	const most = 1 << 30
	for n := 1; ; n = min(8*n, most) {
		each := max(o.Run(n).Nanoseconds, 1e-3)
		if each*float64(n) >= float64(batch)/8 || n == most {
			return max(int(min(float64(batch)/each, most)), 1)
		}
	}
}

// Nanoseconds is the time that contender i takes.
func (r Result) Nanoseconds(i int) Estimate { return estimate(r.values(i)) }

// Ratio is the time of contender i over that of contender j.
func (r Result) Ratio(i, j int) Estimate {
	return r.compare(i, j, func(a, b float64) float64 { return a / b })
}

// More is by how many nanoseconds contender i takes longer than contender j.
func (r Result) More(i, j int) Estimate {
	return r.compare(i, j, func(a, b float64) float64 { return a - b })
}

// Allocs is how many allocations contender i makes, in whole ones as package
// testing counts them.
func (r Result) Allocs(i int) int {
	var a []float64
	for _, s := range r.Samples[i] {
		a = append(a, s.Allocs)
	}
	return int(estimate(a).Median)
}

func (r Result) values(i int) []float64 {
	v := make([]float64, len(r.Samples[i]))
	for k, s := range r.Samples[i] {
		v[k] = s.Nanoseconds
	}
	return v
}

func (r Result) compare(i, j int, f func(a, b float64) float64) Estimate {
	v := slices.Clone(r.values(i))
	for k, b := range r.values(j) {
		v[k] = f(v[k], b)
	}
	return estimate(v)
}
