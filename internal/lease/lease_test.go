package lease

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const block = 1 << 10

func newPool(total int64) (*Pool, *budget) {
	src := &budget{total: total}
	src.pool = NewPool(src, block)
	return src.pool, src
}

func open(p *Pool) *Account {
	a := new(Account)
	p.Open(a, nil)
	return a
}

// check verifies what must hold whenever nobody is at work.
func check(t *testing.T, p *Pool, src *budget) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.stock
	require.GreaterOrEqual(t, p.stock, int64(0))
	require.LessOrEqual(t, p.stock, int64(block))
	for a := p.accounts.next; a != &p.accounts; a = a.next {
		require.Same(t, a, a.next.prev)
		s := a.slack.Load()
		require.GreaterOrEqual(t, s, int64(0))
		require.LessOrEqual(t, s, min(a.leased, block), "an account keeps a block at most")
		sum += a.leased
	}
	require.Equal(t, src.granted(), sum, "what is leased is what the source granted")
}

// TestModel compares random calls, one after the other, with plain sums.
func TestModel(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			const total = 20 * block
			p, src := newPool(total)
			accounts := make([]*Account, 6)
			sizes := make([]int64, len(accounts)) // the model
			var sum int64
			for i := range accounts {
				accounts[i] = open(p)
			}
			for range 2000 {
				i := rnd.IntN(len(accounts))
				a := accounts[i]
				n := rnd.Int64N(1 << rnd.IntN(14))
				switch rnd.IntN(16) {
				default:
					err := a.TryGrow(n)
					// All slack of this process counts as free, so the answer is exact.
					require.Equal(t, sum+n <= total, err == nil, "sum %d n %d", sum, n)
					if err == nil {
						sizes[i] += n
						sum += n
					}
				case 8, 9, 10, 11, 12:
					n = min(n, sizes[i])
					a.Shrink(n)
					sizes[i] -= n
					sum -= n
				case 13:
					require.Equal(t, sizes[i], a.Close())
					require.Zero(t, a.Close())
					require.Zero(t, a.Bytes())
					require.ErrorIs(t, a.TryGrow(0), ErrClosed)
					a.Shrink(n)
					sum -= sizes[i]
					sizes[i] = 0
					accounts[i] = open(p)
				case 14:
					p.Trim()
				case 15:
					p.Recall()
					require.Equal(t, sum, src.granted(), "nothing unused is left")
				}
				require.Equal(t, sizes[i], accounts[i].Bytes())
				used, leased := p.Bytes()
				require.Equal(t, sum, used)
				require.Equal(t, src.granted(), leased)
				check(t, p, src)
			}
		})
	}
}

// TestConcurrent has goroutines that share accounts two by two, with a count of
// their own: what is held is never above the budget and ends at zero.
func TestConcurrent(t *testing.T) {
	const (
		total = 5 * block
		pairs = 4
		steps = 50000
	)
	p, src := newPool(total)
	var held atomic.Int64
	var granted, refused atomic.Int64
	stop := make(chan struct{})
	var tick, work sync.WaitGroup
	tick.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			if i%8 == 0 {
				p.Recall()
			} else {
				p.Trim()
			}
			for _, n := range p.All() {
				assert.GreaterOrEqual(t, n, int64(0))
			}
		}
	})
	for i := range pairs {
		a := open(p)
		for j := range 2 {
			work.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				var mine []int64
				for range steps {
					n := rnd.Int64N(1 << rnd.IntN(12))
					if len(mine) > 8 || len(mine) > 0 && rnd.IntN(2) == 0 {
						k := rnd.IntN(len(mine))
						held.Add(-mine[k])
						a.Shrink(mine[k])
						mine[k] = mine[len(mine)-1]
						mine = mine[:len(mine)-1]
						continue
					}
					var err error
					if rnd.IntN(64) == 0 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
						err = a.Grow(ctx, n)
						cancel()
					} else {
						err = a.TryGrow(n)
					}
					if err != nil {
						refused.Add(1)
						continue
					}
					granted.Add(1)
					mine = append(mine, n)
					if sum := held.Add(n); sum > total {
						assert.LessOrEqual(t, sum, int64(total))
						return
					}
				}
				for _, n := range mine {
					held.Add(-n)
					a.Shrink(n)
				}
			})
		}
	}
	work.Wait()
	close(stop)
	tick.Wait()
	t.Logf("granted %d, refused %d", granted.Load(), refused.Load())
	check(t, p, src)
	used, _ := p.Bytes()
	assert.Zero(t, used)
	assert.Zero(t, held.Load())
	p.Recall()
	assert.Zero(t, src.granted())
}

func TestGrowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, src := newPool(10 * block)
		holder, asker := open(p), open(p)
		require.NoError(t, holder.TryGrow(8*block))

		done := make(chan error, 1)
		go func() { done <- asker.Grow(t.Context(), 6*block) }()
		synctest.Wait()
		require.Equal(t, 1, src.waiters())

		// Small pieces go to the one who waits, not into slack, and a late
		// request does not pass it.
		for range 4 {
			holder.Shrink(block)
			require.ErrorIs(t, holder.TryGrow(block), errRefused)
		}
		synctest.Wait()
		require.NoError(t, <-done)
		assert.EqualValues(t, 6*block, asker.Bytes())
		assert.EqualValues(t, 4*block, holder.Bytes())
		check(t, p, src)

		// Now that nobody waits, slack is kept again.
		calls := src.calls
		for range 100 {
			holder.Shrink(block / 4)
			require.NoError(t, holder.TryGrow(block/4))
		}
		assert.LessOrEqual(t, src.calls-calls, 1)
	})
}

func TestGrowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, src := newPool(10 * block)
		holder, asker := open(p), open(p)
		require.NoError(t, holder.TryGrow(10*block))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, asker.Grow(ctx, 1), context.DeadlineExceeded)
		assert.Zero(t, asker.Bytes())
		check(t, p, src)

		// An account that is closed while it waits hands on what it is served.
		done := make(chan error, 1)
		go func() { done <- asker.Grow(t.Context(), block) }()
		synctest.Wait()
		asker.Close()
		holder.Shrink(block)
		require.ErrorIs(t, <-done, ErrClosed)
		check(t, p, src)
		require.NoError(t, holder.TryGrow(block))
		require.ErrorIs(t, asker.Grow(t.Context(), 1), ErrClosed)
	})
}

func TestExtremes(t *testing.T) {
	p, src := newPool(math.MaxInt64)
	a, b := open(p), open(p)
	require.NoError(t, a.TryGrow(math.MaxInt64-10))
	require.ErrorIs(t, b.TryGrow(11), errRefused)
	require.ErrorIs(t, b.TryGrow(math.MaxInt64), errRefused)
	require.NoError(t, b.TryGrow(10))
	assert.Equal(t, int64(math.MaxInt64-10), a.Close())
	b.Shrink(10)
	check(t, p, src)

	assert.PanicsWithValue(t, "lease: TryGrow: negative size", func() { _ = b.TryGrow(-1) })
	assert.PanicsWithValue(t, "lease: Shrink: negative size", func() { b.Shrink(-1) })
	assert.PanicsWithValue(t, "lease: Open: account was opened before", func() { p.Open(b, nil) })
	assert.PanicsWithValue(t, "lease: NewPool: block is not positive", func() { NewPool(src, 0) })
	for _, n := range []int64{1, block, 3 * block, math.MaxInt64} {
		c := open(p)
		require.NoError(t, c.TryGrow(2*block))
		c.Shrink(2 * block)
		assert.PanicsWithValue(t, "lease: Shrink: more than the account holds", func() { c.Shrink(n) }, "%d", n)
	}
}

func TestOwners(t *testing.T) {
	p, _ := newPool(10 * block)
	var a, b, c Account
	p.Open(&a, "a")
	p.Open(&b, "b")
	p.Open(&c, "c")
	require.NoError(t, b.TryGrow(7))
	require.NoError(t, c.TryGrow(9))
	a.Close()
	got := map[any]int64{}
	for owner, n := range p.All() {
		got[owner] = n
	}
	assert.Equal(t, map[any]int64{"b": 7, "c": 9}, got)
	for range p.All() {
		break
	}
	assert.EqualValues(t, 7, b.Bytes(), "the pool is not left locked")
}

// TestHysteresis: the source is called twice a block at most, not once a call.
func TestHysteresis(t *testing.T) {
	p, src := newPool(math.MaxInt64)
	a := open(p)
	const n = block / 8
	for range 1000 {
		require.NoError(t, a.TryGrow(n))
	}
	for range 1000 {
		a.Shrink(n)
	}
	assert.LessOrEqual(t, src.calls, 2*1000*n/block)
	calls := src.calls
	for range 1000 { // cross the edge of a block over and over
		require.NoError(t, a.TryGrow(block))
		a.Shrink(block)
	}
	assert.LessOrEqual(t, src.calls-calls, 2)

	assert.Positive(t, src.granted())
	p.Trim()
	p.Trim()
	assert.Zero(t, src.granted(), "an idle process keeps nothing")
}
