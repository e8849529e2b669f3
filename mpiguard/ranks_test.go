package mpiguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/bufpool"
	"github.com/mpiguard/mpiguard/mpiguard/commtest"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

// What the packages that do not import this one ask of it.
var (
	_ chunk.Stepper   = (*mpiguard.Guard)(nil)
	_ chunk.Account   = (*mpiguard.Reservation)(nil)
	_ bufpool.Account = (*mpiguard.Reservation)(nil)
)

func TestGuardInProcess(t *testing.T) {
	for _, n := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			commtest.TestGuard(t, func(f func(mpiguard.Comm) error) error {
				return inproc.Run(n, func(m mpiguard.Messenger) error { return f(m) })
			})
		})
	}
}

// A variable that is junk for one rank only is an error on all of them.
func TestJunkVariableOfOneRank(t *testing.T) {
	const n = 4
	start := time.Now()
	texts := make([]string, n)
	require.NoError(t, inproc.Run(n, func(c mpiguard.Messenger) error {
		cfg := mpiguard.Config{}.WithEnviron()
		if c.Rank() == 2 {
			cfg = mpiguard.Config{}.WithEnviron("MPIGUARD_KEEP_FREE=lots")
		}
		_, err := mpiguard.New(context.Background(), c, cfg)
		if assert.Error(t, err) {
			texts[c.Rank()] = err.Error()
		}
		return nil
	}))
	assert.Less(t, time.Since(start), time.Second)
	for _, text := range texts {
		assert.Contains(t, text, `rank 2: MPIGUARD_KEEP_FREE="lots"`)
		assert.Equal(t, texts[0], text)
	}
}

// A rank that never comes ends the wait of the others with the timeout, and the
// error says so.
func TestCollectiveTimeout(t *testing.T) {
	cfg := mpiguard.Config{CollectiveTimeout: 100 * time.Millisecond}
	release := make(chan struct{}) // closed when the others have seen what they must
	var seen atomic.Int32
	require.NoError(t, inproc.Run(3, func(c mpiguard.Messenger) error {
		g, err := mpiguard.New(context.Background(), c, cfg)
		if err != nil {
			return err
		}
		defer g.Close()
		if c.Rank() == 1 {
			<-release
			return nil
		}
		start := time.Now()
		_, err = g.Survey(context.Background())
		assert.ErrorIs(t, err, mpiguard.ErrBroken)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "not entered by rank 1")
		assert.Less(t, time.Since(start), 100*time.Millisecond+time.Second)
		_, again := g.Pulse(context.Background())
		assert.ErrorIs(t, again, mpiguard.ErrBroken, "at once")
		if seen.Add(1) == 2 {
			close(release)
		}
		return nil
	}))
}

func TestConcurrentCollective(t *testing.T) {
	require.NoError(t, inproc.Run(2, func(c mpiguard.Messenger) error {
		g, err := mpiguard.New(context.Background(), c, mpiguard.Config{})
		if err != nil {
			return err
		}
		defer g.Close()
		if c.Rank() == 1 {
			time.Sleep(100 * time.Millisecond)
			_, err = g.Survey(context.Background())
			return err
		}
		first := make(chan error)
		go func() {
			_, err := g.Survey(context.Background())
			first <- err
		}()
		time.Sleep(50 * time.Millisecond)
		_, err = g.Pulse(context.Background())
		assert.ErrorIs(t, err, mpiguard.ErrConcurrent)
		return <-first
	}))
}

// In one process at most one guard on a communicator that is not in-process.
func TestSecondCommunicator(t *testing.T) {
	g, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
	require.NoError(t, err)
	again, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
	require.NoError(t, err, "the same communicator")
	require.NoError(t, again.Close())
	_, err = mpiguard.New(context.Background(), other{inproc.World(1)[0]}, mpiguard.Config{})
	require.ErrorIs(t, err, mpiguard.ErrInUse)
	require.NoError(t, g.Close())
	g, err = mpiguard.New(context.Background(), other{inproc.World(1)[0]}, mpiguard.Config{})
	require.NoError(t, err)
	require.NoError(t, g.Close())
}

// other is a communicator of its own: what it embeds is not to be seen.
type other struct{ mpiguard.Comm }

func TestReservationsOfTheRanksOfAProcessAddUp(t *testing.T) {
	const n = 4
	refused := make([]error, n)
	require.NoError(t, inproc.Run(n, func(c mpiguard.Messenger) error {
		g, err := mpiguard.New(context.Background(), c, mpiguard.Config{LimitBytes: 8 << 30})
		if err != nil {
			return err
		}
		defer g.Close()
		r, err := g.TryReserve(fmt.Sprintf("of rank %d", c.Rank()), 1600<<20)
		if err != nil {
			return err
		}
		if err := c.Barrier(context.Background()); err != nil {
			return err
		}
		_, refused[c.Rank()] = g.TryReserve("more", 1200<<20)
		s, err := g.Survey(context.Background())
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			t.Log("\n" + s.String())
			assert.GreaterOrEqual(t, s.Ranks[0].UntouchedBytes, int64(6300<<20))
		}
		r.Release()
		return nil
	}))
	for _, err := range refused {
		require.ErrorIs(t, err, mpiguard.ErrRefused)
	}
}

// What a rank registered ends with its guard, also where the process lives on
// with the guards of other ranks.
func TestCloseForgetsCallbacks(t *testing.T) {
	// refused asks for more than is left while half of the budget is held.
	refused := func(g *mpiguard.Guard) error {
		g.Usage() // the headroom of now
		held, err := g.TryReserve("held", g.HeadroomBytes()/2)
		if err != nil {
			return err
		}
		defer held.Release()
		_, err = g.TryReserve("too much now", held.SizeBytes()+held.SizeBytes()/2)
		if !errors.Is(err, mpiguard.ErrRefused) || errors.Is(err, mpiguard.ErrNever) {
			return fmt.Errorf("not refused for now: %v", err)
		}
		return nil
	}
	var calls, callsAfterClose int32
	require.NoError(t, inproc.Run(2, func(c mpiguard.Messenger) error {
		ctx := context.Background()
		g, err := mpiguard.New(ctx, c, mpiguard.Config{LimitBytes: 2 << 30})
		if err != nil {
			return err
		}
		defer g.Close()
		var n atomic.Int32
		if c.Rank() == 1 {
			g.RegisterReclaim("of a rank that ends", func(int64) int64 { n.Add(1); return 0 })
			if err := refused(g); err != nil {
				return err
			}
			if err := g.Close(); err != nil {
				return err
			}
			calls = n.Load()
		}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		if c.Rank() == 0 {
			g.RegisterReclaim("new", func(int64) int64 { return 0 }) // so that a round is due
			if err := refused(g); err != nil {
				return err
			}
		}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		if c.Rank() == 1 {
			callsAfterClose = n.Load() - calls
		}
		return nil
	}))
	assert.Positive(t, calls)
	assert.Zero(t, callsAfterClose)
}
