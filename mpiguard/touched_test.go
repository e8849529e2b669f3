package mpiguard

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemoryObserve(t *testing.T) {
	type step struct{ private, reserved, touched, unaccounted int64 }
	for name, steps := range map[string][]step{
		"growth belongs to the promise first":   {{100, 50, 0, 0}, {130, 50, 30, 0}, {170, 50, 50, 20}},
		"growth before a promise is never its":  {{140, 0, 0, 40}, {140, 50, 0, 40}, {150, 50, 10, 40}},
		"a fall comes out of unaccounted first": {{160, 30, 30, 30}, {140, 30, 30, 10}, {110, 30, 10, 0}},
		"released memory stays as unaccounted":  {{150, 50, 50, 0}, {150, 20, 20, 30}, {130, 20, 20, 10}},
		"below the baseline nothing is counted": {{150, 50, 50, 0}, {80, 50, 0, 0}, {120, 50, 20, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory{baselineBytes: 100}
			for i, s := range steps {
				m.observe(s.private, s.reserved)
				assert.Equal(t, s.touched, m.touchedBytes, "touched after step %d", i)
				assert.Equal(t, s.unaccounted, m.unaccountedBytes, "unaccounted after step %d", i)
			}
		})
	}
}

// The sum of the parts is what is resident above the baseline after every
// sample, and no part is ever negative or above what it can be.
func TestMemoryObserveKeepsItsInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := memory{baselineBytes: 1000}
	for range 100_000 {
		private, reserved := r.Int64N(3000), r.Int64N(1500)
		m.observe(private, reserved)
		require.Equal(t, max(private-m.baselineBytes, 0), m.touchedBytes+m.unaccountedBytes)
		require.GreaterOrEqual(t, m.touchedBytes, int64(0))
		require.GreaterOrEqual(t, m.unaccountedBytes, int64(0))
		require.LessOrEqual(t, m.touchedBytes, reserved)
		require.Equal(t, reserved-m.touchedBytes, m.untouched(reserved))
	}
}
