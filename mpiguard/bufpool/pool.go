// Package bufpool keeps buffers of one size that are allocated, resident and paid
// for before they are needed.
//
// The memory is mapped outside the Go heap: the garbage collector neither drops,
// moves nor scans it, and it does not count for GOGC or GOMEMLIMIT. It is charged
// to an Account before it is mapped, so that a pool that does not fit is an error
// at the start and not a kill in the middle.
//
// Memory is placed on the NUMA node of the thread that touches it first, which
// here is the one that calls New. A program that cares makes a pool for each
// thread, on that thread.
//
// With -race or -tags invariants, a buffer is filled with 0xdb on Release, a
// write after Release panics at the next Get, a Release by someone who is no
// longer the owner panics, and Close shows where the buffers that are still out
// were taken.
package bufpool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

// The errors that callers tell apart with errors.Is.
var (
	// ErrClosed: the pool was closed.
	ErrClosed = errors.New("bufpool: pool is closed")
	// ErrEmpty: all buffers are out.
	ErrEmpty = errors.New("bufpool: all buffers are out")
)

// Pool is a fixed number of buffers of one size. Its methods, and Release of its
// buffers, are safe for concurrent use.
type Pool struct {
	acct   Account
	cfg    Config
	stride int64 // memory of one buffer
	slots  []slot

	mu      sync.Mutex
	idle    []*slot // resident; a stack, so that warm memory is reused first
	trimmed []*slot
	waiters []chan *Buffer // the longest waiting first
	out     int
	gets    uint64
	waits   uint64
	closed  bool
}

// New returns a pool whose buffers are all resident. It charges them to acct,
// waiting for headroom until ctx ends; a nil acct charges nothing. On an error
// nothing is kept. The caller closes the pool.
func New(ctx context.Context, acct Account, cfg Config) (*Pool, error) {
	stride, err := cfg.stride()
	if err != nil {
		return nil, err
	}
	if acct == nil {
		acct = offheap.Unaccounted{}
	}
	total := stride * int64(cfg.Buffers)
	if err := acct.Grow(ctx, total); err != nil {
		return nil, fmt.Errorf("bufpool: %d buffers of %d bytes: %w", cfg.Buffers, cfg.BufferBytes, err)
	}
	p := &Pool{
		acct:    acct,
		cfg:     cfg,
		stride:  stride,
		slots:   make([]slot, cfg.Buffers),
		idle:    make([]*slot, 0, cfg.Buffers),
		trimmed: make([]*slot, 0, cfg.Buffers),
	}
	for i := range p.slots {
		s := &p.slots[i]
		s.pool, s.index, s.reused.slot = p, i, s
		if err = ctx.Err(); err == nil {
			err = p.mapSlot(s)
		}
		if err != nil {
			for _, s := range p.idle {
				p.free(s.mem)
			}
			acct.Shrink(int64(cfg.Buffers-len(p.idle)) * stride)
			return nil, fmt.Errorf("bufpool: buffer %d of %d: %w", i, cfg.Buffers, err)
		}
		p.idle = append(p.idle, s)
	}
	return p, nil
}

// mapSlot makes the memory of s, which is charged already, resident.
func (p *Pool) mapSlot(s *slot) error {
	mem, err := offheap.Map(p.stride, p.cfg.HugePages)
	if err != nil {
		return err
	}
	if err := offheap.Populate(mem); err != nil {
		_ = offheap.Unmap(mem)
		return err
	}
	invariants.Poison(mem)
	offheap.Commit(p.acct, p.stride)
	s.mem = mem
	return nil
}

// free gives memory that was taken out of its slot back to the kernel and to the
// account. The pool is not locked, so that the account may do what it likes.
func (p *Pool) free(mem []byte) {
	_ = offheap.Unmap(mem) // fails for an address that is not ours alone
	offheap.Commit(p.acct, -p.stride)
	p.acct.Shrink(p.stride)
}

// Get takes a buffer out of the pool. When all are out it waits for one, behind
// those who wait already, until ctx ends (the error is then ctx.Err()) or the pool
// is closed (ErrClosed). It does not wait for the account: a buffer that was
// trimmed comes back when there is headroom for it, and Trim leaves one.
func (p *Pool) Get(ctx context.Context) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	b, err := p.tryGet()
	if err != ErrEmpty {
		p.mu.Unlock()
		return b, err
	}
	ready := make(chan *Buffer, 1)
	p.waiters = append(p.waiters, ready)
	p.waits++
	p.mu.Unlock()
	_ = p.regrow() // serves the one who waits longest

	select {
	case b := <-ready:
		if b == nil {
			return nil, ErrClosed
		}
		return b, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	if i := slices.Index(p.waiters, ready); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
		p.mu.Unlock()
		return nil, ctx.Err()
	}
	p.mu.Unlock()
	if b := <-ready; b != nil { // served at the last moment
		return b, nil
	}
	return nil, ErrClosed
}

// TryGet takes a buffer out of the pool without waiting. When all are out, or
// some wait already, the error is ErrEmpty. When what is left was trimmed and the
// account refuses it, the error is also that of the account.
func (p *Pool) TryGet() (*Buffer, error) {
	for {
		p.mu.Lock()
		b, err := p.tryGet()
		refill := err == ErrEmpty && len(p.trimmed) > 0 && len(p.waiters) == 0
		p.mu.Unlock()
		if !refill {
			return b, err
		}
		if err := p.regrow(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEmpty, err)
		}
	}
}

