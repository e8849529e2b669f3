package benchmarks

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
)

// TestFootprint keeps the library small beside the jobs that it guards.
func TestFootprint(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector takes memory too")
	}
	f, err := MeasureFootprint()
	require.NoError(t, err)
	t.Log(f)
	for _, part := range []struct {
		name           string
		bytes, mostKiB int64
		here           bool
	}{
		{"a guard", f.GuardBytes, 128, true},
		{"1,000 reservations", f.ReservationsBytes, 384, true},
		{"the ledger of 32 ranks", f.LedgerBytes, 32, runtime.GOOS == "linux"},
	} {
		assert.LessOrEqual(t, part.bytes, part.mostKiB<<10, part.name)
		if part.here {
			assert.Positive(t, part.bytes, part.name)
		}
	}
}
