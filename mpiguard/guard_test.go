package mpiguard

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newTestGuard(t *testing.T, cfg Config) *Guard {
	t.Helper()
	debug.FreeOSMemory() // what earlier tests left is no headroom
	g, err := New(context.Background(), nil, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

func TestReserve(t *testing.T) {
	g := newTestGuard(t, Config{LimitBytes: 2 << 30})
	before := g.Usage()
	all := g.HeadroomBytes()
	r, err := g.TryReserve("table", all/8)
	require.NoError(t, err)
	assert.Equal(t, all/8, r.SizeBytes())
	assert.GreaterOrEqual(t, g.Usage().UntouchedBytes-before.UntouchedBytes, all/8)
	require.NoError(t, r.TryGrow(1<<20))
	r.Shrink(all / 16)
	left := all/8 + 1<<20 - all/16
	assert.Equal(t, left, r.SizeBytes())

	_, err = g.TryReserve("too much", 2<<30)
	require.ErrorIs(t, err, ErrNever)
	_, err = g.TryReserve("too much now", all-all/32)
	require.ErrorIs(t, err, ErrRefused)
	require.NotErrorIs(t, err, ErrNever)
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, []Holder{{"table", left}}, refused.Holders)
	t.Log(err)
	r.Release()
	r.Release()
	assert.Zero(t, r.SizeBytes())
	require.ErrorIs(t, r.TryGrow(1), ErrClosed)
	r2, err := g.TryReserve("fits now", all-all/32)
	require.NoError(t, err)
	r2.Release()
}

func TestReserveWaitsInOrder(t *testing.T) {
	g := newTestGuard(t, Config{LimitBytes: 2 << 30})
	held, err := g.TryReserve("held", g.HeadroomBytes()*7/8)
	require.NoError(t, err)
	done := make(chan error, 2)
	for _, n := range []int64{1 << 30, 10 << 20} { // the second would fit at once, but came later
		go func() {
			r, err := g.Reserve(context.Background(), "waiter", n)
			if err == nil {
				defer r.Release()
			}
			done <- err
		}()
		require.Eventually(t, g.proc.slot.Waiting, time.Second, time.Millisecond)
		time.Sleep(200 * time.Millisecond) // before it waits it asks the others for what they do not use
	}
	require.Empty(t, done)
	_, err = g.TryReserve("barging", 1)
	require.ErrorIs(t, err, ErrRefused)
	held.Release()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

func TestReserveEndsWithItsContext(t *testing.T) {
	g := newTestGuard(t, Config{LimitBytes: 2 << 30})
	held, err := g.TryReserve("held", g.HeadroomBytes()*7/8)
	require.NoError(t, err)
	defer held.Release()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = g.Reserve(ctx, "waits", 500<<20)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ErrRefused)
	t.Log(err)
	fits, err := g.Reserve(ctx, "fits", 1<<20)
	require.NoError(t, err, "what fits does not wait, so a ctx that is done does not matter")
	fits.Release()
}

func TestCloseEndsWaitersAndNamesLeaks(t *testing.T) {
	g, err := New(context.Background(), nil, Config{LimitBytes: 2 << 30})
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() }) // a test that failed does not fail the next
	n := g.HeadroomBytes() * 7 / 8
	_, err = g.TryReserve("forgotten", n)
	require.NoError(t, err)
	waiting := make(chan error)
	go func() {
		_, err := g.Reserve(context.Background(), "waits", 500<<20)
		waiting <- err
	}()
	time.Sleep(20 * time.Millisecond)
	err = g.Close()
	require.EqualError(t, err, `mpiguard: rank 0: not released before Close: "forgotten" (`+sizeText(n)+`)`)
	require.ErrorIs(t, <-waiting, ErrClosed)
	require.Equal(t, err, g.Close())
	_, err = g.TryReserve("late", 1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = g.Survey(context.Background())
	require.ErrorIs(t, err, ErrClosed)
	var ce *CollectiveError
	require.True(t, errors.As(err, &ce))
}

func TestSurveyAndPulseOfOneRank(t *testing.T) {
	g := newTestGuard(t, Config{LimitBytes: 2 << 30})
	s, err := g.Survey(context.Background())
	require.NoError(t, err)
	t.Log("\n" + s.String())
	require.Len(t, s.Ranks, 1)
	p, err := g.Pulse(context.Background())
	require.NoError(t, err)
	assert.Equal(t, Normal, p.Level)
	assert.Equal(t, 0, p.Rank)
	assert.Positive(t, p.HeadroomBytes)
}

func TestSurveyAsJSON(t *testing.T) {
	s := &Survey{
		Ranks: []RankUsage{{Host: "n1", HeadroomBytes: UnlimitedBytes, UsedBytes: UnknownBytes, Level: High,
			Usage: Usage{AnonBytes: 5}}},
		Nodes: []NodeUsage{{Host: "n1", Ranks: 1, UsedBytes: 0, LimitBytes: 7}},
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	for _, part := range []string{`"headroom_bytes":"unlimited"`, `"used_bytes":null`, `"level":"high"`, `"anon_bytes":5`,
		`"used_bytes":0`, `"limit_bytes":7`} {
		assert.Contains(t, string(text), part)
	}
}
