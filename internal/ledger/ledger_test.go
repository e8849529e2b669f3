package ledger

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forEach runs a test over both kinds of memory.
func forEach(t *testing.T, slots int, f func(t *testing.T, l *Ledger)) {
	t.Run("heap", func(t *testing.T) {
		l := InProcess(slots)
		f(t, l)
		require.NoError(t, l.Close())
	})
	t.Run("shared", func(t *testing.T) {
		l := create(t, slots)
		f(t, l)
		require.NoError(t, l.Close())
	})
}

func create(t testing.TB, slots int) *Ledger {
	t.Helper()
	l, err := Create(slots)
	if errors.Is(err, errors.ErrUnsupported) && runtime.GOOS != "linux" {
		t.Skip("shared memory needs Linux: ", err)
	}
	require.NoError(t, err)
	return l
}

// fixed measures constraints that nobody uses.
func fixed(rooms ...int64) func([]int64) {
	return func(room []int64) { copy(room, rooms) }
}

// join joins a slot with one constraint, id 1, whose room is fixed.
func join(t testing.TB, l *Ledger, slot int, room int64) *Slot {
	t.Helper()
	s, err := l.Join(slot, Member{IDs: []uint64{1}, Measure: fixed(room)})
	require.NoError(t, err)
	return s
}

func requireRefused(t testing.TB, err error, want Refused) {
	t.Helper()
	var r *Refused
	require.ErrorAs(t, err, &r)
	require.Equal(t, want, *r)
}

func TestTakeGive(t *testing.T) {
	forEach(t, 3, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, 100), join(t, l, 2, 100)
		assert.Equal(t, 3, l.Slots())

		n, err := a.TryTake(60, 80)
		require.NoError(t, err)
		assert.EqualValues(t, 80, n)
		n, err = b.TryTake(5, 80)
		require.NoError(t, err)
		assert.EqualValues(t, 20, n, "what is left, between need and want")
		_, err = b.TryTake(1, 1)
		requireRefused(t, err, Refused{NeedBytes: 1, Reason: Short})
		assert.EqualError(t, err, "ledger: 1 bytes refused with room for 0: not enough is left")
		n, err = b.TryTake(0, 0)
		require.NoError(t, err)
		assert.Zero(t, n)

		a.Give(30)
		held, touched := a.Bytes()
		assert.EqualValues(t, 50, held)
		assert.Zero(t, touched)
		n, err = b.TryTake(30, 30)
		require.NoError(t, err)
		assert.EqualValues(t, 30, n)

		a.Close()
		n, err = b.TryTake(1, 1000)
		require.NoError(t, err)
		assert.EqualValues(t, 50, n, "a slot that closes gives all")
		_, err = a.TryTake(0, 0)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, a.Take(t.Context(), 1), ErrClosed)
		require.ErrorIs(t, a.TryRecall(1), ErrClosed)
		a.Give(1000)
		assert.Zero(t, a.Touch(1))
		a.Publish(Row{})
		a.Close()
		assert.False(t, a.Waiting())
	})
}

// TestTouch: what is touched counts as used, and no longer as promised.
func TestTouch(t *testing.T) {
	forEach(t, 2, func(t *testing.T, l *Ledger) {
		used := int64(0)
		m := Member{IDs: []uint64{1}, Measure: func(room []int64) { room[0] = 100 - used }}
		a, err := l.Join(0, m)
		require.NoError(t, err)
		b, err := l.Join(1, m)
		require.NoError(t, err)
		room := func() int64 {
			_, err := b.TryTake(1000, 1000)
			var r *Refused
			require.ErrorAs(t, err, &r)
			return r.RoomBytes
		}
		_, err = a.TryTake(60, 60)
		require.NoError(t, err)
		require.EqualValues(t, 40, room())
		used = 25
		require.EqualValues(t, 15, room(), "counted twice until it is measured")
		assert.EqualValues(t, 25, a.Touch(25))
		require.EqualValues(t, 40, room())
		a.Give(20)
		require.EqualValues(t, 60, room(), "the rest of the promise is 15")
		a.Give(20)
		held, touched := a.Bytes()
		assert.EqualValues(t, 20, held)
		assert.EqualValues(t, 20, touched, "no more is touched than held")
		require.EqualValues(t, 75, room())
		assert.EqualValues(t, 5, a.Touch(-15))
		require.EqualValues(t, 60, room())
		used = 10
		require.EqualValues(t, 75, room())
		assert.Zero(t, a.Touch(math.MinInt64))
		assert.EqualValues(t, 20, a.Touch(math.MaxInt64))
		used = 150
		require.EqualValues(t, -50, room(), "usage above the limit")
	})
}

