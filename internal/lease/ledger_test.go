package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lease"
	"github.com/mpiguard/mpiguard/internal/ledger"
)

// rank is a pool whose blocks come from a slot of a ledger.
type rank struct {
	*ledger.Slot
	pool *lease.Pool
}

// TryTake asks the other ranks for what they have unused before it fails.
func (r *rank) TryTake(need, want int64) (int64, error) {
	n, err := r.Slot.TryTake(need, want)
	if err != nil {
		n, err = need, r.TryRecall(need)
	}
	return n, err
}

const (
	total = 1 << 20
	block = 1 << 14
)

func newRanks(t *testing.T, l *ledger.Ledger) []*rank {
	ranks := make([]*rank, l.Slots())
	for i := range ranks {
		r := &rank{}
		r.pool = lease.NewPool(r, block)
		s, err := l.Join(i, ledger.Member{
			IDs:     []uint64{1},
			Measure: func(room []int64) { room[0] = total },
			Recall:  func() { r.pool.Recall() },
		})
		require.NoError(t, err)
		r.Slot = s
		ranks[i] = r
	}
	return ranks
}

func forEach(t *testing.T, slots int, f func(t *testing.T, l *ledger.Ledger)) {
	t.Run("one process", func(t *testing.T) {
		l := ledger.InProcess(slots)
		defer l.Close()
		f(t, l)
	})
	t.Run("shared memory", func(t *testing.T) {
		l, err := ledger.Create(slots)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		require.NoError(t, err)
		defer l.Close()
		f(t, l)
	})
}

// TestStranded: a request that fits only once the leases of other ranks come back
// is granted, at once or by waiting.
func TestStranded(t *testing.T) {
	forEach(t, 4, func(t *testing.T, l *ledger.Ledger) {
		ranks := newRanks(t, l)
		for round := range 20 {
			var accounts []*lease.Account
			for _, r := range ranks[1:] {
				for range 3 {
					a := new(lease.Account)
					r.pool.Open(a, nil)
					require.NoError(t, a.TryGrow(block))
					require.NoError(t, a.TryGrow(block)) // from here on with slack
					a.Shrink(block)
					accounts = append(accounts, a)
				}
			}
			var large lease.Account
			ranks[0].pool.Open(&large, nil)
			n := total - int64(len(accounts))*block
			if round%2 == 0 {
				require.NoError(t, large.TryGrow(n))
			} else {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				require.NoError(t, large.Grow(ctx, n))
				cancel()
			}
			require.Error(t, accounts[0].TryGrow(1))
			large.Close()
			for _, a := range accounts {
				a.Close()
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// TestRanks: goroutines of several ranks grow and shrink at random, some of them
// waiting, against a count of the test.
func TestRanks(t *testing.T) {
	forEach(t, 3, func(t *testing.T, l *ledger.Ledger) {
		ranks := newRanks(t, l)
		var held, granted, waited atomic.Int64
		var wg sync.WaitGroup
		for i, r := range ranks {
			for j := range 2 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					var a lease.Account
					r.pool.Open(&a, nil)
					mine := int64(0)
					for range 3000 {
						n := rnd.Int64N(total >> (1 + rnd.IntN(10)))
						if rnd.IntN(2) == 0 {
							n = min(n, mine)
							mine -= n
							held.Add(-n)
							a.Shrink(n)
							continue
						}
						var err error
						if rnd.IntN(16) == 0 {
							ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
							if err = a.Grow(ctx, n); err == nil {
								waited.Add(1)
							}
							cancel()
						} else {
							err = a.TryGrow(n)
						}
						if err == nil {
							granted.Add(1)
							mine += n
							if sum := held.Add(n); sum > total {
								assert.LessOrEqual(t, sum, int64(total))
							}
						}
					}
					held.Add(-mine)
					assert.Equal(t, mine, a.Close())
				})
			}
		}
		wg.Wait()
		t.Logf("granted %d, of them %d by Grow", granted.Load(), waited.Load())
		assert.Zero(t, held.Load())
		for _, r := range ranks {
			r.pool.Recall()
			bytes, _ := r.Slot.Bytes()
			assert.Zero(t, bytes)
		}
	})
}

// TestNotStarved: one waits for most of the budget while the accounts of the
// others grow and shrink without pause.
func TestNotStarved(t *testing.T) {
	forEach(t, 3, func(t *testing.T, l *ledger.Ledger) {
		ranks := newRanks(t, l)
		var stop atomic.Bool
		var wg sync.WaitGroup
		for i, r := range ranks[1:] {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 0))
				var a lease.Account
				r.pool.Open(&a, nil)
				const piece = total / 20
				for k := 0; !stop.Load(); {
					if rnd.IntN(4) > 0 && a.TryGrow(piece) == nil {
						k++
					} else if k > 0 {
						a.Shrink(piece)
						k--
					}
				}
				a.Close()
			})
		}
		for range 10 {
			var a lease.Account
			ranks[0].pool.Open(&a, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			require.NoError(t, a.Grow(ctx, total*6/10))
			cancel()
			time.Sleep(time.Millisecond)
			a.Close()
		}
		stop.Store(true)
		wg.Wait()
	})
}
