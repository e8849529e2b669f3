package mpiguard_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

// Many ranks, each with a reservation of its own size: every rank sees them all.
func TestManyRanks(t *testing.T) {
	n := 4096
	if invariants.Enabled { // the race detector takes its time
		n = 128
	}
	var surveyed, pulsed, made time.Duration
	var surveys atomic.Int64
	start := time.Now()
	require.NoError(t, inproc.Run(n, func(c mpiguard.Messenger) error {
		ctx := context.Background()
		g, err := mpiguard.New(ctx, c, mpiguard.Config{LimitBytes: 8 << 40})
		if err != nil {
			return err
		}
		defer g.Close()
		if c.Rank() == 0 {
			made = time.Since(start)
		}
		r, err := g.TryReserve("own", int64(c.Rank()+1)<<10)
		if err != nil {
			return err
		}
		defer r.Release()
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		begin := time.Now()
		s, err := g.Survey(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			surveyed = time.Since(begin)
		}
		var sum int64
		for _, row := range s.Ranks {
			sum += row.ReservedBytes
		}
		assert.Equal(t, int64(n)*int64(n+1)/2<<10, sum)
		assert.Len(t, s.Ranks, n)
		surveys.Add(1)
		s = nil
		begin = time.Now()
		p, err := g.Pulse(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			pulsed = time.Since(begin)
		}
		assert.Equal(t, mpiguard.Normal, p.Level)
		return nil
	}))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d ranks: New %v, Survey %v, Pulse %v; the heap took %d MiB", n, made, surveyed, pulsed, m.HeapSys>>20)
	assert.EqualValues(t, n, surveys.Load())
	debug.FreeOSMemory() // so many ranks leave much behind
}
