package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inBubble runs a test with a clock that moves only when all wait.
func inBubble(t *testing.T, slots int, f func(t *testing.T, l *Ledger)) {
	synctest.Test(t, func(t *testing.T) {
		l := InProcess(slots)
		defer l.Close()
		f(t, l)
	})
}

// waiters collects the names of those whose Take returned without error.
type waiters struct {
	t      *testing.T
	served chan string
}

func (w waiters) take(ctx context.Context, s *Slot, n int64, name string) {
	go func() {
		if err := s.Take(ctx, n); err == nil {
			w.served <- name
		} else if !errors.Is(err, ErrClosed) && ctx.Err() == nil {
			w.t.Error(err)
		}
	}()
	synctest.Wait() // in the line before the next one comes
}

func (w waiters) got() []string {
	time.Sleep(lookEvery) // look at what nobody rang for
	synctest.Wait()
	var names []string
	for len(w.served) > 0 {
		names = append(names, <-w.served)
	}
	return names
}

func TestOrder(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, 100), join(t, l, 1, 100)
		w := waiters{t, make(chan string, 10)}
		_, err := a.TryTake(100, 100)
		require.NoError(t, err)

		w.take(t.Context(), b, 60, "b 60")
		w.take(t.Context(), b, 30, "b 30")
		w.take(t.Context(), a, 50, "a 50")
		w.take(t.Context(), b, 10, "b 10")
		require.Empty(t, w.got())

		a.Give(40)
		require.Empty(t, w.got(), "the small ones do not pass the large one")
		for _, s := range []*Slot{a, b} {
			_, err = s.TryTake(1, 1)
			requireRefused(t, err, Refused{NeedBytes: 1, RoomBytes: 40, Reason: Behind})
		}
		a.Give(20)
		require.Equal(t, []string{"b 60"}, w.got())
		// Slots wait in the order of their first waiters: a came before b's second
		// had its turn.
		a.Give(10)
		require.Empty(t, w.got())
		a.Give(30)
		b.Give(10)
		require.Equal(t, []string{"a 50"}, w.got())
		b.Give(50)
		require.Equal(t, []string{"b 30", "b 10"}, w.got())
		_, err = b.TryTake(10, 10)
		require.NoError(t, err)
	})
}

// TestOtherConstraint: one who waits for its own small group does not hold up
// those who share only the node with it, as long as its need stays free there.
func TestOtherConstraint(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, l *Ledger) {
		a, err := l.Join(0, Member{IDs: []uint64{1, 2}, Measure: fixed(100, 20)})
		require.NoError(t, err)
		b, err := l.Join(1, Member{IDs: []uint64{1, 3}, Measure: fixed(100, 100)})
		require.NoError(t, err)
		w := waiters{t, make(chan string, 10)}
		_, err = a.TryTake(20, 20)
		require.NoError(t, err)
		w.take(t.Context(), a, 15, "a")
		n, err := b.TryTake(10, 100)
		require.NoError(t, err)
		assert.EqualValues(t, 65, n)
		a.Give(15)
		require.Equal(t, []string{"a"}, w.got())
	})
}

func TestTakeEnds(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, 100), join(t, l, 1, 100)
		_, err := a.TryTake(100, 100)
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		start := time.Now()
		err = b.Take(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(start))
		var refused *Refused
		require.ErrorAs(t, err, &refused)
		assert.EqualError(t, err, "context deadline exceeded: ledger: 1 bytes refused with room for 0: not enough is left")
		cancel()
		require.EqualError(t, b.Take(ctx, 0), "ledger: 0 bytes not taken: context deadline exceeded")
		assert.False(t, b.Waiting(), "no ticket is left")

		// Behind another of the same process.
		long, stop := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- b.Take(long, 50) }()
		synctest.Wait()
		ctx, cancel = context.WithTimeoutCause(t.Context(), time.Minute, errors.New("enough"))
		err = b.Take(ctx, 1)
		cancel()
		require.ErrorContains(t, err, "behind others of the slot: enough")

		stop()
		require.ErrorIs(t, <-first, context.Canceled)

		for _, s := range []*Slot{a, b, b} {
			go func() { first <- s.Take(context.Background(), 50) }()
		}
		synctest.Wait()
		require.NoError(t, l.Close())
		for range 3 {
			require.ErrorIs(t, <-first, ErrClosed)
		}
	})
}

// TestLooksAgain: a fall of what the kernel counts rings for nobody.
func TestLooksAgain(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, l *Ledger) {
		var used atomic.Int64
		used.Store(100)
		s, err := l.Join(0, Member{IDs: []uint64{1}, Measure: func(room []int64) { room[0] = 100 - used.Load() }})
		require.NoError(t, err)
		start := time.Now()
		time.AfterFunc(time.Second, func() { used.Store(90) })
		require.NoError(t, s.Take(t.Context(), 10))
		assert.WithinRange(t, time.Now(), start.Add(time.Second), start.Add(time.Second+lookEvery))
	})
}

