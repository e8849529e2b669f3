//go:build cgo

package mpicomm_test

import (
	"bytes"
	"math"
	"testing"

	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// TestRankGompi pins what gompi v0.2.0 does that this package, or a program
// beside it, relies on or has to avoid. Where a later version differs, the
// documentation that warns of it has to change.
func TestRankGompi(t *testing.T) {
	rank(t)
	w := mpi.NewCommunicator(nil)
	next, previous := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()

	t.Run("BcastBytes moves four times the bytes", func(t *testing.T) {
		memory := bytes.Repeat([]byte{byte(1 + w.Rank())}, 128)
		w.BcastBytes(memory[:16], 0)
		assert.Equal(t, bytes.Repeat([]byte{1}, 64), memory[:64])
		assert.Equal(t, bytes.Repeat([]byte{byte(1 + w.Rank())}, 64), memory[64:])
	})
	t.Run("empty slices panic", func(t *testing.T) {
		assert.Panics(t, func() { w.SendBytes(nil, next, 1) })
		assert.Panics(t, func() { w.RecvPreallocBytes(nil, previous, 1) })
		assert.Panics(t, func() { w.BcastUint64s(nil, 0) })
		assert.Panics(t, func() { _ = w.AllreduceUint64s(nil, nil, mpi.OpSum, 0) })
	})
	t.Run("RecvBytes allocates what comes", func(t *testing.T) {
		const n = 1 << 20
		ours, err := mpicomm.Group(allRanks())
		require.NoError(t, err)
		if w.Rank() == 0 && w.Size() > 1 {
			w.SendBytes(make([]byte, n), 1, 2)
		} else if w.Rank() == 1 {
			b, _ := w.RecvBytes(0, 2)
			assert.Len(t, b, n)
		}
		assert.NoError(t, ours.Barrier(patient(t)))
		assert.NoError(t, ours.Free())
	})
	t.Run("MaxTag is not the largest tag but where it is kept", func(t *testing.T) {
		if openMPI() {
			assert.NotEqual(t, math.MaxInt32, w.MaxTag)
		}
	})
	t.Run("reductions need no root", func(t *testing.T) {
		sum := make([]uint64, 1)
		require.NoError(t, w.AllreduceUint64s(sum, []uint64{1}, mpi.OpSum, 1<<20))
		assert.EqualValues(t, w.Size(), sum[0])
	})
}
