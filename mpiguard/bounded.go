package mpiguard

import (
	"context"
	"sync"
	"time"
)

// bounded is a ctx with a deadline that needs no timer until somebody selects on
// it. mpicomm only polls Err, and setting up a timer would cost more than a
// collective among ranks of a node.
type bounded struct {
	context.Context
	deadline time.Time

	once   sync.Once
	timed  context.Context
	cancel context.CancelFunc
}

// bound returns ctx with a deadline after d, or its own if that is earlier. The
// caller calls release when it is done with it.
func bound(ctx context.Context, d time.Duration) *bounded {
	b := &bounded{Context: ctx, deadline: time.Now().Add(d)}
	if own, ok := ctx.Deadline(); ok && own.Before(b.deadline) {
		b.deadline = own
	}
	return b
}

func (b *bounded) Deadline() (time.Time, bool) { return b.deadline, true }

func (b *bounded) Err() error {
	if err := b.Context.Err(); err != nil {
		return err
	}
	if time.Now().Before(b.deadline) {
		return nil
	}
	return context.DeadlineExceeded
}

func (b *bounded) Done() <-chan struct{} {
	b.once.Do(func() { b.timed, b.cancel = context.WithDeadline(b.Context, b.deadline) })
	return b.timed.Done()
}

func (b *bounded) release() {
	b.once.Do(func() {})
	if b.cancel != nil {
		b.cancel()
	}
}
