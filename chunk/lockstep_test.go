package chunk

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// meeting is a Stepper for ranks that are goroutines.
type meeting struct {
	ranks int
	mu    sync.Mutex
	round *round
}

type round struct {
	here   int
	more   bool
	refuse bool
	over   chan struct{}
}

var errRefusedByRank = errors.New("a rank refused")

func (m *meeting) AnyMore(ctx context.Context, more bool) (bool, error) {
	m.mu.Lock()
	if m.round == nil {
		m.round = &round{over: make(chan struct{})}
	}
	r := m.round
	r.here++
	r.more = r.more || more
	r.refuse = r.refuse || ctx.Err() != nil
	if r.here == m.ranks {
		m.round = nil
		close(r.over)
	}
	m.mu.Unlock()
	<-r.over
	if r.refuse {
		return false, errRefusedByRank
	}
	return r.more, nil
}

// numbers yields n numbers, and then err.
func numbers(n int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

// onRanks runs a loop on each rank. A rank that would wait for ever fails the test.
func onRanks(t *testing.T, ranks int, loop func(rank int, m Stepper)) {
	synctest.Test(t, func(t *testing.T) {
		m := &meeting{ranks: ranks}
		var wg sync.WaitGroup
		for rank := range ranks {
			wg.Go(func() { loop(rank, m) })
		}
		wg.Wait()
	})
}

func TestLockstep(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		steps := make([]int, ranks)
		onRanks(t, ranks, func(rank int, m Stepper) {
			for turn, err := range Lockstep(t.Context(), m, numbers(3*rank, nil)) {
				assert.NoError(t, err)
				assert.Equal(t, steps[rank] < 3*rank, turn.OK)
				if turn.OK {
					assert.Equal(t, steps[rank], turn.Value)
				}
				steps[rank]++
				// A collective in the loop does not deadlock.
				_, err := m.AnyMore(t.Context(), true)
				assert.NoError(t, err)
			}
		})
		for _, n := range steps {
			require.Equal(t, 3*(ranks-1), n)
		}
	}
}

// TestLockstepEndsTogether: whatever happens to one rank, the others do not wait.
func TestLockstepEndsTogether(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, odd := range map[string]struct {
		ctx  context.Context
		seq  iter.Seq2[int, error]
		stop int
		want error
	}{
		"error at once": {t.Context(), numbers(0, errDisk), 100, errDisk},
		"error later":   {t.Context(), numbers(3, errDisk), 100, errDisk},
		"error as last": {t.Context(), numbers(12, errDisk), 100, errDisk},
		"break":         {t.Context(), numbers(10, nil), 4, nil},
		"break later":   {t.Context(), numbers(2, nil), 7, nil},
		"ctx":           {ctx, numbers(10, nil), 100, errRefusedByRank},
	} {
		t.Run(name, func(t *testing.T) {
			errs := make([]error, 3)
			onRanks(t, 3, func(rank int, m Stepper) {
				ctx, seq, stop := t.Context(), numbers(10, nil), 100
				if rank == 1 {
					ctx, seq, stop = odd.ctx, odd.seq, odd.stop
				}
				n := 0
				for turn, err := range Lockstep(ctx, m, seq) {
					if err != nil {
						assert.Zero(t, turn)
						errs[rank] = errors.Join(errs[rank], err)
					}
					if n++; n == stop {
						break
					}
				}
			})
			require.ErrorIs(t, errs[0], errRefusedByRank)
			require.ErrorIs(t, errs[2], errRefusedByRank)
			if odd.want == nil {
				require.NoError(t, errs[1])
			} else {
				require.ErrorIs(t, errs[1], odd.want)
			}
		})
	}
}
