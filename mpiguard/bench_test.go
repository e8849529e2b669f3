package mpiguard

import (
	"context"
	"testing"
)

func benchGuard(b *testing.B) *Guard {
	b.Helper()
	g, err := New(context.Background(), nil, Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close() })
	b.ReportAllocs()
	return g
}

func BenchmarkLevel(b *testing.B) {
	g := benchGuard(b)
	for b.Loop() {
		if g.Level() == Critical {
			b.Fatal("critical")
		}
	}
}

func BenchmarkTryGrowShrink(b *testing.B) {
	g := benchGuard(b)
	r, err := g.TryReserve("bench", 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Release()
	for b.Loop() {
		if err := r.TryGrow(4096); err != nil {
			b.Fatal(err)
		}
		r.Shrink(4096)
	}
}

func BenchmarkTryGrowShrinkParallel(b *testing.B) {
	g := benchGuard(b)
	b.RunParallel(func(pb *testing.PB) {
		r, err := g.TryReserve("bench", 1<<20)
		if err != nil {
			b.Error(err)
			return
		}
		defer r.Release()
		for pb.Next() {
			if err := r.TryGrow(4096); err != nil {
				b.Error(err)
			}
			r.Shrink(4096)
		}
	})
}

func BenchmarkReserveRelease(b *testing.B) {
	g := benchGuard(b)
	for b.Loop() {
		r, err := g.TryReserve("bench", 4096)
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct {
		name string
		d    depth
	}{{"quick", quick}, {"fresh", fresh}, {"full", full}} {
		b.Run(c.name, func(b *testing.B) {
			g := benchGuard(b)
			for b.Loop() {
				g.proc.mu.Lock()
				g.proc.observe(c.d)
				g.proc.mu.Unlock()
			}
		})
	}
}

func BenchmarkSurvey(b *testing.B) {
	g := benchGuard(b)
	for b.Loop() {
		if _, err := g.Survey(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPulse(b *testing.B) {
	g := benchGuard(b)
	for b.Loop() {
		if _, err := g.Pulse(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
