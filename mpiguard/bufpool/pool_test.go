package bufpool

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

var page = offheap.PageBytes

func newPool(t *testing.T, a Account, cfg Config) *Pool {
	t.Helper()
	p, err := New(t.Context(), a, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

func get(t *testing.T, p *Pool) *Buffer {
	t.Helper()
	b, err := p.TryGet()
	require.NoError(t, err)
	return b
}

func TestConfigErrors(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{BufferBytes: 0, Buffers: 1}, "bufpool: Config.BufferBytes is 0, must be at least 1"},
		{Config{BufferBytes: -5, Buffers: 1}, "bufpool: Config.BufferBytes is -5, must be at least 1"},
		{Config{BufferBytes: 1, Buffers: 0}, "bufpool: Config.Buffers is 0, must be at least 1"},
		{Config{BufferBytes: math.MaxInt64, Buffers: 1}, "bufpool: Config.Buffers × Config.BufferBytes, 1 × 9223372036854775807, is more than an address space holds"},
		{Config{BufferBytes: 1 << 20, Buffers: math.MaxInt}, "bufpool: Config.Buffers × Config.BufferBytes, " + strconv.Itoa(math.MaxInt) + " × 1048576, is more than an address space holds"},
		{Config{BufferBytes: math.MaxInt64/2 + 1, Buffers: 2, HugePages: true}, "bufpool: Config.Buffers × Config.BufferBytes, 2 × 4611686018427387904, is more than an address space holds"},
	} {
		_, err := New(t.Context(), a, c.cfg)
		assert.EqualError(t, err, c.want)
		assert.Zero(t, a.size)
	}
}

func TestNewRefused(t *testing.T) {
	a := newAccount(t, 3*page)
	_, err := New(t.Context(), a, Config{BufferBytes: page, Buffers: 4})
	require.ErrorIs(t, err, errRefused)
	assert.EqualError(t, err, "bufpool: 4 buffers of "+strconv.FormatInt(page, 10)+" bytes: refused")

	// A size that the account grants and the kernel does not.
	a.setBudget(math.MaxInt64)
	_, err = New(t.Context(), a, Config{BufferBytes: math.MaxInt / 2, Buffers: 2})
	require.Error(t, err)
	assert.Zero(t, a.size)

	// A ctx that ends after the account has granted.
	ctx, cancel := context.WithCancel(t.Context())
	a.onGrow = cancel
	_, err = New(ctx, a, Config{BufferBytes: page, Buffers: 4})
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, a.size)
}

func TestBuffers(t *testing.T) {
	for _, cfg := range []Config{
		{BufferBytes: 1, Buffers: 1},
		{BufferBytes: 100, Buffers: 5},
		{BufferBytes: page + 1, Buffers: 3},
		{BufferBytes: 3 << 20, Buffers: 2, HugePages: true},
	} {
		a := newAccount(t, math.MaxInt64)
		p := newPool(t, a, cfg)
		check(t, a, p)
		var out []*Buffer
		for i := range cfg.Buffers {
			b := get(t, p)
			require.Len(t, b.Bytes(), int(cfg.BufferBytes))
			require.Equal(t, len(b.Bytes()), cap(b.Bytes()), "an append must not reach the neighbour")
			for j := range b.Bytes() {
				b.Bytes()[j] = byte(i)
			}
			out = append(out, b)
		}
		_, err := p.TryGet()
		require.ErrorIs(t, err, ErrEmpty)
		for i, b := range out {
			require.Equal(t, byte(i), b.Bytes()[0])
			require.Equal(t, byte(i), b.Bytes()[cfg.BufferBytes-1])
			b.Release()
		}
		check(t, a, p)
	}
}

func TestUnaccounted(t *testing.T) {
	p := newPool(t, nil, Config{BufferBytes: 10, Buffers: 2})
	get(t, p).Release()
	assert.EqualValues(t, page, p.Trim(math.MaxInt64))
}

func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, math.MaxInt64)
		p := newPool(t, a, Config{BufferBytes: 1, Buffers: 1})
		held := get(t, p)
		order := make(chan int)
		for i := range 5 {
			go func() {
				b, err := p.Get(t.Context())
				if assert.NoError(t, err) {
					order <- i
					b.Release()
				}
			}()
			synctest.Wait()
		}
		assert.Equal(t, 5, p.Stats().Waiting)
		_, err := p.TryGet()
		require.ErrorIs(t, err, ErrEmpty)

		// One in the middle gives up.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Get(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5, p.Stats().Waiting)

		held.Release()
		for want := range 5 {
			assert.Equal(t, want, <-order)
		}
		synctest.Wait()
		check(t, a, p)
		assert.EqualValues(t, 6, p.Stats().Waits)
	})
}

