package lease

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
)

// mutexAccount is what one would write first: a count under a lock that all
// accounts share.
type mutexAccount struct {
	pool *mutexPool
	size int64
}

type mutexPool struct {
	mu         sync.Mutex
	out, total int64
}

func (a *mutexAccount) TryGrow(n int64) error {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	if n > a.pool.total-a.pool.out {
		return errRefused
	}
	a.pool.out += n
	a.size += n
	return nil
}

func (a *mutexAccount) Shrink(n int64) {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.pool.out -= n
	a.size -= n
}

type grower interface {
	TryGrow(n int64) error
	Shrink(n int64)
}

// benchmarkGrowers measures a TryGrow and a Shrink, by goroutines that have an
// account each.
func benchmarkGrowers(b *testing.B, growers ...grower) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	for _, g := range growers {
		wg.Go(func() {
			for range b.N {
				if err := g.TryGrow(4096); err != nil {
					b.Error(err)
					return
				}
				g.Shrink(4096)
			}
		})
	}
	wg.Wait()
}

func BenchmarkGrowShrink(b *testing.B) {
	p := NewPool(&budget{total: math.MaxInt64}, 1<<20)
	m := &mutexPool{total: math.MaxInt64}
	b.Run("lease/1", func(b *testing.B) {
		a := open(p)
		b.ReportAllocs()
		for b.Loop() {
			if err := a.TryGrow(4096); err != nil {
				b.Fatal(err)
			}
			a.Shrink(4096)
		}
	})
	b.Run("lease/2", func(b *testing.B) { benchmarkGrowers(b, open(p), open(p)) })
	b.Run("mutex/1", func(b *testing.B) { benchmarkGrowers(b, &mutexAccount{pool: m}) })
	b.Run("mutex/2", func(b *testing.B) {
		benchmarkGrowers(b, &mutexAccount{pool: m}, &mutexAccount{pool: m})
	})
	b.Run("atomic/1", func(b *testing.B) { // what bounds it: two atomic operations
		var n atomic.Int64
		for b.Loop() {
			n.Add(4096)
			n.Add(-4096)
		}
	})
}

// BenchmarkOpenClose is the part of a Reserve and Release that belongs here.
func BenchmarkOpenClose(b *testing.B) {
	p := NewPool(&budget{total: math.MaxInt64}, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		a := new(Account)
		p.Open(a, nil)
		if err := a.TryGrow(4096); err != nil {
			b.Fatal(err)
		}
		a.Close()
	}
}
