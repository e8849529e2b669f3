//go:build cgo

package mpicomm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/commtest"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

func TestWithoutMPI(t *testing.T) {
	require.False(t, mpi.IsOn())
	const want = "before MPI was started (mpi.Start of github.com/sbromberger/gompi)"
	assert.PanicsWithValue(t, "mpicomm: World "+want, func() { mpicomm.World() })
	assert.PanicsWithValue(t, "mpicomm: Group "+want, func() { _, _ = mpicomm.Group([]int{0}) })
	assert.PanicsWithValue(t, "mpicomm: Node "+want, func() { _, _ = mpicomm.Node() })
	assert.Empty(t, mpicomm.ThreadLevel())
	assert.Regexp(t, `^(Open MPI|MPICH)`, mpicomm.Library())
	assert.NotContains(t, mpicomm.Library(), "\x00")
}

func allRanks() []int {
	ranks := make([]int, mpi.WorldSize())
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}

// fresh runs f on a communicator of all ranks.
func fresh[C mpiguard.Comm](f func(C) error) error {
	c, err := mpicomm.Group(allRanks())
	if err != nil {
		return err
	}
	return f(any(c).(C))
}

func TestRankConformance(t *testing.T) {
	rank(t)
	assert.Equal(t, "MPI_THREAD_MULTIPLE", mpicomm.ThreadLevel())
	commtest.TestMessenger(t, fresh[mpiguard.Messenger])
	commtest.TestGuard(t, fresh[mpiguard.Comm])
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// gather returns what each rank of c says.
func gather(t *testing.T, c *mpicomm.Comm, mine int) []int {
	rows := make([]byte, 8*c.Size())
	require.NoError(t, c.Allgather(patient(t), rows, binary.LittleEndian.AppendUint64(nil, uint64(mine))))
	var all []int
	for row := range slices.Chunk(rows, 8) {
		all = append(all, int(binary.LittleEndian.Uint64(row)))
	}
	return all
}

func TestRankWorld(t *testing.T) {
	rank(t)
	w := mpicomm.World()
	assert.Same(t, w, mpicomm.World())
	assert.Equal(t, mpi.WorldRank(), w.Rank())
	assert.Equal(t, mpi.WorldSize(), w.Size())
	assert.Equal(t, allRanks(), gather(t, w, w.Rank()))
	assert.PanicsWithValue(t, "mpicomm: Free of World", func() { _ = w.Free() })

	// What the program sends through gompi is not seen here.
	if w.Size() == 1 {
		return // where a send to self may wait for its receive
	}
	other := mpi.NewCommunicator(nil)
	if w.Rank() == 0 {
		other.SendBytes([]byte("x"), 1, 5) // below the eager limit: returns at once
	}
	require.NoError(t, w.Barrier(patient(t)))
	if w.Rank() == 1 {
		for found := false; !found; {
			found, _ = other.Iprobe(0, 5)
		}
	}
	_, found, err := w.Iprobe(mpiguard.AnySource, mpiguard.AnyTag)
	assert.NoError(t, err)
	assert.False(t, found)
	if w.Rank() == 1 {
		other.RecvPreallocBytes(make([]byte, 1), 0, 5)
	}
}

func TestRankGroup(t *testing.T) {
	rank(t)
	me, size := mpi.WorldRank(), mpi.WorldSize()
	var mine, others []int // of my parity, in falling order
	for _, r := range slices.Backward(allRanks()) {
		if r%2 == me%2 {
			mine = append(mine, r)
		} else {
			others = append(others, r)
		}
	}
	for range 20 { // the two groups come and go apart
		c, err := mpicomm.Group(mine)
		require.NoError(t, err)
		assert.Equal(t, slices.Index(mine, me), c.Rank())
		assert.Equal(t, len(mine), c.Size())
		assert.Equal(t, mine, gather(t, c, me))
		require.NoError(t, c.Free())
		assert.ErrorIs(t, c.Barrier(patient(t)), mpiguard.ErrClosed)
		_, err = c.Isend(nil, 0, 0)
		assert.ErrorIs(t, err, mpiguard.ErrClosed)
		assert.ErrorIs(t, c.Free(), mpiguard.ErrClosed)
	}
	for _, ranks := range [][]int{nil, others, {me, me}, {-1, me}, {me, size}} {
		_, err := mpicomm.Group(ranks)
		assert.Error(t, err, "%v", ranks)
	}

	c, err := mpicomm.Group([]int{me})
	require.NoError(t, err)
	r, err := c.Irecv(make([]byte, 1), 0, 0)
	require.NoError(t, err)
	assert.Error(t, c.Free(), "a receive is under way")
	require.NoError(t, r.Cancel())
	assert.NoError(t, c.Free())
	_, done, err := r.Test()
	assert.True(t, done)
	assert.ErrorIs(t, err, mpiguard.ErrCancelled)
}

func TestRankNode(t *testing.T) {
	rank(t)
	c, err := mpicomm.Node()
	require.NoError(t, err)
	assert.Equal(t, allRanks(), gather(t, c, mpi.WorldRank()), "all ranks of this test are on one node")
	assert.NoError(t, c.Free())
}

// TestMainThread: MPI that was started for one thread serves that thread alone.
func TestMainThread(t *testing.T) {
	rank(t)
	assert.Equal(t, "MPI_THREAD_SINGLE", mpicomm.ThreadLevel())
	const want = "mpicomm: World: MPI called from another thread than it was initialised on " +
		"(call it from main with runtime.LockOSThread in an init function, or start MPI with mpi.Start(true))"
	assert.EqualError(t, mpicomm.World().Barrier(t.Context()), want)

	w := runOnMain(mpicomm.World)
	assert.NoError(t, runOnMain(func() error { return w.Barrier(patient(t)) }))
	one := make([]uint64, 1)
	assert.ErrorIs(t, w.Barrier(t.Context()), mpiguard.ErrWrongThread)
	assert.ErrorIs(t, w.AllreduceUint64(t.Context(), one, one, mpiguard.OpSum), mpiguard.ErrWrongThread)
	_, err := w.Isend(nil, 0, 0)
	assert.ErrorIs(t, err, mpiguard.ErrWrongThread)
	_, err = w.Irecv(nil, 0, 0)
	assert.ErrorIs(t, err, mpiguard.ErrWrongThread)
	_, _, err = w.Iprobe(0, 0)
	assert.ErrorIs(t, err, mpiguard.ErrWrongThread)
	_, err = mpicomm.Group(allRanks())
	assert.ErrorIs(t, err, mpiguard.ErrWrongThread)

	r := runOnMain(func() mpiguard.Request {
		r, err := w.Irecv(nil, 0, 0)
		assert.NoError(t, err)
		return r
	})
	_, done, err := r.Test()
	assert.ErrorIs(t, err, mpiguard.ErrWrongThread)
	assert.False(t, done, "the buffer is still MPI's")
	assert.ErrorIs(t, r.Cancel(), mpiguard.ErrWrongThread)
	assert.NoError(t, runOnMain(r.Cancel))
	assert.NoError(t, runOnMain(func() error { return w.Barrier(patient(t)) }), "wrong threads have broken nothing")
}

func TestMainConformance(t *testing.T) {
	rank(t)
	run := func(f func(mpiguard.Comm) error) error {
		return runOnMain(func() error { return fresh(f) })
	}
	commtest.TestComm(t, run)
	commtest.TestGuard(t, run) // whose background work keeps off MPI
}

// TestStopped is the last thing that its ranks do.
func TestStopped(t *testing.T) {
	rank(t)
	w := runOnMain(mpicomm.World)
	r := runOnMain(func() mpiguard.Request {
		r, err := w.Irecv(make([]byte, 1), 0, 0)
		assert.NoError(t, err)
		return r
	})
	runOnMain(func() any { mpi.Stop(); return nil })
	stopped = true

	assert.True(t, mpi.IsOn(), "gompi's IsOn stays true")
	assert.Same(t, w, mpicomm.World())
	assert.Equal(t, 2, w.Size())
	assert.Empty(t, mpicomm.ThreadLevel())
	assert.EqualError(t, w.Barrier(t.Context()), "mpicomm: Barrier: MPI was stopped")
	one := make([]uint64, 1)
	assert.ErrorIs(t, w.AllreduceUint64(t.Context(), one, one, mpiguard.OpSum), mpicomm.ErrFinalized)
	assert.ErrorIs(t, w.Allgather(t.Context(), make([]byte, 2), make([]byte, 1)), mpicomm.ErrFinalized)
	_, err := w.Isend(nil, 0, 0)
	assert.ErrorIs(t, err, mpicomm.ErrFinalized)
	_, err = w.Irecv(nil, 0, 0)
	assert.ErrorIs(t, err, mpicomm.ErrFinalized)
	_, _, err = w.Iprobe(0, 0)
	assert.ErrorIs(t, err, mpicomm.ErrFinalized)
	_, done, err := r.Test()
	assert.ErrorIs(t, err, mpicomm.ErrFinalized)
	assert.False(t, done)
	assert.ErrorIs(t, r.Cancel(), mpicomm.ErrFinalized)
}

// TestRankForgets: a buffer on the Go heap is MPI's until the message has gone,
// also where the program has forgotten buffer and request.
func TestRankForgets(t *testing.T) {
	rank(t)
	c, err := mpicomm.Group(allRanks())
	require.NoError(t, err)
	const n = 1 << 20
	next, previous := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	func() {
		holder := &struct { // with a pointer beside the buffer, which must be nobody's concern
			b [n]byte
			p *int
		}{p: new(int)}
		for i := range holder.b {
			holder.b[i] = byte(c.Rank())
		}
		_, err := c.Isend(holder.b[:], next, 0)
		require.NoError(t, err)
	}()
	var garbage [][]byte
	for range 10 {
		runtime.GC()
		garbage = append(garbage, bytes.Repeat([]byte{0xff}, n))
	}
	require.NoError(t, c.Barrier(patient(t)))
	in := make([]byte, n)
	r, err := c.Irecv(in, previous, 0)
	require.NoError(t, err)
	for done := false; !done; {
		_, done, err = r.Test()
		require.NoError(t, err)
	}
	assert.True(t, bytes.Equal(bytes.Repeat([]byte{byte(previous)}, n), in))
	runtime.KeepAlive(garbage)
}
