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
//
// A slot is idle (its bit is set in the idle set), out (with a holder), trimmed
// (without memory), or on its way between these with the pool locked or asked for
// by regrow. One slot at least is idle or out until Close.
type Pool struct {
	acct   Account
	cfg    Config
	stride int64 // memory of one buffer
	slots  []slot
	idle   idleSet // opened to all while nobody waits and the pool is not closed

	mu       sync.Mutex
	resident int // slots with memory
	trimmed  []*slot
	waiters  []chan *Buffer // the longest waiting first
	waits    uint64
	trims    uint64
	closed   bool
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
		acct = unaccounted{}
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
		idle:    newIdleSet(cfg.Buffers),
		trimmed: make([]*slot, 0, cfg.Buffers),
	}
	for i := range p.slots {
		s := &p.slots[i]
		s.home, s.index, s.bytes, s.reused.slot = p, i, cfg.BufferBytes, s
		if err = ctx.Err(); err == nil {
			s.mem, err = allocate(acct, stride, cfg.HugePages)
		}
		if err != nil {
			for j := range i {
				unmap(acct, p.slots[j].mem)
			}
			acct.Shrink(total - int64(i)*stride)
			return nil, fmt.Errorf("bufpool: buffer %d of %d: %w", i, cfg.Buffers, err)
		}
		p.idle.add(i)
		p.resident++
	}
	return p, nil
}

// Get takes a buffer out of the pool. When all are out it waits for one, behind
// those who wait already, until ctx ends (the error is then ctx.Err()) or the pool
// is closed (ErrClosed). It does not wait for the account: a buffer that was
// trimmed comes back when there is headroom for it, and Trim leaves one.
func (p *Pool) Get(ctx context.Context) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if i := p.idle.take(); i >= 0 {
		return p.slots[i].hand(), nil
	}
	return p.wait(ctx)
}

func (p *Pool) wait(ctx context.Context) (*Buffer, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	// From now on a Release comes to us; what came just before is idle.
	p.idle.shut()
	if i := p.idle.takeShut(); i >= 0 {
		p.reopen()
		p.mu.Unlock()
		return p.slots[i].hand(), nil
	}
	ready := make(chan *Buffer, 1)
	p.waiters = append(p.waiters, ready)
	p.waits++
	p.mu.Unlock()
	_ = p.regrow() // serves the one who waits longest

	select {
	case b := <-ready:
		return served(b)
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.waiters, ready)
	if i < 0 { // served at the last moment
		p.mu.Unlock()
		return served(<-ready)
	}
	p.waiters = slices.Delete(p.waiters, i, i+1)
	p.reopen()
	p.mu.Unlock()
	return nil, ctx.Err()
}

// served returns what a waiter got: nil when the pool was closed.
func served(b *Buffer) (*Buffer, error) {
	if b == nil {
		return nil, ErrClosed
	}
	return b, nil
}

// reopen lets everybody at the idle slots when nobody waits. The pool is locked.
func (p *Pool) reopen() {
	if len(p.waiters) == 0 && !p.closed {
		p.idle.open()
	}
}

// TryGet takes a buffer out of the pool without waiting. When all are out, or
// some wait already, the error is ErrEmpty. When what is left was trimmed and the
// account refuses it, the error is also that of the account.
func (p *Pool) TryGet() (*Buffer, error) {
	for {
		if i := p.idle.take(); i >= 0 {
			return p.slots[i].hand(), nil
		}
		p.mu.Lock()
		closed, wait, refill := p.closed, len(p.waiters) > 0, len(p.trimmed) > 0
		p.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case wait || !refill:
			return nil, ErrEmpty
		}
		if err := p.regrow(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEmpty, err)
		}
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

	var mem []byte
	err := p.acct.TryGrow(p.stride)
	if err == nil {
		if mem, err = allocate(p.acct, p.stride, p.cfg.HugePages); err != nil {
			p.acct.Shrink(p.stride)
		}
	}
	p.mu.Lock()
	if err != nil {
		p.trimmed = append(p.trimmed, s)
		p.mu.Unlock()
		return err
	}
	s.mem = mem
	p.resident++
	p.put(s)
	return nil
}

func (p *Pool) release(b *Buffer) {
	s := b.slot
	if s.mem == nil || !s.takeBack(b) {
		panicNotOut(s)
	}
	invariants.Poison(s.mem)
	switch p.idle.tryAdd(s.index) {
	case added:
	case present:
		panicNotOut(s)
	case isShut:
		p.mu.Lock()
		p.put(s)
	}
}

