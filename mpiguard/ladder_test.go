package mpiguard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func testLadder() ladder {
	return newLadder(Config{ElevatedAt: 0.7, HighAt: 0.85, CriticalAt: 0.95, ReleaseAfter: time.Second})
}

func TestLadder(t *testing.T) {
	type step struct {
		ms       int
		pressure float64
		want     Level
	}
	for name, steps := range map[string][]step{
		"rises at once, over several levels":  {{0, 0.1, Normal}, {1, 0.96, Critical}},
		"thresholds belong to the level":      {{0, 0.6999, Normal}, {1, 0.70, Elevated}, {2, 0.85, High}, {3, 0.95, Critical}},
		"within the margin it never falls":    {{0, 0.86, High}, {1, 0.81, High}, {60_000, 0.81, High}},
		"below the margin it falls with time": {{0, 0.86, High}, {10, 0.79, High}, {1009, 0.79, High}, {1010, 0.79, Elevated}, {5000, 0.79, Elevated}},
		"falls to where the pressure is":      {{0, 0.99, Critical}, {10, 0.2, Critical}, {1010, 0.2, Normal}},
		"a peak starts the wait again":        {{0, 0.86, High}, {10, 0.7, High}, {900, 0.82, High}, {1100, 0.7, High}, {2099, 0.7, High}, {2100, 0.7, Elevated}},
		"a rise while waiting":                {{0, 0.71, Elevated}, {10, 0.5, Elevated}, {500, 0.9, High}, {600, 0.5, High}, {1599, 0.5, High}, {1600, 0.5, Normal}},
	} {
		t.Run(name, func(t *testing.T) {
			l, start := testLadder(), time.Unix(1000, 0)
			for i, s := range steps {
				old := l.level
				changed := l.observe(start.Add(time.Duration(s.ms)*time.Millisecond), s.pressure)
				assert.Equal(t, s.want, l.level, "step %d", i)
				assert.Equal(t, old != l.level, changed, "step %d", i)
			}
		})
	}
}

// A pressure that shakes around a threshold by less than the margin changes the
// level once.
func TestLadderDoesNotFlap(t *testing.T) {
	l, now, changes := testLadder(), time.Unix(1000, 0), 0
	for i := range 10_000 {
		now = now.Add(100 * time.Millisecond)
		if l.observe(now, 0.85+0.04*float64(i%2*2-1)) {
			changes++
		}
	}
	assert.Equal(t, High, l.level)
	assert.LessOrEqual(t, changes, 2, "normal to elevated, elevated to high")
}
