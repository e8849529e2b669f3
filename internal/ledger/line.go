package ledger

import (
	"context"
	"slices"
	"sync"
)

// line lets the goroutines of one process wait one after the other, in the order
// in which they came. The zero line is empty.
type line struct {
	mu     sync.Mutex
	places []*place // the first has its turn
	bytes  int64    // sum of their needs
}

type place struct {
	need int64
	turn chan struct{}
}

// need returns the sum of what those in the line wait for.
func (l *line) need() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// enter returns when it is the caller's turn, or with an error when ctx ends or
// done is closed before. The caller leaves in both cases.
func (l *line) enter(ctx context.Context, done <-chan struct{}, need int64) (*place, error) {
	p := &place{need: need, turn: make(chan struct{})}
	l.mu.Lock()
	l.places = append(l.places, p)
	l.bytes = add(l.bytes, need)
	if l.places[0] == p {
		close(p.turn)
	}
	l.mu.Unlock()
	select {
	case <-p.turn:
		return p, nil
	case <-ctx.Done():
		return p, context.Cause(ctx)
	case <-done:
		return p, ErrClosed
	}
}

func (l *line) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.places, p)
	l.places = slices.Delete(l.places, i, i+1)
	l.bytes = 0
	for _, q := range l.places {
		l.bytes = add(l.bytes, q.need)
	}
	if i == 0 && len(l.places) > 0 {
		close(l.places[0].turn)
	}
}