func TestGetWithDoneContext(t *testing.T) {
	p := newPool(t, nil, Config{BufferBytes: 1, Buffers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Get(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, p.Stats().Idle)
}

func TestTrim(t *testing.T) {
	a := newAccount(t, 4*page)
	p := newPool(t, a, Config{BufferBytes: page, Buffers: 4})
	assert.Equal(t, 3*page, p.Trim(math.MaxInt64), "one stays")
	check(t, a, p)
	assert.Zero(t, p.Trim(math.MaxInt64))

	// What was trimmed comes back only with the account's leave.
	first := get(t, p)
	assert.Zero(t, p.Trim(math.MaxInt64))
	a.setBudget(page)
	_, err := p.TryGet()
	require.ErrorIs(t, err, ErrEmpty)
	require.ErrorIs(t, err, errRefused)
	a.setBudget(2 * page)
	second := get(t, p)
	check(t, a, p)

	// With one out, all idle ones can go.
	first.Release()
	assert.Equal(t, page, p.Trim(math.MaxInt64))
	check(t, a, p)
	second.Release()
	check(t, a, p)
}

// TestTrimWhileGrowing: the account may trim the pool that asks it.
func TestTrimWhileGrowing(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	p := newPool(t, a, Config{BufferBytes: page, Buffers: 3})
	p.Trim(math.MaxInt64)
	a.onGrow = func() { p.Trim(math.MaxInt64) }
	x, y := get(t, p), get(t, p)
	check(t, a, p)
	x.Release()
	y.Release()
}

// TestTrimmedPoolServesWaiters: a pool that was trimmed to one buffer grows again
// for those who wait, once there is headroom, and without it goes on with one.
func TestTrimmedPoolServesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, 2*page)
		p := newPool(t, a, Config{BufferBytes: page, Buffers: 2})
		p.Trim(math.MaxInt64)
		a.setBudget(page)
		held := get(t, p)
		got := make(chan *Buffer, 2)
		wait := func() {
			b, err := p.Get(t.Context())
			assert.NoError(t, err)
			got <- b
		}
		go wait()
		synctest.Wait()
		assert.Empty(t, got)
		a.setBudget(2 * page)
		go wait()
		synctest.Wait()
		require.Len(t, got, 1, "the second Get found headroom, for the first")
		held.Release()
		synctest.Wait()
		require.Len(t, got, 2)
		(<-got).Release()
		(<-got).Release()
		check(t, a, p)
	})
}

func TestForMPIIsNeverTrimmed(t *testing.T) {
	a := newAccount(t, math.MaxInt64)
	p := newPool(t, a, Config{BufferBytes: page, Buffers: 4, ForMPI: true})
	b := get(t, p)
	b.Bytes()[0] = 1
	at := &b.Bytes()[0]
	b.Release()
	assert.Zero(t, p.Trim(math.MaxInt64))
	check(t, a, p)
	assert.Equal(t, 4, p.Stats().Idle)
	b = get(t, p)
	assert.Same(t, at, &b.Bytes()[0])
	b.Release()
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, math.MaxInt64)
		p := newPool(t, a, Config{BufferBytes: page, Buffers: 3})
		x, y, z := get(t, p), get(t, p), get(t, p)
		y.Release()
		y = get(t, p)
		waited := make(chan error)
		taken := make(chan *Buffer, 1)
		go func() {
			b, err := p.Get(t.Context())
			taken <- b
			waited <- err
		}()
		synctest.Wait()
		z.Release() // to the one who waits
		require.NoError(t, <-waited)
		go func() {
			_, err := p.Get(t.Context())
			waited <- err
		}()
		synctest.Wait()

		const want = "bufpool: closed with 3 of 3 buffers out: 0, 1, 2"
		err := p.Close()
		require.ErrorContains(t, err, want)
		if invariants.Enabled {
			assert.ErrorContains(t, err, "buffer 2 was taken here:")
			assert.ErrorContains(t, err, "TestClose")
		} else {
			assert.EqualError(t, err, want)
		}
		require.ErrorIs(t, <-waited, ErrClosed)
		_, err = p.Get(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		_, err = p.TryGet()
		require.ErrorIs(t, err, ErrClosed)

		// What is out stays usable and charged until its Release.
		x.Bytes()[0] = 1
		assert.Equal(t, 3*page, a.size)
		x.Release()
		assert.Equal(t, 2*page, a.size)
		assert.ErrorContains(t, p.Close(), "2 of 3 buffers out")
		y.Release()
		(<-taken).Release()
		require.NoError(t, p.Close())
		assert.Zero(t, p.Trim(math.MaxInt64))
		check(t, a, p)
	})
}

