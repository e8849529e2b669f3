package mpiguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mpiguard/mpiguard/internal/lease"
)

// Reservation is a named account of bytes, granted before they are allocated.
// Its methods may be called from any goroutine. It serves as the Account of
// chunk and bufpool.
type Reservation struct {
	account   lease.Account
	guard     *Guard
	name      string
	offHeap   bool
	committed atomic.Int64
}

// Reserve asks for bytes of the Go heap before they are allocated and waits until
// there is headroom for them, in the order of the calls. The name is for people:
// it appears in refusals and reports, and need not be unique.
//
// It returns a *RefusedError that wraps ErrNever at once if the whole budget is
// smaller, and one that wraps the error of ctx when that ends first; nothing has
// changed then. A rank that waits here while the memory is held by a rank that
// waits for it in a collective would wait for ever: use TryReserve, or give ctx a
// deadline, between collectives. It panics if bytes is negative.
func (g *Guard) Reserve(ctx context.Context, name string, bytes int64) (*Reservation, error) {
	return g.open(name, false, func(r *Reservation) error { return r.Grow(ctx, bytes) })
}

// ReserveOffHeap is Reserve for memory outside the Go heap: mmap, C libraries.
func (g *Guard) ReserveOffHeap(ctx context.Context, name string, bytes int64) (*Reservation, error) {
	return g.open(name, true, func(r *Reservation) error { return r.Grow(ctx, bytes) })
}

// TryReserve is Reserve without waiting: where there is no headroom now it
// returns a *RefusedError.
func (g *Guard) TryReserve(name string, bytes int64) (*Reservation, error) {
	return g.open(name, false, func(r *Reservation) error { return r.TryGrow(bytes) })
}

// TryReserveOffHeap is TryReserve for memory outside the Go heap.
func (g *Guard) TryReserveOffHeap(name string, bytes int64) (*Reservation, error) {
	return g.open(name, true, func(r *Reservation) error { return r.TryGrow(bytes) })
}

// open makes a reservation and grows it from nothing.
func (g *Guard) open(name string, offHeap bool, grow func(*Reservation) error) (*Reservation, error) {
	r := &Reservation{guard: g, name: name, offHeap: offHeap}
	g.proc.pool.Open(&r.account, r)
	var err error
	if g.closed.Load() { // also where Close looked for reservations just before this one was there
		err = r.closedError()
	} else {
		err = grow(r)
	}
	if err != nil {
		r.account.Close()
		return nil, err
	}
	return r, nil
}

// Name returns the name given to Reserve.
func (r *Reservation) Name() string { return r.name }

// SizeBytes returns how much is reserved; 0 after Release.
func (r *Reservation) SizeBytes() int64 { return r.account.Bytes() }

// TryGrow adds bytes to the reservation if there is headroom for them now. On an
// error, a *RefusedError or one that wraps ErrClosed, nothing has changed. It
// panics if bytes is negative. Mostly it costs one atomic operation.
func (r *Reservation) TryGrow(bytes int64) error {
	if err := r.account.TryGrow(bytes); err != nil {
		return r.failed(bytes, err)
	}
	return nil
}

// Grow adds bytes to the reservation and waits, like Reserve, until there is
// headroom for them. On an error nothing has changed.
func (r *Reservation) Grow(ctx context.Context, bytes int64) error {
	if r.account.TryGrow(bytes) == nil {
		return nil
	}
	r.guard.growing.RLock()
	defer r.guard.growing.RUnlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.guard.closing, func() { cancel(ErrClosed) })()
	over := r.guard.proc.exhaustion.over
	defer context.AfterFunc(over, func() { cancel(context.Cause(over)) })()
	if err := r.account.Grow(ctx, bytes); err != nil {
		return r.failed(bytes, err)
	}
	return nil
}

// Shrink gives bytes back. It panics if bytes is negative or more than what is
// reserved; after Release it does nothing.
func (r *Reservation) Shrink(bytes int64) { r.account.Shrink(bytes) }

