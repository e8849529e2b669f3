package mpiguard

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// waiter is a Take that waits for headroom.
type waiter struct {
	bytes   int64
	granted chan struct{} // closed by serve
}

// shortage is why bytes were not granted. It is the inner part of a RefusedError.
type shortage struct {
	headroomBytes int64
	binding       string // the constraint and how it stands
	ahead         int    // requests that waited before this one
	never         bool   // above all that could ever be granted
}

func (s *shortage) Error() string {
	switch {
	case s.never:
		return fmt.Sprintf("more than could ever be granted under %s", s.binding)
	case s.ahead > 0:
		return fmt.Sprintf("requests that waited before it: %d", s.ahead)
	}
	return fmt.Sprintf("%s left under %s", sizeText(max(s.headroomBytes, 0)), s.binding)
}

func (s *shortage) Is(target error) bool {
	return target == ErrRefused || target == ErrNever && s.never
}

// short reports whether n bytes do not fit as of the last sample, and why.
func (p *process) short(n int64) *shortage {
	b := p.budget.Load()
	for i := range b.Constraints {
		if v, ok := p.view(b, i); ok && n > v.mostBytes {
			return &shortage{headroomBytes: v.headroomBytes, binding: p.describe(i), never: true}
		}
	}
	if left, i := p.left(); i >= 0 && n > left {
		return &shortage{headroomBytes: left, binding: p.describe(i)}
	}
	return nil
}

// promise books n bytes as granted.
func (p *process) promise(n int64) {
	p.promised += n
	p.meter.last.UntouchedBytes += n
}

// TryTake implements lease.Source: what is used is measured anew, so that what
// is measured always counts, and what is promised counts until it is touched.
func (p *process) TryTake(need, want int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(time.Now(), fresh)
	s := p.short(need)
	if len(p.waiters) > 0 && (s == nil || !s.never) {
		s = &shortage{ahead: len(p.waiters)}
	}
	if s != nil {
		return 0, s
	}
	got := need
	if left, _ := p.left(); want-need <= (left-need)/8 { // the last bytes are not leased ahead
		got = want
	}
	p.promise(got)
	return got, nil
}

// Take implements lease.Source. Those who wait are served in order; they are
// looked at again when bytes are given back and with every sample, since neither
// a fall of the use nor the death of a neighbour wakes anybody.
func (p *process) Take(ctx context.Context, n int64) error {
	p.mu.Lock()
	p.observe(time.Now(), fresh)
	s := p.short(n)
	if s != nil && s.never {
		p.mu.Unlock()
		return s
	}
	if s == nil && len(p.waiters) == 0 {
		p.promise(n)
		p.mu.Unlock()
		return nil
	}
	w := &waiter{n, make(chan struct{})}
	p.setWaiters(append(p.waiters, w))
	p.mu.Unlock()
	p.pool.Recall() // nothing lies unused while somebody waits

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiters, w)
	if i < 0 { // granted at the same moment
		return nil
	}
	p.setWaiters(slices.Delete(p.waiters, i, i+1))
	if s = p.short(n); s == nil {
		s = &shortage{ahead: i}
	}
	p.serve() // the next one may fit
	return fmt.Errorf("%w while it waited: %w", context.Cause(ctx), s)
}

// Give implements lease.Source.
func (p *process) Give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.promised -= n
	if len(p.waiters) > 0 {
		p.observe(time.Now(), fresh)
	}
}

// Waiting implements lease.Source.
func (p *process) Waiting() bool { return p.waiting.Load() > 0 }

func (p *process) setWaiters(w []*waiter) {
	p.waiters = w
	p.waiting.Store(int32(len(w)))
}

// serve grants those who wait, in order, as far as the headroom goes.
func (p *process) serve() {
	for len(p.waiters) > 0 {
		w := p.waiters[0]
		if p.short(w.bytes) != nil {
			return
		}
		p.promise(w.bytes)
		p.setWaiters(p.waiters[1:])
		close(w.granted)
	}
}
