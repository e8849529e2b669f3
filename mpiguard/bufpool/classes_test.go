package bufpool

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/level"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

const mib = 1 << 20

func newClasses(t *testing.T, a Account, cfg ClassesConfig) *Classes {
	t.Helper()
	c, err := NewClasses(a, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func checkClasses(t *testing.T, a *account, c *Classes) {
	t.Helper()
	st := c.Stats()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Equal(t, a.size, st.IdleBytes+st.OutBytes)
	if offheap.Mapped {
		require.Equal(t, a.size, a.committed)
	}
	require.LessOrEqual(t, st.IdleBytes, c.cfg.IdleBytes)
}

func TestClassesConfig(t *testing.T) {
	c := newClasses(t, nil, ClassesConfig{})
	assert.Equal(t, ClassesConfig{DefaultMaxBytes, DefaultIdleBytes, DefaultIdleAfter}, c.cfg)
	for want, cfg := range map[string]ClassesConfig{
		"bufpool: ClassesConfig.MaxBytes is -1, must not be negative":  {MaxBytes: -1},
		"bufpool: ClassesConfig.IdleBytes is -2, must not be negative": {IdleBytes: -2},
		"bufpool: ClassesConfig.IdleAfter is -3, must not be negative": {IdleAfter: -3},
	} {
		_, err := NewClasses(nil, cfg)
		assert.EqualError(t, err, want)
	}
	for want, n := range map[string]int64{
		"bufpool: impossible size: 0 bytes":                   0,
		"bufpool: impossible size: -7 bytes":                  -7,
		"bufpool: impossible size: 9223372036854775807 bytes": math.MaxInt64,
	} {
		_, err := c.Get(t.Context(), n)
		assert.EqualError(t, err, want)
		_, err = c.TryGet(n)
		assert.EqualError(t, err, want)
	}
	_, err := c.GetUpTo(t.Context(), 2, 1)
	assert.EqualError(t, err, "bufpool: a buffer of 2 bytes at least and 1 at most")
}

// TestSizes: a buffer has the length asked for, in memory that is at most a quarter
// larger, but for the rounding to pages.
func TestSizes(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	c := newClasses(t, a, ClassesConfig{MaxBytes: 3*mib + 5})
	sizes := map[int64]bool{}
	for n := int64(1); n < 5*mib; n += n/20 + 1 {
		b, err := c.TryGet(n)
		require.NoError(t, err)
		require.Len(t, b.Bytes(), int(n))
		require.Equal(t, int(n), cap(b.Bytes()))
		b.Bytes()[0], b.Bytes()[n-1] = 1, 2
		require.GreaterOrEqual(t, a.size, n)
		require.LessOrEqual(t, a.size, offheap.RoundUp(n, page)*5/4)
		if n <= 3*mib+5 {
			sizes[a.size] = true
		}
		b.Release()
		c.Trim(math.MaxInt64)
		require.Zero(t, a.size)
	}
	assert.Less(t, len(sizes), 45)
}

// TestReuse: a buffer of about the same size serves again.
func TestReuse(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	c := newClasses(t, a, ClassesConfig{})
	b, err := c.Get(t.Context(), 1000_000)
	require.NoError(t, err)
	at := &b.Bytes()[0]
	b.Release()
	b, err = c.Get(t.Context(), 1040_000)
	require.NoError(t, err)
	assert.Same(t, at, &b.Bytes()[0])
	assert.Len(t, b.Bytes(), 1040_000)
	st := c.Stats()
	assert.Equal(t, ClassStats{Out: 1, OutBytes: mib, Hits: 1, Misses: 1}, st)
	b.Release()
	assert.Panics(t, b.Release)
	checkClasses(t, a, c)
}

// TestGiantsAreNotKept: one huge buffer does not stay for ever among small ones.
func TestGiantsAreNotKept(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	c := newClasses(t, a, ClassesConfig{MaxBytes: 64 << 10, IdleBytes: 256 << 10})
	giant, err := c.Get(t.Context(), 64*mib)
	require.NoError(t, err)
	giant.Release()
	assert.Zero(t, a.size)
	var out []*Buffer
	for range 10 {
		b, err := c.Get(t.Context(), 64<<10)
		require.NoError(t, err)
		out = append(out, b)
	}
	for _, b := range out {
		b.Release()
	}
	assert.EqualValues(t, 256<<10, a.size, "and no more lies idle than may")
	assert.EqualValues(t, 7, c.Stats().Dropped)
}

// TestManyClassesOneBudget: sixteen transfers with four buffers each stay within one
// budget, and none is starved by what others keep.
func TestManyClassesOneBudget(t *testing.T) {
	a := newAccount(t, 32*mib)
	var wg sync.WaitGroup
	for range 16 {
		c := newClasses(t, waiting{a}, ClassesConfig{})
		wg.Go(func() {
			for range 20 {
				var out []*Buffer
				b, err := c.Get(t.Context(), mib)
				if !assert.NoError(t, err) {
					return
				}
				out = append(out, b)
				for range 3 { // the rest only where there is room
					if b, err := c.TryGet(mib); err == nil {
						out = append(out, b)
					}
				}
				runtime.Gosched()
				for _, b := range out {
					b.Release()
				}
				c.Trim(math.MaxInt64) // as a guard does when another asks
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, a.peak, int64(32*mib))
}

// waiting is an account that waits, by looking again and again.
type waiting struct{ *account }

func (w waiting) Grow(ctx context.Context, n int64) error {
	for w.TryGrow(n) != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func TestGetUpTo(t *testing.T) {
	a := newAccount(t, 3*mib)
	c := newClasses(t, a, ClassesConfig{})
	b, err := c.GetUpTo(t.Context(), mib, 16*mib)
	require.NoError(t, err)
	assert.Len(t, b.Bytes(), 2*mib)
	small, err := c.GetUpTo(t.Context(), 300, 16*mib)
	require.NoError(t, err)
	assert.Len(t, small.Bytes(), mib)
	_, err = c.GetUpTo(t.Context(), 100, 200)
	require.ErrorIs(t, err, errRefused)
	b.Release()
	small.Release()

	// Idle memory of other sizes makes way.
	b, err = c.TryGet(3 * mib)
	require.NoError(t, err)
	checkClasses(t, a, c)
	b.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Get(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWaitForTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, 4*mib)
		c := newClasses(t, waiting{a}, ClassesConfig{})
		held, err := c.Get(t.Context(), 3*mib)
		require.NoError(t, err)
		got := make(chan *Buffer)
		go func() {
			b, err := c.Get(t.Context(), 2*mib)
			assert.NoError(t, err)
			got <- b
		}()
		time.Sleep(time.Second)
		held.Release() // of another class: its memory goes to the one who waits
		b := <-got
		checkClasses(t, a, c)
		assert.Zero(t, c.Stats().IdleBytes)
		assert.EqualValues(t, 1, c.Stats().Waits)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Get(ctx, 3*mib)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		b.Release()
		checkClasses(t, a, c)
	})
}

func TestIdleFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, math.MaxInt64)
		c := newClasses(t, a, ClassesConfig{IdleAfter: time.Minute})
		b, err := c.Get(t.Context(), mib)
		require.NoError(t, err)
		other, err := c.Get(t.Context(), 5*mib)
		require.NoError(t, err)
		b.Release()
		other.Release()
		for range 10 { // in use, it stays; the other goes
			time.Sleep(30 * time.Second)
			b, err = c.Get(t.Context(), mib)
			require.NoError(t, err)
			b.Release()
		}
		assert.EqualValues(t, mib, a.size)
		assert.EqualValues(t, 10, c.Stats().Hits)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Zero(t, a.size)
		assert.Nil(t, c.timer, "no timer runs while nothing is idle")
	})
}

