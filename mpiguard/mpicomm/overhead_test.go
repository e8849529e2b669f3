//go:build cgo && !race

package mpicomm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm/internal/bare"
)

// goal is what a call of mpicomm may take more than the same collective in C.
const goal = 500 * time.Nanosecond

// TestMpirunOverhead: other work on the machine only ever adds to the
// difference, so one run of three within the goal, and a quarter for CI, shows
// that it is reached.
func TestMpirunOverhead(t *testing.T) {
	for n := 1; n <= 2; n++ {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			for range 3 {
				r := job(t, n, single, "^TestOverhead$")
				t.Log(r.Stdout)
				if r.Exit == 0 {
					return
				}
			}
			t.Errorf("not within %v in three runs", goal+goal/4)
		})
	}
}

// TestOverhead measures calls of mpicomm beside the same collective in C, in
// pairs one after the other, so that what else the machine does meets both.
func TestOverhead(t *testing.T) {
	rank(t)
	runOnMain(func() any { measureOverhead(t); return nil })
}

func measureOverhead(t *testing.T) {
	w := mpicomm.World()
	words, row := make([]uint64, 4), make([]byte, 128)
	rows := make([]byte, len(row)*w.Size())
	ctx := patient(t)
	for _, m := range []struct {
		name       string
		bare, ours func(times int)
	}{
		{"allreduce of 32 bytes", func(n int) { bare.Allreduce(n, len(words)) }, func(n int) {
			for range n {
				if err := w.AllreduceUint64(ctx, words, words, mpiguard.OpSum); err != nil {
					panic(err)
				}
			}
		}},
		{"allgather of 128-byte rows", func(n int) { bare.Allgather(n, len(row)) }, func(n int) {
			for range n {
				if err := w.Allgather(ctx, rows, row); err != nil {
					panic(err)
				}
			}
		}},
	} {
		const pairs, times = 41, 2000
		var bares, ours, more []time.Duration
		m.bare(times)
		m.ours(times)
		assert.Zero(t, testing.AllocsPerRun(100, func() { m.ours(1) }), "allocations")
		for range pairs {
			t0 := time.Now()
			m.bare(times)
			t1 := time.Now()
			m.ours(times)
			t2 := time.Now()
			bares, ours = append(bares, t1.Sub(t0)/times), append(ours, t2.Sub(t1)/times)
			more = append(more, (t2.Sub(t1)-t1.Sub(t0))/times)
		}
		slices.Sort(bares)
		slices.Sort(ours)
		slices.Sort(more)
		assert.LessOrEqual(t, more[pairs/4], goal+goal/4, m.name)
		if w.Rank() == 0 {
			fmt.Printf("%s, %d ranks: bare %v, mpicomm %v, more in a pair %v (quartiles %v, %v)\n", m.name, w.Size(),
				bares[pairs/2], ours[pairs/2], more[pairs/2], more[pairs/4], more[pairs*3/4])
		}
	}
}
