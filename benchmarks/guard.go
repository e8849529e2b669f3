package benchmarks

import (
	"sync"
	"sync/atomic"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/mpiguard"
)

const stepBytes = 4096 // of a TryGrow

func (b *Bench) openGuard(string) error {
	var accounts [2]*mpiguard.Reservation
	for i := range accounts {
		r, err := b.reserve("grow and shrink", 1<<20)
		if err != nil {
			return err
		}
		accounts[i] = r
	}
	var lines [2]line
	var word atomic.Uint32
	registry := registry{entries: map[*entry]struct{}{}}
	b.add(Row{
		Name: "read the level",
		Goal: Goal{AtMost: 2, Reference: 1},
		Ours: pairs.CPU("Level", func(n int) {
			var all mpiguard.Level // a global would be stored to in each step
			for range n {
				all |= b.guard.Level()
			}
			sink += int64(all)
		}),
		Primitive: pairs.CPU("atomic load", func(n int) {
			var all uint32
			for range n {
				all |= word.Load()
			}
			sink += int64(all)
		}),
	}, Row{
		Name:      GrowShrink,
		Goal:      Goal{AtMost: 8, Reference: 4.4},
		Ours:      pairs.CPU("lease", growShrink(accounts[0])),
		Primitive: pairs.CPU("2 atomic adds", lines[0].addTwice),
	}, Row{
		Name:      GrowShrinkParallel,
		Goal:      Goal{AtMost: 15, Reference: 4.8},
		Ours:      pairs.Parallel("lease", growShrink(accounts[0]), growShrink(accounts[1])),
		Primitive: pairs.Parallel("2 atomic adds each", lines[0].addTwice, lines[1].addTwice),
	}, Row{
		Name: "TryReserve + Release",
		Goal: Goal{AtMost: 300, Allocs: 2, Reference: 61},
		Ours: pairs.CPU("reservation", func(n int) {
			for range n {
				r, err := b.guard.TryReserve("short-lived", stepBytes)
				must(err)
				r.Release()
			}
		}),
		Primitive: pairs.CPU("map under a mutex", func(n int) {
			for range n {
				registry.remove(registry.add("short-lived", stepBytes))
			}
		}),
	})
	return nil
}

func growShrink(r *mpiguard.Reservation) func(n int) {
	return func(n int) {
		for range n {
			must(r.TryGrow(stepBytes))
			r.Shrink(stepBytes)
		}
	}
}

// line is a counter on a cache line of its own.
type line struct {
	_ [64]byte
	n atomic.Int64
	_ [64]byte
}

func (l *line) addTwice(n int) {
	for range n {
		l.n.Add(stepBytes)
		l.n.Add(-stepBytes)
	}
}

// registry is the least that knows who holds how much.
type registry struct {
	mu      sync.Mutex
	entries map[*entry]struct{}
}

type entry struct {
	name  string
	bytes int64
}

func (r *registry) add(name string, bytes int64) *entry {
	e := &entry{name, bytes}
	r.mu.Lock()
	r.entries[e] = struct{}{}
	r.mu.Unlock()
	return e
}

func (r *registry) remove(e *entry) {
	r.mu.Lock()
	delete(r.entries, e)
	r.mu.Unlock()
}