func TestHighLevelKeepsNothing(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	c := newClasses(t, a, ClassesConfig{})
	for l, want := range map[level.Level]int64{level.Normal: mib, level.Elevated: mib, level.High: 0, level.Critical: 0} {
		a.lvl = l
		b, err := c.Get(t.Context(), mib)
		require.NoError(t, err)
		b.Release()
		assert.Equal(t, want, a.size, l)
	}
}

func TestClassesClose(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	c, err := NewClasses(a, ClassesConfig{})
	require.NoError(t, err)
	x, err := c.TryGet(mib)
	require.NoError(t, err)
	y, err := c.TryGet(mib)
	require.NoError(t, err)
	x.Release()
	require.EqualError(t, c.Close(), "bufpool: closed with 1 buffers of 1048576 bytes out")
	assert.EqualValues(t, mib, a.size)
	_, err = c.TryGet(1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.Get(t.Context(), 1)
	require.ErrorIs(t, err, ErrClosed)
	y.Bytes()[0] = 1
	y.Release()
	require.NoError(t, c.Close())
	assert.Panics(t, y.Release)
}

// TestClassesModel runs random calls and compares the account after each.
func TestClassesModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := newAccount(t, 1+rng.Int64N(64*page))
		c := newClasses(t, a, ClassesConfig{MaxBytes: 1 + rng.Int64N(32*page), IdleBytes: 1 + rng.Int64N(32*page)})
		var out []*Buffer
		for range 300 {
			switch rng.IntN(6) {
			case 0, 1:
				n := 1 + rng.Int64N(20*page)
				if b, err := c.TryGet(n); err == nil {
					require.Len(t, b.Bytes(), int(n))
					out = append(out, b)
				} else {
					require.ErrorIs(t, err, errRefused)
					require.Greater(t, c.sizeOf(n)+a.size-c.Stats().IdleBytes, a.budget)
				}
			case 2, 3:
				if len(out) > 0 {
					i := rng.IntN(len(out))
					out[i].Release()
					out[i] = out[len(out)-1]
					out = out[:len(out)-1]
				}
			case 4:
				want := rng.Int64N(10 * page)
				idle := c.Stats().IdleBytes
				freed := c.Trim(want)
				require.GreaterOrEqual(t, freed, min(want, idle))
				require.Equal(t, idle-freed, c.Stats().IdleBytes)
			case 5:
				a.setBudget(rng.Int64N(64 * page))
			}
			require.Equal(t, len(out), c.Stats().Out)
			checkClasses(t, a, c)
		}
		for _, b := range out {
			b.Release()
		}
	}
}

func TestClassesPoison(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -race or -tags invariants")
	}
	c := newClasses(t, nil, ClassesConfig{})
	b, err := c.TryGet(100)
	require.NoError(t, err)
	b.Release()
	d, err := c.TryGet(100)
	require.NoError(t, err)
	assert.Panics(t, b.Release, "by the former owner")
	d.Release()
}
