package lease

import (
	"context"
	"errors"
	"sync"
)

var errRefused = errors.New("refused")

// budget is a Source with a fixed number of bytes and a FIFO of waiters.
type budget struct {
	total int64
	pool  *Pool

	mu    sync.Mutex
	out   int64 // granted
	calls int   // of TryTake and Take
	queue []*claim
}

type claim struct {
	n  int64
	ok chan struct{}
}

func (b *budget) TryTake(need, want int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if left := b.total - b.out; len(b.queue) > 0 || need > left {
		return 0, errRefused
	} else if want > left {
		want = left
	}
	b.out += want
	return want, nil
}

func (b *budget) Take(ctx context.Context, n int64) error {
	c := &claim{n, make(chan struct{})}
	b.mu.Lock()
	b.calls++
	b.queue = append(b.queue, c)
	b.serve()
	b.mu.Unlock()
	b.pool.Recall()
	select {
	case <-c.ok:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.queue {
		if b.queue[i] == c {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.serve()
			return ctx.Err()
		}
	}
	return nil // served at the last moment
}

func (b *budget) Give(n int64) {
	if n <= 0 {
		panic("nothing given")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out -= n; b.out < 0 {
		panic("more given than taken")
	}
	b.serve()
}

func (b *budget) serve() {
	for len(b.queue) > 0 && b.queue[0].n <= b.total-b.out {
		b.out += b.queue[0].n
		close(b.queue[0].ok)
		b.queue = b.queue[1:]
	}
}

func (b *budget) granted() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out
}

func (b *budget) Waiting() bool { return b.waiters() > 0 }

func (b *budget) waiters() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}
