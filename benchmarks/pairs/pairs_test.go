package pairs

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
)

// fake takes ns[r] in its r-th batch after those of the calibration.
func fake(name string, log *[]string, ns ...float64) Contender {
	return Contender{name, func(n int) Sample {
		*log = append(*log, name)
		s := ns[0]
		if len(ns) > 1 {
			ns = ns[1:]
		}
		return Sample{Nanoseconds: s}
	}}
}

func TestMeasureTakesTurns(t *testing.T) {
	var log []string
	r := Measure(Config{Rounds: 3, Times: 7}, fake("a", &log, 1), fake("b", &log, 2), fake("c", &log, 3))
	assert.Equal(t, []string{"a", "b", "c"}, log[:3], "one batch to warm up")
	assert.Equal(t, []string{"a", "b", "c", "b", "c", "a", "c", "a", "b"}, log[3:])
	assert.Equal(t, []int{7, 7, 7}, r.Times)
	for i := range 3 {
		assert.Len(t, r.Samples[i], 3)
		assert.Equal(t, Estimate{float64(i + 1), float64(i + 1), float64(i + 1)}, r.Nanoseconds(i))
	}
}

// What disturbs a whole round leaves the ratios alone.
func TestRatioIsOfPairs(t *testing.T) {
	r := Result{Samples: [][]Sample{
		{{10, 0}, {100, 0}, {1000, 0}, {10, 0}},
		{{5, 0}, {50, 0}, {500, 0}, {5, 0}},
	}}
	assert.Equal(t, Estimate{2, 2, 2}, r.Ratio(0, 1))
	assert.Equal(t, Estimate{0.5, 0.5, 0.5}, r.Ratio(1, 0))
	assert.Equal(t, Estimate{27.5, 5, 500}, r.More(0, 1))
	assert.Equal(t, Estimate{55, 10, 1000}, r.Nanoseconds(0), "as it was")
}

func TestCalibrate(t *testing.T) {
	for _, c := range []struct {
		each, batch time.Duration
		want        int
	}{
		{time.Nanosecond, time.Millisecond, 1_000_000},
		{time.Millisecond, 10 * time.Millisecond, 10},
		{time.Second, time.Millisecond, 1},
		{0, time.Millisecond, 1_000_000_000},
	} {
		constant := Contender{"", func(int) Sample { return Sample{Nanoseconds: float64(c.each)} }}
		assert.Equal(t, c.want, calibrate(constant, c.batch), "%v in %v", c.each, c.batch)
	}
}

// The ranks of the table that textbooks print for the sign test.
func TestOutside(t *testing.T) {
	for n, want := range map[int]int{1: 0, 2: 0, 5: 0, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 17: 4, 20: 5, 25: 7, 31: 9, 100: 39} {
		assert.Equal(t, want, outside(n), "of %d values", n)
	}
}

// The interval misses the true median in less than one case of twenty.
func TestEstimateCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 15, 31} {
		const series = 4000
		missed := 0
		for range series {
			v := make([]float64, n)
			for i := range v {
				v[i] = rng.ExpFloat64() // lopsided, like times
			}
			e := estimate(v)
			slices.Sort(v)
			require.True(t, v[0] <= e.Low && e.Low <= e.Median && e.Median <= e.High && e.High <= v[n-1])
			if e.Low > math.Ln2 || e.High < math.Ln2 {
				missed++
			}
		}
		assert.LessOrEqual(t, float64(missed)/series, 0.055, "%d values", n)
	}
}

var sink []byte

func TestAllocs(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates too")
	}
	r := Measure(Config{Rounds: 15, Times: 1000},
		CPU("two", func(n int) {
			for range n {
				sink = make([]byte, 64)
				sink = make([]byte, 1024)
			}
		}),
		Wall("none", func(int) {}),
		CPU("a few in all", func(int) { sink = make([]byte, 100) }))
	assert.Equal(t, 2, r.Allocs(0))
	assert.Equal(t, 0, r.Allocs(1))
	assert.Equal(t, 0, r.Allocs(2))
}

func TestClocks(t *testing.T) {
	const wait = 20 * time.Millisecond
	sleep := func(n int) { time.Sleep(time.Duration(n) * wait) }
	assert.GreaterOrEqual(t, Wall("", sleep).Run(2).Nanoseconds, float64(wait))
	assert.GreaterOrEqual(t, Parallel("", sleep, sleep).Run(1).Nanoseconds, float64(wait))

	begun, nothing := time.Now(), func(int) {}
	mean := Parallel("", sleep, nothing, nothing, nothing, nothing, nothing, nothing, nothing).Run(1).Nanoseconds
	assert.Less(t, mean, float64(time.Since(begun))/2)

	work := func(n int) {
		for begun := threadTime(); threadTime()-begun < time.Duration(n)*wait; {
			continue
		}
	}
	assert.GreaterOrEqual(t, CPU("", work).Run(1).Nanoseconds, float64(wait))
}
