package mpiguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/mpiguard/mpiguard/internal/ledger"
)

// shortage is why bytes were not granted. It is the inner part of a RefusedError.
type shortage struct {
	headroomBytes int64
	binding       string // the constraint and how it stands
	reason        ledger.Reason
	never         bool // above all that could ever be granted
}

func (s *shortage) Error() string {
	switch {
	case s.never:
		return "more than could ever be granted under " + s.binding
	case s.reason != ledger.Short:
		return fmt.Sprintf("%v under %s", s.reason, s.binding)
	}
	return fmt.Sprintf("%s left under %s", sizeText(max(s.headroomBytes, 0)), s.binding)
}

func (s *shortage) Is(target error) bool {
	return target == ErrRefused || target == ErrNever && s.never
}

// never reports whether n bytes are above what could be granted at best.
func (p *process) never(n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.budget.Load()
	for i := range b.Constraints {
		if v, ok := p.view(b, i); ok && n > v.mostBytes {
			return &shortage{binding: p.describe(i), never: true}
		}
	}
	return nil
}

// explained turns a refusal of the ledger into one that names the constraint.
func (p *process) explained(err error) error {
	var r *ledger.Refused
	if !errors.As(err, &r) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &shortage{headroomBytes: r.RoomBytes, reason: r.Reason, binding: "no limit"}
	if i := p.binds[r.Constraint]; i >= 0 {
		s.binding = p.describe(i)
	}
	return s
}

// TryTake implements lease.Source. Before a refusal this process frees what it
// can do without, and all are asked for what lies unused.
func (p *process) TryTake(need, want int64) (int64, error) {
	if err := p.never(need); err != nil {
		return 0, err
	}
	got, err := p.slot.TryTake(need, want)
	if err == nil { // before what follows makes a variable on the heap
		return got, nil
	}
	var short *ledger.Refused
	if errors.As(err, &short) && short.Reason == ledger.Short {
		p.reclaim(need - short.RoomBytes)
		got, err = need, p.slot.TryRecall(need)
	}
	if err != nil {
		return 0, p.explained(err)
	}
	return got, nil
}

// Take implements lease.Source.
func (p *process) Take(ctx context.Context, n int64) error {
	if err := p.never(n); err != nil {
		return err
	}
	err := p.slot.Take(ctx, n)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w while it waited: %w", context.Cause(ctx), p.explained(err))
	}
	return err
}

// Give implements lease.Source. What is still promised to others of the process
// stays visible as untouched.
func (p *process) Give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slot.Give(n)
	p.held = p.holdings()
	p.meter.release(p.held)
	p.touch()
}

// Waiting implements lease.Source.
func (p *process) Waiting() bool { return p.slot.Waiting() }

// measure implements ledger.Member: the room under each constraint, read now.
func (p *process) measure(room []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(fresh)
	p.rooms(room)
}

// rooms stores what could be taken under each of p.ids if nothing were promised,
// and in p.binds which constraint that is. The last entry stands for what is
// shared with none: constraints that came up since New, and static shares.
func (p *process) rooms(room []int64) {
	last := len(p.ids) - 1
	for k := range p.ids {
		room[k], p.binds[k] = UnlimitedBytes, -1
	}
	b := p.budget.Load()
	for i := range b.Constraints {
		v, ok := p.view(b, i)
		if !ok {
			continue
		}
		k := p.indexOf(b.Constraints[i].id)
		if v.roomBytes < room[k] {
			room[k], p.binds[k] = v.roomBytes, i
		}
		if v.shareBytes < room[last] {
			room[last], p.binds[last] = v.shareBytes, i
		}
	}
}

// indexOf is the place of a constraint in p.ids, the last one if it has none.
func (p *process) indexOf(id uint64) int {
	for k, own := range p.ids[:len(p.ids)-1] {
		if own == id {
			return k
		}
	}
	return len(p.ids) - 1
}
