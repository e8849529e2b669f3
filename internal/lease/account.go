package lease

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
)

// closedSlack is the slack of a closed account: so far below zero that TryGrow
// finds none, and that a late Shrink does not lift it above zero.
const closedSlack = math.MinInt64 / 2

// Account is what one reservation has of a Pool. The zero Account is made ready
// by Pool.Open; it must not be copied after that. Its methods are safe for
// concurrent use.
//
// The size of an account is leased − slack. Growing and shrinking move the slack
// alone, by one atomic operation on a cache line that no other account shares;
// leased changes only with the pool locked. At every moment 0 ≤ slack, and slack
// ≤ leased unless a caller shrank below zero.
type Account struct {
	_     [56]byte     // keeps what the embedding struct holds before it off the cache line
	slack atomic.Int64 // leased, unused
	high  atomic.Int64 // a Shrink that leaves more slack than this takes the slow path
	_     [56]byte

	// Guarded by pool.mu.
	leased     int64
	seen       int64 // the slack at the last Trim
	prev, next *Account

	pool  *Pool
	owner any
}

// TryGrow adds n bytes to the account if they can be had without waiting. On an
// error, ErrClosed or one of the source, nothing has changed. It panics if n is
// negative.
func (a *Account) TryGrow(n int64) error {
	if n < 0 {
		panic("lease: TryGrow: negative size")
	}
	for {
		s := a.slack.Load()
		if s < n {
			return a.grow(n)
		}
		if a.slack.CompareAndSwap(s, s-n) {
			return nil
		}
	}
}

// Grow adds n bytes to the account, and waits for them until ctx ends. On an error
// nothing has changed. Close does not end the wait: a Grow that waited meanwhile
// returns ErrClosed once it was served.
func (a *Account) Grow(ctx context.Context, n int64) error {
	if err := a.TryGrow(n); err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	if err := a.pool.src.Take(ctx, n); err != nil {
		return err
	}
	return a.credit(n, n)
}

// Shrink takes n bytes off the account. Of a closed account, which holds nothing
// any more, nothing is taken. It panics if n is negative or more than the
// account holds; where another goroutine shrinks or grows the same account at
// that moment, the panic may be its.
func (a *Account) Shrink(n int64) {
	if n < 0 {
		panic("lease: Shrink: negative size")
	}
	if s := a.slack.Add(n); s > a.high.Load() || s < 0 {
		a.shrunk()
	}
}

// Bytes returns the size of the account, zero when it is closed.
func (a *Account) Bytes() int64 {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.used()
}

// Close takes all bytes off the account and returns how many that were. Growing
// fails from then on; closing again returns zero.
func (a *Account) Close() int64 {
	p := a.pool
	p.lock()
	if a.closed() {
		p.mu.Unlock()
		return 0
	}
	used := a.leased - a.slack.Swap(closedSlack)
	p.stock += a.leased
	a.leased = 0
	a.prev.next, a.next.prev = a.next, a.prev
	a.prev, a.next = nil, nil
	unused := p.surplus()
	p.mu.Unlock()
	p.give(unused)
	return used
}

// grow is TryGrow for what the slack does not cover.
func (a *Account) grow(n int64) error {
	p := a.pool
	p.lock()
	if a.closed() {
		p.mu.Unlock()
		return ErrClosed
	}
	if a.fromStock(n) {
		p.mu.Unlock()
		return nil
	}
	want := p.ahead(n)
	p.mu.Unlock()

	got, err := p.src.TryTake(n, want)
	if err != nil && p.Recall() > 0 {
		// Together with what lay unused here, it may fit.
		got, err = p.src.TryTake(n, n)
	}
	if err != nil {
		return err
	}

	return a.credit(n, got)
}

// fromStock grows a by n out of its slack and the stock of the pool, if they
// suffice. An account that grows again gets half a block more, ahead of its next
// calls; one that grows from nothing may never grow again.
func (a *Account) fromStock(n int64) bool {
	p := a.pool
	for {
		s := a.slack.Load()
		if n-s > p.stock {
			return false
		}
		if !a.slack.CompareAndSwap(s, max(s-n, 0)) {
			continue
		}
		more := max(n-s, 0)
		p.stock -= more
		ahead := int64(0)
		if a.leased > 0 && more > 0 {
			ahead = min(p.stock, p.block/2)
		}
		p.stock -= ahead
		a.leased += more + ahead
		a.bound()
		a.slack.Add(ahead)
		return true
	}
}

// credit grows a by n of the bytes that were just taken from the source; the rest
// goes to the stock, and so does all of it if a was closed meanwhile.
func (a *Account) credit(n, taken int64) error {
	p := a.pool
	p.lock()
	var err error
	if a.closed() {
		err = ErrClosed
		p.stock += taken
	} else {
		p.stock += taken - n
		a.leased += n
		a.bound()
	}
	unused := p.surplus()
	p.mu.Unlock()
	p.give(unused)
	return err
}

// shrunk looks after an account whose slack came to lie outside its bounds.
func (a *Account) shrunk() {
	p := a.pool
	p.lock()
	if a.closed() {
		a.slack.Store(closedSlack)
		p.mu.Unlock()
		return
	}
	if s := a.slack.Load(); s < 0 || s > a.leased {
		p.mu.Unlock()
		panic("lease: Shrink: more than the account holds")
	}
	p.stock += a.drain(p.keep(p.block / 2))
	unused := p.surplus()
	p.mu.Unlock()
	p.give(unused)
}

// drain lowers the slack to keep, and the lease by what that frees.
func (a *Account) drain(keep int64) int64 {
	for {
		s := a.slack.Load()
		if s <= keep {
			a.bound()
			return 0
		}
		if a.slack.CompareAndSwap(s, keep) {
			a.leased -= s - keep
			a.bound()
			return s - keep
		}
	}
}

// bound sets the slack above which Shrink takes the slow path: a block; at most
// what is leased, so that a Shrink of too much is found out; and while somebody
// waits, none.
func (a *Account) bound() {
	a.high.Store(a.pool.keep(min(a.leased, a.pool.block)))
}

func (a *Account) used() int64 {
	if a.closed() {
		return 0
	}
	return a.leased - a.slack.Load()
}

// closed reports whether Close was called; an open account is in the ring.
func (a *Account) closed() bool { return a.next == nil }
