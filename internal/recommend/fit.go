package recommend

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Errors of Advise that say that the records do not tell.
var (
	// ErrCutShort: a run did not come to its end, so it needed more than it shows.
	ErrCutShort = errors.New("a run did not come to its end")
	// ErrTooFewSizes: less than three sizes of the input, and another one is asked for.
	ErrTooFewSizes = errors.New("too few input sizes were recorded")
	// ErrPoorFit: the memory is neither constant nor a line over the input size, or
	// the line is too uncertain where it is wanted.
	ErrPoorFit = errors.New("memory does not follow the input size")
)

// What makes a fit good enough.
const (
	maxResidual  = 0.04 // of what was measured, at each size
	maxUncertain = 0.15 // standard error of the prediction, of the prediction
	// noise is how far equal runs differ: garbage that was or was not collected.
	noiseFraction  = 0.03
	noiseRankBytes = 1 << 20
)

// Fit is memory over input size: Base + Slope × input, in bytes.
type Fit struct {
	Sizes     int     `json:"sizes"`     // different sizes of the input
	Base      float64 `json:"base"`      // what is needed without input
	Slope     float64 `json:"slope"`     // bytes per byte of the input; 0: constant
	Residual  float64 `json:"residual"`  // the largest deviation, of what was measured
	Uncertain float64 `json:"uncertain"` // standard error of the prediction, of the prediction
	Times     float64 `json:"times"`     // the predicted size over the largest that was recorded
}

type point struct{ x, y float64 }

// fit predicts y at x from points of at least three different x. noise is the
// deviation that says nothing.
func fit(points []point, x, noise float64) (*Fit, float64, error) {
	n := float64(len(points))
	var meanX, meanY, largestX float64
	low, high := math.Inf(1), 0.0
	sizes := map[float64]bool{}
	for _, p := range points {
		meanX += p.x / n
		meanY += p.y / n
		low, high, largestX = min(low, p.y), max(high, p.y), max(largestX, p.x)
		sizes[p.x] = true
	}
	f := &Fit{Sizes: len(sizes), Times: x / largestX}
	if len(sizes) < 3 {
		return nil, 0, fmt.Errorf("%w: %d, want at least 3, since two make a line of any job", ErrTooFewSizes, len(sizes))
	}
	if high-low <= max(noise, noiseFraction*meanY) { // constant, as far as can be told
		f.Base = high
		f.Residual = (high - low) / high
		return f, high, nil
	}
	var sxx, sxy float64
	for _, p := range points {
		sxx += (p.x - meanX) * (p.x - meanX)
		sxy += (p.x - meanX) * (p.y - meanY)
	}
	f.Slope = sxy / sxx
	f.Base = meanY - f.Slope*meanX
	var squares float64
	for _, p := range points {
		r := p.y - f.Base - f.Slope*p.x
		squares += r * r
		f.Residual = max(f.Residual, math.Abs(r)/p.y)
	}
	y := f.Base + f.Slope*x
	s := math.Sqrt(squares / (n - 2))
	f.Uncertain = s * math.Sqrt(1/n+(x-meanX)*(x-meanX)/sxx) / max(y, 1)
	switch {
	case f.Slope < 0:
		return nil, 0, fmt.Errorf("%w: it falls as the input grows", ErrPoorFit)
	case f.Residual > maxResidual:
		return nil, 0, fmt.Errorf("%w: a line is off by %.0f %% at one of the sizes; a step or a curve may lie between them", ErrPoorFit, 100*f.Residual)
	case f.Uncertain > maxUncertain:
		return nil, 0, fmt.Errorf("%w: ×%.3g beyond the largest size a line through the records is uncertain by %.0f %%; record larger sizes",
			ErrPoorFit, f.Times, 100*f.Uncertain)
	}
	return f, y, nil
}

// spread is how far equal runs differ, of the largest.
func spread(ys []float64) float64 {
	low, high := slices.Min(ys), slices.Max(ys)
	if high <= 0 {
		return 0
	}
	return (high - low) / high
}
