package benchmarks

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/mpiguard/mpiguard/internal/ledger"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// Footprint is the memory that the library itself takes.
type Footprint struct {
	// GuardBytes is what a guard takes of the Go heap: without the stacks of its
	// goroutines, which come in pieces that others use too.
	GuardBytes int64
	// ReservationsBytes is what a thousand reservations take.
	ReservationsBytes int64
	// LedgerBytes is the shared memory of a node with 32 ranks. There is none, and
	// it is 0, where there is no such memory.
	LedgerBytes int64
}

const reservations = 1000

// MeasureFootprint measures it. No guard may be open, and nothing else run.
func MeasureFootprint() (f Footprint, err error) {
	var g *mpiguard.Guard
	f.GuardBytes = taken(func() { g, err = mpiguard.New(context.Background(), nil, mpiguard.Config{}) })
	if err != nil {
		return f, err
	}
	defer g.Close()
	held := make([]*mpiguard.Reservation, reservations)
	f.ReservationsBytes = taken(func() {
		for i := range held {
			if held[i], err = g.TryReserve("one of a thousand", 0); err != nil {
				return
			}
		}
	})
	for _, r := range held {
		if r != nil {
			r.Release()
		}
	}
	if err != nil {
		return f, err
	}
	f.LedgerBytes, err = ledgerBytes()
	return f, err
}

// taken is what f makes the Go heap grow by, for good.
func taken(f func()) int64 {
	inUse := func() int64 {
		for range 2 { // what the first frees by finalizers, the second counts
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	f()
	return inUse() - before
}

func ledgerBytes() (int64, error) {
	l, err := ledger.Create(32)
	if err != nil {
		return 0, nil
	}
	defer l.Close()
	info, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", l.Handle().FD))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// String is a sentence.
func (f Footprint) String() string {
	kib := func(n int64) float64 { return float64(n) / 1024 }
	return fmt.Sprintf("Memory of the library: a guard %.0f KiB, %d reservations %.0f KiB, the ledger of a node with 32 ranks %.0f KiB.",
		kib(f.GuardBytes), reservations, kib(f.ReservationsBytes), kib(f.LedgerBytes))
}
