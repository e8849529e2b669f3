package inproc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

var errBoom = errors.New("boom")

// TestLastRankLeaves: whatever the last of three ranks does, the others return
// from a collective and from a wait for a message, with errors that name it.
func TestLastRankLeaves(t *testing.T) {
	for _, tc := range []struct {
		name  string
		leave func() error
		want  string // why the collective of the others ends
		all   bool   // whether messages end too
	}{
		{"error", func() error { return errBoom }, "rank 2: boom", true},
		{"panic", func() error { panic("boom") }, "rank 2: panic: boom", true},
		{"panic with an error", func() error { panic(errBoom) }, "rank 2: panic: boom", true},
		{"goexit", func() error { runtime.Goexit(); return nil }, "rank 2: called runtime.Goexit", true},
		{"return", func() error { return nil }, "rank 2 has returned", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var broken [2]error
			err := inproc.Run(3, func(m mpiguard.Messenger) error {
				if m.Rank() == 2 {
					return tc.leave()
				}
				broken[m.Rank()] = m.Barrier(context.Background())
				r, err := m.Irecv(nil, 2, 0)
				if !tc.all {
					require.NoError(t, err)
					require.NoError(t, r.Cancel())
					return nil
				}
				assert.ErrorContains(t, err, tc.want, "a receive")
				_, err = m.Isend(nil, 1-m.Rank(), 0)
				assert.ErrorContains(t, err, tc.want, "a send")
				_, _, err = m.Iprobe(mpiguard.AnySource, 0)
				assert.ErrorContains(t, err, tc.want, "a probe")
				return nil
			})
			for rank, b := range broken {
				var e *mpiguard.BrokenError
				if assert.ErrorAs(t, b, &e) {
					assert.Equal(t, "Barrier", e.Call)
					assert.Equal(t, rank, e.Rank)
					assert.Contains(t, e.Missing, 2)
					assert.True(t, strings.HasPrefix(e.Cause.Error(), tc.want), "%v", e.Cause)
				}
			}
			if !tc.all {
				assert.NoError(t, err)
				return
			}
			assert.True(t, strings.HasPrefix(err.Error(), tc.want), "%v", err)
			if strings.HasPrefix(tc.name, "panic") {
				assert.Contains(t, err.Error(), "run_test.go", "the stack")
			}
			if tc.name == "error" || tc.name == "panic with an error" {
				assert.ErrorIs(t, err, errBoom)
			}
		})
	}
}

// TestMessagesUnderWayEnd: a request that waits for a rank which has failed.
func TestMessagesUnderWayEnd(t *testing.T) {
	started := make(chan struct{})
	err := inproc.Run(2, func(m mpiguard.Messenger) error {
		if m.Rank() == 1 {
			<-started
			return errBoom
		}
		recv, err := m.Irecv(make([]byte, 1), 1, 0)
		require.NoError(t, err)
		send, err := m.Isend(make([]byte, 1), 1, 0)
		require.NoError(t, err)
		close(started)
		for _, r := range []mpiguard.Request{recv, send} {
			for done := false; !done; {
				runtime.Gosched()
				_, done, err = r.Test()
			}
			assert.ErrorIs(t, err, errBoom)
		}
		return nil
	})
	assert.EqualError(t, err, "rank 1: boom")
}

func TestErrorsOfAllRanksAreJoined(t *testing.T) {
	t.Parallel()
	err := inproc.Run(3, func(m mpiguard.Messenger) error {
		if m.Rank() == 1 {
			return nil
		}
		return errBoom
	})
	assert.EqualError(t, err, "rank 0: boom\nrank 2: boom")
}