func panicNotOut(s *slot) {
	panic(fmt.Sprintf("bufpool: Release of buffer %d, which is not out", s.index))
}

// put gives a resident slot to the one who waits longest, to the idle ones, or,
// when the pool is closed, back to the kernel. It unlocks the pool.
func (p *Pool) put(s *slot) {
	var mem []byte
	switch {
	case p.closed:
		mem = p.strip(s)
	case len(p.waiters) > 0:
		ready := p.waiters[0]
		p.waiters = slices.Delete(p.waiters, 0, 1)
		p.reopen()
		ready <- s.hand()
	default:
		p.idle.add(s.index)
	}
	p.mu.Unlock()
	if mem != nil {
		unmap(p.acct, mem)
	}
}

// strip takes the memory of a slot that is neither idle nor out. The pool is
// locked.
func (p *Pool) strip(s *slot) []byte {
	mem := s.mem
	s.mem = nil
	p.resident--
	p.trimmed = append(p.trimmed, s)
	return mem
}

// Trim gives the memory of idle buffers back until it is wantBytes or more, and
// returns how much it is. It fits RegisterReclaim of a guard. One buffer stays if
// none is out, so that a Get never has to wait for anything but a Release. The
// buffers come back one by one, as they are needed and the account grants them. A
// pool with Config.ForMPI is never trimmed.
func (p *Pool) Trim(wantBytes int64) (freedBytes int64) {
	if p.cfg.ForMPI {
		return 0
	}
	var mems [][]byte
	p.mu.Lock()
	for p.resident > 1 && int64(len(mems))*p.stride < wantBytes {
		i := p.idle.take()
		if i < 0 {
			break
		}
		mems = append(mems, p.strip(&p.slots[i]))
	}
	p.trims += uint64(len(mems))
	p.mu.Unlock()
	for _, mem := range mems {
		unmap(p.acct, mem)
	}
	return int64(len(mems)) * p.stride
}

// Stats are the figures of a pool. Those of a pool in use are of about one moment.
type Stats struct {
	Buffers       int    // in the pool, wherever they are
	Idle          int    // resident and free
	Out           int    // from Get to Release
	Trimmed       int    // without memory
	Waiting       int    // calls of Get that wait
	ResidentBytes int64  // charged to the account: idle and out
	Waits         uint64 // calls of Get that had to wait, since New
	Trims         uint64 // buffers that Trim took the memory of, since New
}

// Stats returns the figures of now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle.len()
	return Stats{
		Buffers:       len(p.slots),
		Idle:          idle,
		Out:           p.resident - idle,
		Trimmed:       len(p.slots) - p.resident,
		Waiting:       len(p.waiters),
		ResidentBytes: int64(p.resident) * p.stride,
		Waits:         p.waits,
		Trims:         p.trims,
	}
}

// Close gives the memory of all idle buffers back; every Get that waits, and
// every later one, returns ErrClosed. The memory of a buffer that is still out
// goes with its Release. Close may be called again; each time it returns an error
// that names the buffers still out, or nil.
func (p *Pool) Close() error {
	var mems [][]byte
	p.mu.Lock()
	p.closed = true
	p.idle.shut()
	for i := p.idle.takeShut(); i >= 0; i = p.idle.takeShut() {
		mems = append(mems, p.strip(&p.slots[i]))
	}
	for _, ready := range p.waiters {
		ready <- nil
	}
	p.waiters = nil
	err := p.leaked()
	p.mu.Unlock()
	for _, mem := range mems {
		unmap(p.acct, mem)
	}
	return err
}

// leaked returns an error that names the buffers that are out. The pool is locked
// and closed, so that what is resident is out.
func (p *Pool) leaked() error {
	if p.resident == 0 {
		return nil
	}
	var names []string
	var sites strings.Builder
	for i := range p.slots {
		s := &p.slots[i]
		if s.mem == nil {
			continue
		}
		names = append(names, fmt.Sprint(i))
		if b := s.holder.Load(); b != nil {
			fmt.Fprintf(&sites, "\nbuffer %d was taken here:\n%s", i, b.site)
		}
	}
	return fmt.Errorf("bufpool: closed with %d of %d buffers out: %s%s", len(names), len(p.slots), strings.Join(names, ", "), sites.String())
}