// TestConstraints: several at once, some of them shared, in differing order.
func TestConstraints(t *testing.T) {
	forEach(t, 4, func(t *testing.T, l *Ledger) {
		const node, left, right, unshared = 1, 2, 3, 0
		joinIDs := func(slot int, ids []uint64, room ...int64) *Slot {
			s, err := l.Join(slot, Member{IDs: ids, Measure: fixed(room...)})
			require.NoError(t, err)
			return s
		}
		a := joinIDs(0, []uint64{node, left, unshared}, 100, 50, 1000)
		b := joinIDs(1, []uint64{node, left, unshared}, 100, 50, 1000)
		c := joinIDs(2, []uint64{unshared, right, node}, 30, 80, 100)
		take := func(s *Slot, n int64) error {
			_, err := s.TryTake(n, n)
			return err
		}
		require.NoError(t, take(a, 30))
		requireRefused(t, take(b, 21), Refused{NeedBytes: 21, RoomBytes: 20, Constraint: 1})
		requireRefused(t, take(c, 31), Refused{NeedBytes: 31, RoomBytes: 30, Constraint: 0})
		require.NoError(t, take(c, 30))
		requireRefused(t, take(c, 1), Refused{NeedBytes: 1, RoomBytes: 0, Constraint: 0})
		requireRefused(t, take(a, 21), Refused{NeedBytes: 21, RoomBytes: 20, Constraint: 1})

		// Another occupant of a slot is under other constraints.
		a.Close()
		a = joinIDs(0, []uint64{right, node}, 80, 100)
		require.NoError(t, take(a, 45))
		requireRefused(t, take(b, 26), Refused{NeedBytes: 26, RoomBytes: 25, Constraint: 0})
		requireRefused(t, take(a, 10), Refused{NeedBytes: 10, RoomBytes: 5, Constraint: 0})

		free := joinIDs(3, nil)
		require.NoError(t, take(free, math.MaxInt64), "under no constraint")
		requireRefused(t, take(free, 1), Refused{NeedBytes: 1})
	})
}

func TestUnlimited(t *testing.T) {
	forEach(t, 2, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, math.MaxInt64), join(t, l, 1, math.MaxInt64)
		n, err := a.TryTake(1, math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, int64(math.MaxInt64), n)
		_, err = b.TryTake(1, 2)
		requireRefused(t, err, Refused{NeedBytes: 1})
		a.Touch(math.MaxInt64)
		_, err = b.TryTake(math.MaxInt64, math.MaxInt64)
		require.NoError(t, err)
		_, err = a.TryTake(1, 1)
		requireRefused(t, err, Refused{NeedBytes: 1})
	})
	assert.Equal(t, int64(math.MaxInt64), add(math.MaxInt64, math.MaxInt64))
	assert.Equal(t, int64(math.MaxInt64), add(math.MaxInt64-1, 1))
	assert.Equal(t, int64(math.MinInt64), sub(-2, math.MaxInt64))
	assert.Equal(t, int64(math.MinInt64), sub(math.MinInt64, 1))
	assert.Equal(t, int64(-2), sub(math.MaxInt64-2, math.MaxInt64))
}