// Commit says that bytes more of what is reserved are resident outside the Go
// heap: a pool that has touched its pages. A negative number takes that back,
// before the memory is unmapped and Shrink is called. What was never committed is
// taken for touched as the memory of the process is seen to grow.
func (r *Reservation) Commit(bytes int64) { r.committed.Add(bytes) }

// Release gives everything back. A second Release does nothing.
func (r *Reservation) Release() { r.account.Close() }

// HeadroomBytes is what the reservation could grow by, as of the last sample.
func (r *Reservation) HeadroomBytes() int64 { return r.guard.HeadroomBytes() }

// Level is the memory pressure of the rank.
func (r *Reservation) Level() Level { return r.guard.Level() }

// Holder is a reservation as others see it.
type Holder struct {
	Name      string
	SizeBytes int64
}

// RefusedError is the refusal of a request for memory. It wraps ErrRefused, and
// ErrNever or the error of the ctx that ended the wait where they apply.
type RefusedError struct {
	Rank                 int
	Name                 string   // of the reservation that asked
	WantBytes, HeldBytes int64    // what it asked for and what it had
	Holders              []Holder // the largest reservations of the process, the largest first
	// Node says which ranks of the node hold how much, the largest first; "" where
	// there is one process.
	Node string
	Err  error // what was left, and under which constraint
}

// Error says who asked, for how much, what it holds, what is left, which
// constraint binds, and which reservations and ranks hold the most.
func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mpiguard: rank %d: %q holds %s and asked for %s: %v", e.Rank, e.Name,
		sizeText(e.HeldBytes), sizeText(e.WantBytes), e.Err)
	for i, h := range e.Holders {
		sep := ", "
		if i == 0 {
			sep = "; largest reservations: "
		}
		fmt.Fprintf(&b, "%s%q %s", sep, h.Name, sizeText(h.SizeBytes))
	}
	if e.Node != "" {
		b.WriteString("; on the node " + e.Node)
	}
	return b.String()
}

// Unwrap returns why.
func (e *RefusedError) Unwrap() error { return e.Err }

// holdersNamed is how many reservations a refusal names.
const holdersNamed = 3

// failed turns an error of the account into one that says who asked.
func (r *Reservation) failed(bytes int64, err error) error {
	if errors.Is(err, lease.ErrClosed) || errors.Is(err, ErrClosed) {
		return r.closedError()
	}
	e := &RefusedError{Rank: r.guard.rank, Name: r.name, WantBytes: bytes, HeldBytes: r.SizeBytes(), Err: err}
	for owner, n := range r.guard.proc.pool.All() {
		if n > 0 {
			e.Holders = append(e.Holders, Holder{owner.(*Reservation).name, n})
		}
	}
	slices.SortStableFunc(e.Holders, func(a, b Holder) int { return cmp.Compare(b.SizeBytes, a.SizeBytes) })
	e.Holders = e.Holders[:min(len(e.Holders), holdersNamed)]
	p := r.guard.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := p.holders(); len(p.rows) > 1 {
		e.Node = text
	}
	return e
}

func (r *Reservation) closedError() error {
	return fmt.Errorf("mpiguard: rank %d: reservation %q: %w", r.guard.rank, r.name, ErrClosed)
}

// releaseAll releases what is still reserved and returns an error that names it.
func (g *Guard) releaseAll() error {
	var mine []*Reservation
	for owner := range g.proc.pool.All() {
		if r := owner.(*Reservation); r.guard == g {
			mine = append(mine, r)
		}
	}
	var leaked []string
	for _, r := range mine {
		if n := r.account.Close(); n > 0 {
			leaked = append(leaked, fmt.Sprintf("%q (%s)", r.name, sizeText(n)))
		}
	}
	if len(leaked) == 0 {
		return nil
	}
	return fmt.Errorf("mpiguard: rank %d: not released before Close: %s", g.rank, strings.Join(leaked, ", "))
}
