package recommend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrLeftBaseline is the error for a run that needed clearly more, or less, than
// the runs of the baseline.
var ErrLeftBaseline = errors.New("the peak left the baseline")

// Baseline is what runs needed so far, kept in a file.
type Baseline struct {
	Version int           `json:"version"`
	Runs    []Measurement `json:"runs"`
}

const (
	baselineVersion = 1
	keptRuns        = 100 // the oldest make room
	maxBaselineFile = 1 << 20
)

// ReadBaseline reads what Write wrote.
func ReadBaseline(r io.Reader) (*Baseline, error) {
	var b Baseline
	d := json.NewDecoder(io.LimitReader(r, maxBaselineFile))
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	if b.Version != baselineVersion {
		return nil, fmt.Errorf("baseline: version %d, want %d", b.Version, baselineVersion)
	}
	return &b, nil
}

// Write writes the baseline as JSON.
func (b *Baseline) Write(w io.Writer) error {
	b.Version = baselineVersion
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// Add takes a run into the baseline; one that is in it already is replaced.
func (b *Baseline) Add(m Measurement) error {
	if m.CutShort != "" {
		return fmt.Errorf("%w: %s of run %s", ErrCutShort, m.CutShort, m.Run)
	}
	for i := range b.Runs {
		if b.Runs[i].Run == m.Run {
			b.Runs[i] = m
			return nil
		}
	}
	b.Runs = append(b.Runs, m)
	b.Runs = b.Runs[max(len(b.Runs)-keptRuns, 0):]
	return nil
}

// Check compares a run with those of the baseline that had the same input and as
// many ranks a node. A peak within the tolerance of any of them, or between two
// of them, is fine.
func (b *Baseline) Check(m Measurement, tolerance float64) error {
	if m.CutShort != "" {
		return fmt.Errorf("%w: %s of run %s", ErrCutShort, m.CutShort, m.Run)
	}
	var low, high int64
	for i := range b.Runs {
		o := &b.Runs[i]
		if o.Run == m.Run || o.InputBytes != m.InputBytes || o.RanksPerNode != m.RanksPerNode {
			continue
		}
		if low == 0 || o.PeakBytes < low {
			low = o.PeakBytes
		}
		high = max(high, o.PeakBytes)
	}
	if high == 0 {
		return fmt.Errorf("baseline: no run with an input of %d bytes and %d ranks a node", m.InputBytes, m.RanksPerNode)
	}
	peak := float64(m.PeakBytes)
	if peak > float64(high)*(1+tolerance) || peak < float64(low)*(1-tolerance) {
		return fmt.Errorf("%w: run %s needed %d MiB a node, the baseline %d to %d MiB (tolerance %.0f %%)", ErrLeftBaseline,
			m.Run, ceilMiB(m.PeakBytes), ceilMiB(low), ceilMiB(high), 100*tolerance)
	}
	return nil
}
