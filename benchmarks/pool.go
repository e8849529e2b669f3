package benchmarks

import (
	"context"
	"sync"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/internal/offheap"
	"github.com/mpiguard/mpiguard/mpiguard/bufpool"
)

const largeBytes = 64 << 20

func (b *Bench) openPool(string) error {
	small, err := b.openBuffers(1<<20, 8)
	if err != nil {
		return err
	}
	large, err := b.openBuffers(largeBytes, 1)
	if err != nil {
		return err
	}
	ctx := context.Background()
	list := freeList{idle: make([][]byte, 0, 8)}
	list.put(make([]byte, 1<<20))
	var dropping sync.Pool
	kept := make([]byte, largeBytes)
	touch(kept)
	b.add(Row{
		Name: PoolGetPut,
		Goal: Goal{AtMost: 25, Reference: 13},
		Ours: pairs.CPU("bufpool", func(n int) {
			for range n {
				x, err := small.Get(ctx)
				must(err)
				x.Release()
			}
		}),
		Primitive: pairs.CPU("stack under a mutex", func(n int) {
			for range n {
				list.put(list.get())
			}
		}),
		Rivals: []pairs.Contender{pairs.CPU("sync.Pool", func(n int) {
			for range n {
				x, _ := dropping.Get().(*[]byte)
				if x == nil {
					fresh := make([]byte, 1<<20)
					x = &fresh
				}
				dropping.Put(x)
			}
		})},
	}, Row{
		Name: "64 MiB of buffer, each page written",
		Goal: Goal{OfPrimitive: 0.95},
		Ours: pairs.CPU("bufpool", func(n int) {
			for range n {
				x, err := large.Get(ctx)
				must(err)
				touch(x.Bytes())
				x.Release()
			}
		}),
		Primitive: pairs.CPU("the same slice again", func(n int) {
			for range n {
				touch(kept)
			}
		}),
		Rivals: []pairs.Contender{
			pairs.CPU("make", func(n int) {
				for range n {
					touch(make([]byte, largeBytes))
				}
			}),
			mapped("mmap", false), mapped("mmap, huge pages", true),
		},
	})
	return nil
}

func (b *Bench) openBuffers(bytes int64, buffers int) (*bufpool.Pool, error) {
	account, err := b.guard.TryReserveOffHeap("buffers", 0)
	if err != nil {
		return nil, err
	}
	b.onClose(func() error { account.Release(); return nil })
	p, err := bufpool.New(context.Background(), account, bufpool.Config{BufferBytes: bytes, Buffers: buffers})
	if err == nil {
		b.onClose(p.Close)
	}
	return p, err
}

// mapped is a mapping of its own for each use.
func mapped(name string, huge bool) pairs.Contender {
	return pairs.CPU(name, func(n int) {
		for range n {
			x, err := offheap.Map(largeBytes, huge)
			must(err)
			touch(x)
			must(offheap.Unmap(x))
		}
	})
}

// touch writes to each page.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

// freeList is the least that hands out buffers to several goroutines.
type freeList struct {
	mu   sync.Mutex
	idle [][]byte
}

func (l *freeList) get() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.idle[len(l.idle)-1]
	l.idle = l.idle[:len(l.idle)-1]
	return x
}

func (l *freeList) put(x []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, x)
}