func TestJoin(t *testing.T) {
	forEach(t, 2, func(t *testing.T, l *Ledger) {
		a := join(t, l, 0, 1)
		_, err := l.Join(0, Member{})
		require.EqualError(t, err, "ledger: slot 0 is taken")
		a.Close()
		join(t, l, 0, 1)
		assert.PanicsWithValue(t, "ledger: Join: slot 2 of 2", func() { _, _ = l.Join(2, Member{}) })
		assert.PanicsWithValue(t, "ledger: Join: slot -1 of 2", func() { _, _ = l.Join(-1, Member{}) })
		assert.PanicsWithValue(t, "ledger: Join: 25 constraints, above 24", func() {
			_, _ = l.Join(1, Member{IDs: make([]uint64, MaxConstraints+1)})
		})
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		_, err = l.Join(1, Member{})
		require.ErrorIs(t, err, ErrClosed)
		assert.Empty(t, l.Rows(nil))
		assert.Zero(t, l.Sweep())
	})
	assert.PanicsWithValue(t, "ledger: 0 slots", func() { InProcess(0) })
	assert.PanicsWithValue(t, "ledger: 16385 slots", func() { _, _ = Create(1<<14 + 1) })
}

func TestBadArguments(t *testing.T) {
	l := InProcess(1)
	defer l.Close()
	s := join(t, l, 0, 100)
	assert.PanicsWithValue(t, "ledger: TryTake: need 2, want 1", func() { _, _ = s.TryTake(2, 1) })
	assert.PanicsWithValue(t, "ledger: TryTake: need -1, want 1", func() { _, _ = s.TryTake(-1, 1) })
	assert.PanicsWithValue(t, "ledger: Take: -1 bytes", func() { _ = s.Take(t.Context(), -1) })
	assert.PanicsWithValue(t, "ledger: Give: 1 of 0 bytes", func() { s.Give(1) })
	assert.PanicsWithValue(t, "ledger: Give: -1 of 0 bytes", func() { s.Give(-1) })
	n, err := s.TryTake(1, 1)
	require.NoError(t, err, "a panic leaves nothing locked")
	assert.EqualValues(t, 1, n)
}

func TestRows(t *testing.T) {
	forEach(t, 4, func(t *testing.T, l *Ledger) {
		a, b := join(t, l, 0, 1), join(t, l, 3, 1)
		assert.Equal(t, []Row{{Slot: 0}, {Slot: 3}}, l.Rows(nil))
		row := Row{Rank: 7, PID: 1234, ReservedBytes: 5, PrivateBytes: 6, HeadroomBytes: -7, Level: 3}
		b.Publish(row)
		row.Slot = 3
		assert.Equal(t, []Row{{Slot: 0}, row}, l.Rows(nil))
		a.Close()
		rows := l.Rows(make([]Row, 0, 4))
		assert.Equal(t, []Row{row}, rows)
		assert.Zero(t, testing.AllocsPerRun(10, func() { rows = l.Rows(rows[:0]) }))
	})
}

// TestMinimum: a rank gets its minimum although another waits, and no more.
func TestMinimum(t *testing.T) {
	forEach(t, 2, func(t *testing.T, l *Ledger) {
		a := join(t, l, 0, 100)
		b, err := l.Join(1, Member{IDs: []uint64{1}, Measure: fixed(100), MinimumBytes: 20})
		require.NoError(t, err)
		_, err = b.TryTake(10, 10)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Take(ctx, 95) }()
		require.Eventually(t, b.Waiting, time.Second, time.Millisecond)

		n, err := b.TryTake(3, 50)
		require.NoError(t, err)
		assert.EqualValues(t, 10, n, "up to the minimum")
		_, err = b.TryTake(1, 1)
		requireRefused(t, err, Refused{NeedBytes: 1, RoomBytes: 80, Reason: Behind})

		cancel()
		err = <-done
		require.ErrorIs(t, err, context.Canceled)
		var refused *Refused
		require.ErrorAs(t, err, &refused)
		assert.EqualValues(t, 95, refused.NeedBytes)
		n, err = b.TryTake(1, 50)
		require.NoError(t, err)
		assert.EqualValues(t, 50, n, "nobody waits any more")
	})
}
