package bufpool

import (
	"context"
	"sync"
	"testing"
)

func BenchmarkGetRelease(b *testing.B) {
	p, err := New(context.Background(), nil, Config{BufferBytes: 1 << 20, Buffers: 8})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("pool", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf, _ := p.Get(context.Background())
			buf.Release()
		}
	})
	b.Run("pool-cancellable", func(b *testing.B) {
		for b.Loop() {
			buf, _ := p.Get(ctx)
			buf.Release()
		}
	})
	b.Run("pool-parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				buf, _ := p.Get(ctx)
				buf.Release()
			}
		})
	})
	b.Run("sync.Pool", func(b *testing.B) {
		var sp sync.Pool
		buf := make([]byte, 1<<20)
		sp.Put(&buf)
		for b.Loop() {
			x := sp.Get()
			sp.Put(x)
		}
	})
}

func BenchmarkNew64MiB(b *testing.B) {
	for name, cfg := range map[string]Config{
		"pages":     {BufferBytes: 64 << 20, Buffers: 1},
		"hugepages": {BufferBytes: 64 << 20, Buffers: 1, HugePages: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := New(context.Background(), nil, cfg)
				if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
		})
	}
}