// tryGet hands out an idle buffer. The pool is locked.
func (p *Pool) tryGet() (*Buffer, error) {
	switch n := len(p.idle); {
	case p.closed:
		return nil, ErrClosed
	case n == 0: // so it is while somebody waits
		return nil, ErrEmpty
	default:
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if !invariants.Poisoned(s.mem) {
			p.mu.Unlock()
			panic(fmt.Sprintf("bufpool: buffer %d was written after its Release", s.index))
		}
		return p.hand(s), nil
	}
}

// regrow makes one trimmed buffer resident and puts it into the pool, if there is
// one and the account grants it now. The pool is not locked while the account is
// asked, which may trim this very pool.
func (p *Pool) regrow() error {
	p.mu.Lock()
	n := len(p.trimmed)
	if n == 0 || p.closed {
		p.mu.Unlock()
		return nil
	}
	s := p.trimmed[n-1]
	p.trimmed = p.trimmed[:n-1]
	p.mu.Unlock()

	err := p.acct.TryGrow(p.stride)
	if err == nil {
		if err = p.mapSlot(s); err != nil {
			p.acct.Shrink(p.stride)
		}
	}
	p.mu.Lock()
	if err != nil {
		p.trimmed = append(p.trimmed, s)
		p.mu.Unlock()
		return err
	}
	p.put(s)
	return nil
}

func (p *Pool) release(b *Buffer) {
	s := b.slot
	p.mu.Lock()
	if s.holder != b {
		p.mu.Unlock()
		panic(fmt.Sprintf("bufpool: Release of buffer %d, which is not out", s.index))
	}
	s.holder = nil
	p.out--
	invariants.Poison(s.mem)
	p.put(s)
}

// hand gives an idle slot to a new holder. The pool is locked.
func (p *Pool) hand(s *slot) *Buffer {
	p.gets++
	p.out++
	return s.hand()
}

// put gives a resident slot to the one who waits longest, to the idle ones, or,
// when the pool is closed, back to the kernel. It unlocks the pool.
func (p *Pool) put(s *slot) {
	var mem []byte
	switch {
	case p.closed:
		mem, s.mem = s.mem, nil
		p.trimmed = append(p.trimmed, s)
	case len(p.waiters) > 0:
		ready := p.waiters[0]
		p.waiters = slices.Delete(p.waiters, 0, 1)
		ready <- p.hand(s)
	default:
		p.idle = append(p.idle, s)
	}
	p.mu.Unlock()
	if mem != nil {
		p.free(mem)
	}
}

// Trim gives the memory of idle buffers back, and returns how many bytes that
// were. One buffer stays if none is out, so that a Get never has to wait for
// anything but a Release. The buffers come back one by one, as they are needed
// and the account grants them. A pool with Config.ForMPI is never trimmed.
func (p *Pool) Trim() int64 {
	p.mu.Lock()
	var mems [][]byte
	if !p.cfg.ForMPI {
		keep := 0
		if p.out == 0 {
			keep = min(1, len(p.idle))
		}
		mems = p.strip(len(p.idle) - keep)
	}
	p.mu.Unlock()
	for _, mem := range mems {
		p.free(mem)
	}
	return int64(len(mems)) * p.stride
}

// strip takes the memory of the n slots that are idle longest. The pool is locked.
func (p *Pool) strip(n int) [][]byte {
	mems := make([][]byte, n)
	for i, s := range p.idle[:n] {
		mems[i], s.mem = s.mem, nil
	}
	p.trimmed = append(p.trimmed, p.idle[:n]...)
	p.idle = slices.Delete(p.idle, 0, n)
	return mems
}

// Stats are the figures of a pool at one moment.
type Stats struct {
	Buffers       int    // in the pool, wherever they are
	Out           int    // from Get to Release
	Idle          int    // resident and free
	Trimmed       int    // without memory
	Waiting       int    // calls of Get that wait
	ResidentBytes int64  // charged to the account: idle and out
	Gets          uint64 // buffers handed out since New
	Waits         uint64 // calls of Get that had to wait since New
}

// Stats returns the figures of now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Buffers: len(p.slots),
		Out:     p.out,
		Idle:    len(p.idle),
		Trimmed: len(p.trimmed),
		Waiting: len(p.waiters),
		Gets:    p.gets,
		Waits:   p.waits,

		ResidentBytes: int64(len(p.idle)+p.out) * p.stride,
	}
}

// Close gives the memory of all idle buffers back; every Get that waits, and
// every later one, returns ErrClosed. The memory of a buffer that is still out
// goes with its Release. Close may be called again; each time it returns an error
// that names the buffers still out, or nil.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	mems := p.strip(len(p.idle))
	for _, ready := range p.waiters {
		ready <- nil
	}
	p.waiters = nil
	err := p.leaked()
	p.mu.Unlock()
	for _, mem := range mems {
		p.free(mem)
	}
	return err
}

// leaked returns an error that names the buffers that are out. The pool is locked.
func (p *Pool) leaked() error {
	if p.out == 0 {
		return nil
	}
	var names []string
	var sites strings.Builder
	for i := range p.slots {
		if b := p.slots[i].holder; b != nil {
			names = append(names, fmt.Sprint(i))
			if b.site != nil {
				fmt.Fprintf(&sites, "\nbuffer %d was taken here:\n%s", i, b.site)
			}
		}
	}
	return fmt.Errorf("bufpool: closed with %d of %d buffers out: %s%s", len(names), len(p.slots), strings.Join(names, ", "), sites.String())
}
