package main

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMedian(t *testing.T) {
	assert.Equal(t, 3.0, median([]float64{5, 3, 1}))
	assert.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
	assert.Equal(t, 7.0, median([]float64{7}))
}

// The ranks are those of tables of the sign test.
func TestMedianInterval(t *testing.T) {
	for n, want := range map[int]struct{ low, high, confidence float64 }{
		1: {1, 1, 0}, 5: {1, 5, 0.9375}, 6: {1, 6, 0.96875}, 7: {1, 7, 0.984375}, 9: {2, 8, 0.9609375},
		15: {4, 12, 0.96484375}, 20: {6, 15, 0.9586105}, 25: {8, 18, 0.9567},
	} {
		values := make([]float64, n)
		for i, v := range rand.Perm(n) {
			values[i] = float64(v + 1)
		}
		low, high, confidence := medianInterval(values)
		assert.Equal(t, want.low, low, "%d values", n)
		assert.Equal(t, want.high, high, "%d values", n)
		assert.InDelta(t, want.confidence, confidence, 1e-4, "%d values", n)
	}
}