func TestDifferentCallsPanic(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(m mpiguard.Messenger) error{
		"call":   func(m mpiguard.Messenger) error { return m.Barrier(t.Context()) },
		"op":     func(m mpiguard.Messenger) error { return reduce(t, m, 1, mpiguard.OpMin) },
		"length": func(m mpiguard.Messenger) error { return reduce(t, m, 2, mpiguard.OpSum) },
	} {
		err := inproc.Run(2, func(m mpiguard.Messenger) error {
			if m.Rank() == 0 {
				return reduce(t, m, 1, mpiguard.OpSum)
			}
			return other(m)
		})
		assert.ErrorContains(t, err, "panic: inproc: rank ", name)
		assert.ErrorIs(t, err, mpiguard.ErrBroken, "%s: the other rank does not hang", name)
	}
}

func reduce(t *testing.T, m mpiguard.Messenger, n int, op mpiguard.Op) error {
	return m.AllreduceUint64(t.Context(), make([]uint64, n), make([]uint64, n), op)
}

// TestARankThatNeverComes: the deadline is exact, and the error names the rank.
func TestARankThatNeverComes(t *testing.T) {
	why := errors.New("the night shift is over")
	for _, tc := range []struct {
		name  string
		bound func(context.Context) (context.Context, context.CancelFunc)
		want  string
	}{
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 5*time.Second)
		}, "Barrier on rank 0: communicator is broken: context deadline exceeded; not entered by rank 1, 3"},
		{"cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 5*time.Second, why)
		}, "Barrier on rank 0: communicator is broken: context deadline exceeded: the night shift is over; not entered by rank 1, 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := make(chan struct{})
				err := inproc.Run(4, func(m mpiguard.Messenger) error {
					switch m.Rank() {
					case 1, 3:
						<-late
						return nil
					case 2:
						assert.ErrorIs(t, m.Barrier(context.Background()), mpiguard.ErrBroken)
						return nil
					}
					defer close(late)
					ctx, cancel := tc.bound(t.Context())
					defer cancel()
					start := time.Now()
					err := m.Barrier(ctx)
					assert.EqualError(t, err, tc.want)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Equal(t, 5*time.Second, time.Since(start))
					return nil
				})
				assert.NoError(t, err)
			})
		})
	}
}

func TestSendIsCompleteWithItsReceive(t *testing.T) {
	t.Parallel()
	ranks := inproc.World(2)
	send, err := ranks[0].Isend([]byte("x"), 1, 0)
	require.NoError(t, err)
	_, done, err := send.Test()
	assert.NoError(t, err)
	assert.False(t, done, "nobody has asked for it")
	_, err = ranks[1].Irecv(make([]byte, 1), 0, 0)
	require.NoError(t, err)
	_, done, err = send.Test()
	assert.NoError(t, err)
	assert.True(t, done)
}

func TestWorlds(t *testing.T) {
	t.Parallel()
	a, b := inproc.World(2), inproc.World(1)
	assert.Equal(t, a[0].World(), a[1].World())
	assert.NotEqual(t, a[0].World(), b[0].World())
	assert.PanicsWithValue(t, "inproc: World of 0 ranks", func() { inproc.World(0) })
}

// TestManyRanks: an allgather costs each rank its result and all of them
// together one more, not one for each.
func TestManyRanks(t *testing.T) {
	const n, row = 4096, 8
	var before, after runtime.MemStats
	results := make([]byte, n*n*row)
	runtime.GC()
	runtime.ReadMemStats(&before)
	require.NoError(t, inproc.Run(n, func(m mpiguard.Messenger) error {
		mine := fmt.Appendf(nil, "%8d", m.Rank())
		dst := results[m.Rank()*n*row:][:n*row]
		return m.Allgather(t.Context(), dst, mine)
	}))
	runtime.ReadMemStats(&after)
	for rank := range n {
		for i := 0; i < n; i += 511 {
			require.Equal(t, fmt.Sprintf("%8d", i), string(results[(rank*n+i)*row:][:row]))
		}
	}
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(n*row+n*4096), "bytes allocated")
}

func BenchmarkCollectives(b *testing.B) {
	for _, n := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("allgather 128 bytes/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			_ = inproc.Run(n, func(m mpiguard.Messenger) error {
				dst, row := make([]byte, 128*n), make([]byte, 128)
				for range b.N {
					if err := m.Allgather(b.Context(), dst, row); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