// TestRecall: a request that fits only after others give back is granted.
func TestRecall(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *Ledger) {
		var (
			b       *Slot
			unused  atomic.Int64
			recalls atomic.Int64
			slow    atomic.Int64
		)
		a := join(t, l, 0, 100)
		b, err := l.Join(1, Member{IDs: []uint64{1}, Measure: fixed(100), Recall: func() {
			recalls.Add(1)
			time.Sleep(time.Duration(slow.Load()))
			b.Give(unused.Swap(0))
		}})
		require.NoError(t, err)
		_, err = b.TryTake(100, 100)
		require.NoError(t, err)

		// Bytes that are in use elsewhere stay there; the refusal comes with the
		// answer.
		start := time.Now()
		requireRefused(t, a.TryRecall(10), Refused{NeedBytes: 10})
		assert.EqualValues(t, 1, recalls.Load())
		assert.Zero(t, time.Since(start))

		// The next try comes too soon for another recall.
		unused.Store(30)
		requireRefused(t, a.TryRecall(10), Refused{NeedBytes: 10})
		assert.EqualValues(t, 1, recalls.Load())
		time.Sleep(time.Second)
		require.NoError(t, a.TryRecall(10))
		assert.EqualValues(t, 2, recalls.Load())

		// A recall that helped is repeated at once, if need be.
		_, err = b.TryTake(20, 20)
		require.NoError(t, err)
		unused.Store(30)
		require.NoError(t, a.TryRecall(10))
		assert.EqualValues(t, 3, recalls.Load())

		// Meanwhile others may take.
		_, err = b.TryTake(20, 20)
		require.NoError(t, err)
		taken := make(chan error)
		go func() {
			time.Sleep(10 * time.Millisecond)
			_, err := b.TryTake(5, 5)
			taken <- err
		}()
		slow.Store(int64(20 * time.Millisecond))
		b.Give(5)
		requireRefused(t, a.TryRecall(10), Refused{NeedBytes: 10})
		require.NoError(t, <-taken)
		b.Give(20)
		time.Sleep(time.Second)

		// Who does not answer is not waited for without end.
		_, err = b.TryTake(20, 20)
		require.NoError(t, err)
		slow.Store(int64(time.Second))
		unused.Store(30)
		start = time.Now()
		requireRefused(t, a.TryRecall(10), Refused{NeedBytes: 10})
		assert.Equal(t, recallTime, time.Since(start))
		assert.False(t, b.Waiting())
		time.Sleep(time.Second)
		_, err = a.TryTake(30, 30)
		require.NoError(t, err, "what came too late is there for the next")

		// One who waits recalls as well, and again.
		unused.Store(30)
		start = time.Now()
		require.NoError(t, a.Take(t.Context(), 20))
		assert.Less(t, time.Since(start), 1200*time.Millisecond)
		b.Close()
	})
}

// TestRecallNotEarly: the program learns of its slot before the slot calls it.
func TestRecallNotEarly(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, l *Ledger) {
		calls := 0
		a := join(t, l, 0, 100)
		b, err := l.Join(1, Member{Recall: func() { calls++ }})
		require.NoError(t, err)
		require.Error(t, a.TryRecall(101))
		assert.Zero(t, calls)
		assert.True(t, a.answered())
		assert.False(t, b.Waiting())
		time.Sleep(time.Second)
		require.Error(t, a.TryRecall(101))
		assert.Equal(t, 1, calls)
	})
}

func TestWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, 100), join(t, l, 1, 100)
		assert.False(t, a.Waiting())
		_, err := a.TryTake(100, 100)
		require.NoError(t, err)
		w := waiters{t, make(chan string, 10)}
		ctx, cancel := context.WithCancel(t.Context())
		w.take(ctx, b, 10, "")
		late := join(t, l, 2, 100)
		for _, s := range []*Slot{a, b, late} {
			assert.True(t, s.Waiting())
		}
		cancel()
		synctest.Wait()
		for _, s := range []*Slot{a, b, late} {
			assert.False(t, s.Waiting())
		}
		late.Close()
	})
}

// TestWake: the same within real time, over both kinds of memory.
func TestWake(t *testing.T) {
	forEach(t, 2, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, 100), join(t, l, 1, 100)
		for i := range 20 {
			_, err := a.TryTake(100, 100)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { done <- b.Take(t.Context(), 100) }()
			require.Eventually(t, a.Waiting, time.Second, 100*time.Microsecond)
			a.Give(100)
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(5 * time.Second):
				require.Fail(t, fmt.Sprint("not woken in round ", i))
			}
			b.Give(100)
		}
	})
}

// TestCloseEnds: Close waits for the goroutines of the slots, which sleep in the
// kernel, and is quick about it.
func TestCloseEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	forEach(t, 8, func(t *testing.T, l *Ledger) {
		for i := range l.Slots() {
			join(t, l, i, 100)
		}
		time.Sleep(5 * time.Millisecond) // until they sleep
		begin := time.Now()
		require.NoError(t, l.Close())
		assert.Less(t, time.Since(begin), lookEvery*10)
	})
	// What has said that it is done may exist for a moment more.
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, time.Second, time.Millisecond)
}
