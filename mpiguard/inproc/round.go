package inproc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// round is one collective of a world. Each rank brings its part under the lock
// and reads the result once done is closed, so that an Allgather of n ranks
// copies each row once beside the n results. Rounds form a list, along which
// the ranks walk at their own pace; the last to leave one behind frees it.
type round struct {
	done chan struct{} // closed when all ranks have entered, or one never will

	mu      sync.Mutex
	what    call                // what the first to enter called; the others must too
	entered []bool              // by rank
	count   int                 // of the ranks that have entered
	shared  mpiguard.SharedRows // Allgather: the rows by rank
	reduced []uint64            // AllreduceUint64: what was brought so far
	err     error               // set before done is closed: a rank that never enters
	next    *round              // set by the first to enter
}

// call is a collective as all ranks must make it alike.
type call struct {
	name   string
	length int // of a row, in bytes, or of src, in elements
	op     mpiguard.Op
}

func newRound() *round { return &round{done: make(chan struct{})} }

// enter adds the part of one rank and returns the round after this one. It
// panics if another rank called something else.
func (r *round) enter(rank, size int, what call, bring func(*round)) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == 0 {
		r.what = what
		r.entered = make([]bool, size)
		r.next = newRound()
	}
	if r.what != what {
		panic(fmt.Sprintf("inproc: rank %d calls %+v while another calls %+v", rank, what, r.what))
	}
	bring(r)
	r.entered[rank] = true
	r.count++
	if r.count == size && r.err == nil {
		close(r.done)
	}
	return r.next
}

// wait returns nil once all ranks have entered, or why they will not have.
func (r *round) wait(ctx context.Context) error {
	select {
	case <-r.done: // no need to ask for ctx.Done, which may set up a timer
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	select {
	case <-r.done: // at the same time
		return r.err
	default:
		return ended(ctx)
	}
}

// ended returns why ctx did, also for people who gave it a cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// abandon ends the round: the rank that says so has not entered and never will.
func (r *round) abandon(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		close(r.done)
	}
}

// missing returns the ranks that have not entered.
func (r *round) missing() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ranks []int
	for rank, entered := range r.entered {
		if !entered {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (r *round) gather(rank int, row []byte, total int) {
	if r.shared.Rows == nil {
		r.shared.Rows = make([]byte, total)
	}
	copy(r.shared.Rows[rank*len(row):], row)
}

func (r *round) reduce(src []uint64) {
	if r.reduced == nil {
		r.reduced = append(r.reduced, src...)
		return
	}
	for i, v := range src {
		switch r.what.op {
		case mpiguard.OpSum:
			r.reduced[i] += v
		case mpiguard.OpMin:
			r.reduced[i] = min(r.reduced[i], v)
		case mpiguard.OpMax:
			r.reduced[i] = max(r.reduced[i], v)
		}
	}
}