func TestDoubleRelease(t *testing.T) {
	p := newPool(t, nil, Config{BufferBytes: 1, Buffers: 1})
	b := get(t, p)
	b.Release()
	assert.PanicsWithValue(t, "bufpool: Release of buffer 0, which is not out", b.Release)
	if invariants.Enabled {
		c := get(t, p)
		assert.PanicsWithValue(t, "bufpool: Release of buffer 0, which is not out", b.Release, "by the former owner")
		c.Release()
	}
}

func TestPoison(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs -race or -tags invariants")
	}
	p, err := New(t.Context(), nil, Config{BufferBytes: 100, Buffers: 1})
	require.NoError(t, err)
	b := get(t, p)
	mem := b.Bytes()
	copy(mem, "secret")
	b.Release()
	assert.Equal(t, byte(0xdb), mem[0])
	mem[99] = 7
	assert.PanicsWithValue(t, "bufpool: buffer 0 was written after its Release", func() { _, _ = p.TryGet() })
	assert.Error(t, p.Close(), "the buffer is not used again")
}

// TestSurvivesGC: unlike those of a sync.Pool, buffers stay.
func TestSurvivesGC(t *testing.T) {
	p := newPool(t, nil, Config{BufferBytes: 1 << 20, Buffers: 1})
	b := get(t, p)
	at := &b.Bytes()[0]
	b.Release()
	for range 3 {
		runtime.GC()
	}
	b = get(t, p)
	assert.Same(t, at, &b.Bytes()[0])
	b.Release()
}

func TestGetAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("every Get makes a handle when invariants are on")
	}
	p := newPool(t, nil, Config{BufferBytes: 1, Buffers: 2})
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		b, _ := p.Get(context.Background())
		b.Release()
	}))
}

// TestModel runs random calls of one goroutine against a count of buffers.
func TestModel(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(6)
		a := newAccount(t, int64(n)*page)
		p := newPool(t, a, Config{BufferBytes: 1 + rng.Int64N(page), Buffers: n})
		var out []*Buffer
		for range 300 {
			switch rng.IntN(4) {
			case 0:
				b, err := p.TryGet()
				if err == nil {
					out = append(out, b)
				} else {
					require.ErrorIs(t, err, ErrEmpty)
					require.Zero(t, p.Stats().Idle)
				}
			case 1:
				if len(out) > 0 {
					i := rng.IntN(len(out))
					out[i].Release()
					out[i] = out[len(out)-1]
					out = out[:len(out)-1]
				}
			case 2:
				p.Trim(math.MaxInt64)
				require.Positive(t, p.Stats().Idle+p.Stats().Out)
			case 3:
				a.setBudget(rng.Int64N(int64(n)+1) * page)
			}
			require.Equal(t, len(out), p.Stats().Out)
			check(t, a, p)
		}
		for _, b := range out {
			b.Release()
		}
	}
}

// TestConcurrent hammers a pool that is trimmed meanwhile: each buffer has one
// owner at a time, and everybody is served.
func TestConcurrent(t *testing.T) {
	a := newAccount(t, 3*page)
	p := newPool(t, a, Config{BufferBytes: 8, Buffers: 3})
	stop := make(chan struct{})
	trimmer := make(chan struct{})
	go func() {
		defer close(trimmer)
		for {
			select {
			case <-stop:
				return
			default:
				p.Trim(math.MaxInt64)
				runtime.Gosched()
			}
		}
	}()
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			for range 500 {
				b, err := p.Get(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				for i := range b.Bytes() {
					b.Bytes()[i] = byte(id)
				}
				runtime.Gosched()
				for _, c := range b.Bytes() {
					assert.Equal(t, byte(id), c)
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	close(stop)
	<-trimmer
	check(t, a, p)
}
