// Package lease grants bytes out of blocks. Asking the ledger of a node for
// memory takes microseconds: slots of other ranks are summed and the kernel's
// figures are read. So a process takes a block at a time, and its reservations
// grow and shrink within what is already leased, at the price of one atomic
// operation each.
//
// What is leased but not used still counts as promised. It flows back: above a
// block when an Account shrinks, after a tick of idleness by Trim, and at once by
// Recall or while somebody in the process waits.
package lease

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"
)

// ErrClosed: the account was closed.
var ErrClosed = errors.New("lease: account is closed")

// Source grants the bytes that a Pool leases. Its methods are called
// concurrently and, but for Waiting, never with a lock of the Pool held, so that
// they may call the Pool's own methods, Recall for one.
type Source interface {
	// TryTake grants between need and want bytes and returns how many, or returns
	// an error and changes nothing. It does not wait for bytes to be given back.
	TryTake(need, want int64) (int64, error)
	// Take grants n bytes, and waits for them until ctx ends. Those who wait are
	// served in the order of their calls, and a TryTake does not pass them. While
	// it waits, Waiting is true and, once that is so, the Pool's Recall is called.
	Take(ctx context.Context, n int64) error
	// Give returns bytes that were granted.
	Give(n int64)
	// Waiting reports whether somebody waits for bytes, in this process or in
	// another. It must not call the Pool.
	Waiting() bool
}

// Pool is what one process has leased from a Source: what its accounts use, the
// slack of each, and a stock that is nobody's yet. Its methods are safe for
// concurrent use.
type Pool struct {
	src   Source
	block int64

	mu       sync.Mutex
	stock    int64   // leased, in no account
	seen     int64   // the stock at the last Trim
	scarce   bool    // somebody waits, as of the last lock
	accounts Account // head of the ring of open accounts
}

// NewPool returns a Pool that has leased nothing yet. The block bounds what lies
// unused: at most one in the stock, and one in each account that was in use since
// the Trim before the last.
func NewPool(src Source, blockBytes int64) *Pool {
	if blockBytes <= 0 {
		panic("lease: NewPool: block is not positive")
	}
	p := &Pool{src: src, block: blockBytes}
	p.accounts.next, p.accounts.prev = &p.accounts, &p.accounts
	return p
}

// Open makes a, which must be zero, an empty account of the pool. The owner is
// what All yields for it.
func (p *Pool) Open(a *Account, owner any) {
	if a.pool != nil {
		panic("lease: Open: account was opened before")
	}
	a.pool, a.owner = p, owner
	p.mu.Lock()
	defer p.mu.Unlock()
	head := &p.accounts
	a.prev, a.next = head.prev, head
	a.prev.next, a.next.prev = a, a
}

// All yields the owner and the size of every open account, in the order in which
// they were opened. The pool is locked meanwhile: the loop must not call it or
// its accounts.
func (p *Pool) All() iter.Seq2[any, int64] {
	return func(yield func(any, int64) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for a := p.accounts.next; a != &p.accounts; a = a.next {
			if !yield(a.owner, a.used()) {
				return
			}
		}
	}
}

// Bytes returns what the accounts use and what is leased from the source, which
// is never less.
func (p *Pool) Bytes() (used, leased int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leased = p.stock
	for a := p.accounts.next; a != &p.accounts; a = a.next {
		used += a.used()
		leased += a.leased
	}
	return used, leased
}

// Recall gives all that is leased but unused back to the source and returns how
// much that was. If somebody waits, shrinking leaves nothing unused from now on,
// until nobody does.
func (p *Pool) Recall() int64 {
	p.lock()
	n := p.stock
	p.stock = 0
	for a := p.accounts.next; a != &p.accounts; a = a.next {
		n += a.drain(0)
	}
	p.mu.Unlock()
	p.give(n)
	return n
}

// Trim gives back what no one used since the Trim before, and returns how much:
// the slack of accounts where it did not change, and the stock if it did not. It
// is meant for a ticker.
func (p *Pool) Trim() int64 {
	p.lock()
	n := int64(0)
	if p.stock == p.seen {
		n, p.stock = p.stock, 0
	}
	p.seen = p.stock
	for a := p.accounts.next; a != &p.accounts; a = a.next {
		// A loop that grows and shrinks by the same amount looks idle now and
		// then. It costs that loop one call of the source a tick.
		if a.slack.Load() == a.seen {
			n += a.drain(0)
		}
		a.seen = a.slack.Load()
	}
	p.mu.Unlock()
	p.give(n)
	return n
}

// lock locks the pool for a change of what is leased.
func (p *Pool) lock() {
	p.mu.Lock()
	p.scarce = p.src.Waiting()
}

// keep returns how much may lie unused where n is the rule.
func (p *Pool) keep(n int64) int64 {
	if p.scarce {
		return 0
	}
	return n
}

// surplus takes out of the stock what is above its bound. Above a block it goes
// down to half of one, so that a caller who takes and gives a little over and over
// does not reach the source each time.
func (p *Pool) surplus() int64 {
	if p.stock <= p.keep(p.block) {
		return 0
	}
	n := p.stock - p.keep(p.block/2)
	p.stock -= n
	return n
}

func (p *Pool) give(n int64) {
	if n > 0 {
		p.src.Give(n)
	}
}

// ahead returns the bytes to ask for when n are needed.
func (p *Pool) ahead(n int64) int64 {
	if n > math.MaxInt64-p.block {
		return n
	}
	return n + p.block/2
}
