package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// timing is the result of -pairs and its last line. Ratio is the median over the
// pairs of guarded over naive; RatioLow and RatioHigh bound it.
type timing struct {
	Pairs          int     `json:"pairs"`
	LimitBytes     int64   `json:"limit_bytes"`
	GuardedSeconds float64 `json:"guarded_seconds"`
	NaiveSeconds   float64 `json:"unlimited_seconds"`
	Ratio          float64 `json:"ratio"`
	RatioLow       float64 `json:"ratio_low"`
	RatioHigh      float64 `json:"ratio_high"`
	Confidence     float64 `json:"confidence"`
}

// pairs times guarded under the limit against naive without one. Each pair runs
// in the other order than the one before, so that a machine that warms up or
// wanders does so for both.
func (d *driver) pairs(ctx context.Context, n int, limitBytes int64, out io.Writer) error {
	var guarded, naive, ratios []float64
	for i := range n {
		modes := []string{"guarded", "naive"}
		if i%2 == 1 {
			slices.Reverse(modes)
		}
		seconds := map[string]float64{}
		for _, mode := range modes {
			limit := limitBytes
			if mode == "naive" {
				limit = 0
			}
			o, err := d.run(ctx, mode, limit)
			if err != nil {
				return err
			}
			if o.Exit != 0 {
				return fmt.Errorf("%s run exited with %d:\n%s", mode, o.Exit, o.stderr)
			}
			seconds[mode] = o.Seconds
		}
		guarded = append(guarded, seconds["guarded"])
		naive = append(naive, seconds["naive"])
		ratios = append(ratios, seconds["guarded"]/seconds["naive"])
		fmt.Fprintf(out, "pair %d of %d: guarded in %s %.2f s, naive without limit %.2f s, ratio %.3f\n",
			i+1, n, sizeText(limitBytes), seconds["guarded"], seconds["naive"], ratios[i])
	}
	t := timing{Pairs: n, LimitBytes: limitBytes, GuardedSeconds: median(guarded), NaiveSeconds: median(naive), Ratio: median(ratios)}
	t.RatioLow, t.RatioHigh, t.Confidence = medianInterval(ratios)
	fmt.Fprintf(out, "median: guarded %.2f s, naive %.2f s, ratio %.3f (%.3f to %.3f with %.1f %% confidence)\n",
		t.GuardedSeconds, t.NaiveSeconds, t.Ratio, t.RatioLow, t.RatioHigh, 100*t.Confidence)
	return json.NewEncoder(out).Encode(t)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// medianInterval bounds the median by two of the values, the narrowest such
// interval from both ends that has at least 95 % confidence, or, where there are
// too few values for that, the smallest and the largest. It supposes nothing of
// their distribution: each value is below the true median as often as above.
func medianInterval(values []float64) (low, high, confidence float64) {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	// Outside [s[k], s[n-1-k]] with the probability of at most k heads of n coins,
	// or as few tails.
	tail := math.Pow(0.5, float64(n))
	k, outside := 0, 2*tail
	for p := tail; k+1 <= (n-1)/2; {
		p *= float64(n-k) / float64(k+1)
		tail += p
		if 2*tail > 0.05 {
			break
		}
		k, outside = k+1, 2*tail
	}
	return s[k], s[n-1-k], 1 - outside
}
