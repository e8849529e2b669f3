package mpiguard

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Transition is a change of the level of this rank. One with equal From and To is
// an event at that level: nothing more can be reduced, the kernel has killed a
// process of a cgroup that this rank is in, or the limits are no longer what they
// were (see Budget).
type Transition struct {
	From, To Level
	At       time.Time
	Reason   string // the tightest constraint and its figures
}

// OnLevel calls f for each change of the level from now on, until stop is called
// or the guard is closed. All callbacks of a guard run in order on one goroutine
// that is not the sampler's: a slow one delays the next callbacks and nothing
// else. A panic in f is logged as an error. f must make no MPI call and must not
// call Close. A call of f that is under way may outlast stop.
func (g *Guard) OnLevel(f func(Transition)) (stop func()) {
	n := &g.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	cb := &f
	n.callbacks = append(n.callbacks, cb)
	if n.wake == nil && !n.closed {
		n.wake = make(chan struct{}, 1)
		n.ended.Go(func() { n.deliver(g.cfg.Logger) })
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.callbacks = slices.DeleteFunc(n.callbacks, func(o *func(Transition)) bool { return o == cb })
	}
}

// notices are the transitions that the callbacks of one guard have not seen yet.
type notices struct {
	mu        sync.Mutex
	callbacks []*func(Transition)
	queue     []Transition
	wake      chan struct{} // made with the goroutine, by the first OnLevel; closed by close
	closed    bool
	ended     sync.WaitGroup
}

// post queues t; it never waits for a callback.
func (n *notices) post(t Transition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wake == nil || n.closed {
		return
	}
	n.queue = append(n.queue, t)
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notices) deliver(log *slog.Logger) {
	for range n.wake {
		n.mu.Lock()
		queue, callbacks := n.queue, slices.Clone(n.callbacks)
		n.queue = nil
		n.mu.Unlock()
		for _, t := range queue {
			for _, f := range callbacks {
				if err := guarded(func() { (*f)(t) }); err != nil {
					log.Error("callback of OnLevel failed", "error", err)
				}
			}
		}
	}
}

// guarded calls f and turns a panic into an error.
func guarded(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	f()
	return nil
}

// close drops what is queued, ends the goroutine and waits for it.
func (n *notices) close() {
	n.mu.Lock()
	if n.wake != nil && !n.closed {
		close(n.wake)
	}
	n.closed = true
	n.mu.Unlock()
	n.ended.Wait()
}
