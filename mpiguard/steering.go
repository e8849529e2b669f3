package mpiguard

import (
	"fmt"
	"math"
	"time"
)

// steering are the fields of a Config on which collectives, or decisions that
// all ranks take alike, depend, and the layout of the rows: they must be equal
// on all ranks. A limit is not among them, it may differ by node.
type steering [9]uint64

func (c Config) steering() steering {
	return steering{
		rowLayout,
		math.Float64bits(c.KeepFree),
		math.Float64bits(c.ElevatedAt), math.Float64bits(c.HighAt), math.Float64bits(c.CriticalAt),
		uint64(c.ReleaseAfter), uint64(c.CollectiveTimeout), uint64(c.ExhaustedAfter), uint64(c.AbortCode),
	}
}

// mismatch says in which field s differs from that of rank 0.
func (s steering) mismatch(zero steering) error {
	fraction := func(u uint64) any { return math.Float64frombits(u) }
	duration := func(u uint64) any { return time.Duration(u) }
	number := func(u uint64) any { return u }
	fields := [len(s)]struct {
		name string
		text func(uint64) any
	}{
		{"version of the library", number},
		{"Config.KeepFree", fraction},
		{"Config.ElevatedAt", fraction}, {"Config.HighAt", fraction}, {"Config.CriticalAt", fraction},
		{"Config.ReleaseAfter", duration}, {"Config.CollectiveTimeout", duration},
		{"Config.ExhaustedAfter", duration}, {"Config.AbortCode", number},
	}
	for i, f := range fields {
		if s[i] != zero[i] {
			return fmt.Errorf("%w: %s is %v, on rank 0 it is %v", ErrConfigMismatch, f.name, f.text(s[i]), f.text(zero[i]))
		}
	}
	return nil
}
