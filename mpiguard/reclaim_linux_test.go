package mpiguard

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// resident maps so many bytes outside the Go heap and touches them.
func resident(t *testing.T, n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	for i := 0; i < n; i += os.Getpagesize() {
		b[i] = 1
	}
	return b
}

// tight makes a guard that may use so much more than the process uses now. Its
// limit is that of the job, so the rest of the machine does not matter.
func tight(t *testing.T, more int64, cfg Config) *Guard {
	probe, err := New(context.Background(), nil, Config{})
	require.NoError(t, err)
	anon := probe.Usage().AnonBytes
	require.NoError(t, probe.Close())
	cfg.LimitBytes = anon + more
	for range 3 { // what is kept free depends on the limit
		cfg.LimitBytes = anon + more + keptFreeBytes(cfg.LimitBytes, defaultKeepFree, 1)
	}
	cfg.KeepGoLimit = true
	g, err := New(context.Background(), nil, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() }) // a test that failed does not fail the next
	return g
}

func TestReclaimBeforeRefusal(t *testing.T) {
	g := tight(t, 400<<20, Config{})
	defer g.Close()
	cache := resident(t, 200<<20)
	_, err := g.TryReserveOffHeap("table", 300<<20)
	require.ErrorIs(t, err, ErrRefused)

	var small, large int
	g.RegisterReclaim("small", func(want int64) int64 { small++; panic("a broken callback") })
	stop := g.RegisterReclaim("cache", func(want int64) int64 {
		large++
		assert.Greater(t, want, int64(50<<20))
		if cache != nil {
			require.NoError(t, unix.Munmap(cache))
			cache = nil
			return 200 << 20
		}
		return 0
	})
	r, err := g.TryReserveOffHeap("table", 300<<20)
	require.NoError(t, err)
	r.Release()
	assert.Equal(t, 1, small)
	assert.Equal(t, 1, large)

	// The one that freed the most comes first, and suffices.
	cache = resident(t, 200<<20)
	require.Eventually(t, func() bool { // rounds take a part of the time only
		r, err = g.TryReserveOffHeap("table", 300<<20)
		return err == nil
	}, waitLong, 50*time.Millisecond)
	r.Release()
	assert.Equal(t, 1, small)
	assert.Equal(t, 2, large)
	stop()
	g.proc.reclaimer.mu.Lock()
	assert.Len(t, g.proc.reclaimer.callbacks, 1)
	g.proc.reclaimer.mu.Unlock()
}

// Pressure that comes and comes again does not make a storm of rounds that bring
// nothing.
func TestReclaimIsNoStorm(t *testing.T) {
	var r reclaimer
	now, rounds := time.Unix(1000, 0), 0
	for range 6000 { // 100 events a second for a minute
		now = now.Add(10 * time.Millisecond)
		if r.due(now, 100<<20) {
			rounds++
			r.last, r.took, r.anonBytes = now, time.Millisecond, 100<<20
			r.futile++
		}
	}
	assert.LessOrEqual(t, rounds, futileRounds+6)
	assert.True(t, r.due(now.Add(time.Second), 160<<20), "there is more to reclaim from")

	r.took = time.Second
	assert.False(t, r.due(now.Add(reclaimPause), 900<<20), "a slow round waits for longer")
	assert.True(t, r.due(now.Add(reclaimPart*time.Second), 900<<20))
}

// Memory that nobody can reduce: the level stays, that is said, the checkpoint
// functions run once, and then everything that would wait ends.
func TestExhausted(t *testing.T) {
	g := tight(t, 200<<20, Config{ExhaustedAfter: 100 * time.Millisecond})
	var saved atomic.Int32
	g.Checkpoint(func() { saved.Add(1); panic("even so") })
	g.Checkpoint(func() { saved.Add(1) })
	g.RegisterReclaim("nothing", func(int64) int64 { return 0 })
	stuck := make(chan Transition, 8)
	g.OnLevel(func(tr Transition) {
		if tr.From == tr.To {
			stuck <- tr
		}
	})
	leak := resident(t, int(g.HeadroomBytes())-1<<20)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := g.Reserve(ctx, "waits", 100<<20)
	require.ErrorIs(t, err, ErrExhausted)
	assert.Regexp(t, `rank 0 holds \d+ MiB \(0 B reserved\)`, err.Error())
	t.Log(err)
	assert.EqualValues(t, 2, saved.Load())
	assert.Contains(t, (<-stuck).Reason, "nothing more can be reduced")

	require.ErrorIs(t, g.WaitBelow(ctx, High), ErrExhausted)
	_, err = g.Pulse(ctx)
	require.ErrorIs(t, err, ErrExhausted)
	assert.ErrorContains(t, err, "rank 0 holds", "the rank itself says why")
	_, err = g.Survey(ctx)
	require.NoError(t, err, "who looks at the end of a job needs no memory")
	require.NoError(t, unix.Munmap(leak))
	require.NoError(t, g.Close())
	assert.EqualValues(t, 2, saved.Load())
}

func TestWaitBelow(t *testing.T) {
	g := tight(t, 200<<20, Config{ReleaseAfter: 20 * time.Millisecond})
	defer g.Close()
	require.NoError(t, g.WaitBelow(context.Background(), High), "it is below")
	hold := resident(t, int(g.HeadroomBytes())*19/20)
	require.Eventually(t, func() bool { return g.Level() >= High }, waitLong, waitShort)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, g.WaitBelow(ctx, High), context.DeadlineExceeded)
	time.AfterFunc(50*time.Millisecond, func() { _ = unix.Munmap(hold) })
	require.NoError(t, g.WaitBelow(context.Background(), High))
}

// A native leak of most of the budget: nothing that is managed can lower the
// level, so waiting ends with an error that says whose the memory is.
func TestWaitBelowEndsWhereNothingCanBeReduced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	g := tight(t, 200<<20, Config{})
	defer g.Close()
	leak := resident(t, int(g.HeadroomBytes())*9/10) // High, not Critical
	defer unix.Munmap(leak)
	require.Eventually(t, func() bool { return g.Level() == High }, waitLong, waitShort)
	start := time.Now()
	err := g.WaitBelow(context.Background(), High)
	require.ErrorIs(t, err, ErrCannotReduce)
	assert.Contains(t, err.Error(), "belongs to no reservation")
	assert.Less(t, time.Since(start), stuckPatience+5*time.Second)
	t.Log(fmt.Sprint(err))
}
