package pairs

import (
	"math"
	"slices"
)

// Estimate is a median with an interval that holds the true one with at least
// 95 % confidence. With fewer than six values, which cannot tell that, the
// interval is all of them.
type Estimate struct{ Median, Low, High float64 }

// estimate supposes nothing of the distribution of the values: each is below the
// true median as often as above, so that two of the values bound it.
func estimate(values []float64) Estimate {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	k := outside(n)
	return Estimate{(s[(n-1)/2] + s[n/2]) / 2, s[k], s[n-1-k]}
}

// outside is the largest k for which all but the k smallest and the k largest of n
// values still enclose the true median with 95 % confidence. They do not when of n
// fair coins at most k show heads, or at most k tails.
func outside(n int) int {
	p := math.Pow(0.5, float64(n)) // of no heads
	tail := p
	k := 0
	for 2*(k+1) < n {
		p *= float64(n-k) / float64(k+1)
		if tail += p; 2*tail > 0.05 {
			break
		}
		k++
	}
	return k
}
