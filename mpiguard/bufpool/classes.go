package bufpool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/level"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

// The defaults of a ClassesConfig.
const (
	DefaultMaxBytes  = 64 << 20
	DefaultIdleBytes = 64 << 20
	DefaultIdleAfter = 10 * time.Second
)

// ClassesConfig bounds what Classes keep. Zero values are defaults.
type ClassesConfig struct {
	// MaxBytes is the size above which a buffer is not kept: it is given back on
	// Release. The default is DefaultMaxBytes.
	MaxBytes int64
	// IdleBytes bounds what lies idle in all classes together. The default is
	// DefaultIdleBytes.
	IdleBytes int64
	// IdleAfter is how long a buffer lies idle before it is given back, at least; at
	// most it is twice as long. The default is DefaultIdleAfter.
	IdleAfter time.Duration
}

// Classes keeps buffers of many sizes for reuse, by classes of size. Unlike a Pool it
// holds nothing up front: a buffer is charged and made resident when it is first
// needed, and given back when it lay idle for a while, when too much lies idle, when
// the level is high, by Trim, or when somebody waits for the account. Buffers that
// MPI has seen belong into a Pool. The methods, and Release of the buffers, are safe
// for concurrent use.
//
// Many Classes may share one account: what one does not use, another can have.
type Classes struct {
	acct Account
	cfg  ClassesConfig

	mu        sync.Mutex
	idle      map[int64][]*slot // by size, the one idle longest first
	idleBytes int64
	outBytes  int64
	out       int
	waiting   int    // Gets that wait for the account
	epoch     uint64 // counts the flushes
	timer     *time.Timer
	flushes   sync.WaitGroup // counts a timer that will fire
	closed    bool
	hits      uint64
	misses    uint64
	waits     uint64
	dropped   uint64
}

// NewClasses returns Classes over acct; nil charges nothing. The caller closes them.
func NewClasses(acct Account, cfg ClassesConfig) (*Classes, error) {
	if acct == nil {
		acct = unaccounted{}
	}
	for _, f := range []struct {
		name string
		v    *int64
		zero int64
	}{
		{"MaxBytes", &cfg.MaxBytes, DefaultMaxBytes},
		{"IdleBytes", &cfg.IdleBytes, DefaultIdleBytes},
		{"IdleAfter", (*int64)(&cfg.IdleAfter), int64(DefaultIdleAfter)},
	} {
		switch {
		case *f.v < 0:
			return nil, fmt.Errorf("bufpool: ClassesConfig.%s is %d, must not be negative", f.name, *f.v)
		case *f.v == 0:
			*f.v = f.zero
		}
	}
	return &Classes{acct: acct, cfg: cfg, idle: map[int64][]*slot{}}, nil
}

// sizeOf returns the memory that a buffer of n bytes takes: whole pages, and of
// those, for n up to MaxBytes, four to seven or eight times a power of two, so that
// buffers of about one size serve for each other and at most a quarter is wasted.
func (c *Classes) sizeOf(n int64) int64 {
	pages := offheap.RoundUp(n, offheap.PageBytes)
	if n > c.cfg.MaxBytes {
		return pages
	}
	return min(offheap.RoundUp(pages, 1<<max(bits.Len64(uint64(pages-1))-3, 0)), offheap.RoundUp(c.cfg.MaxBytes, offheap.PageBytes))
}

// Get returns a buffer of n bytes. Where none of about that size is idle, it takes
// memory from the account, for which it waits until ctx ends. On an error nothing
// has changed.
func (c *Classes) Get(ctx context.Context, n int64) (*Buffer, error) {
	return c.GetUpTo(ctx, n, n)
}

// GetUpTo returns a buffer of most bytes, or of half of that, and so on down to
// least, whichever is to be had now, idle or from the account. It waits for least
// alone.
func (c *Classes) GetUpTo(ctx context.Context, least, most int64) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if least > most {
		return nil, fmt.Errorf("bufpool: a buffer of %d bytes at least and %d at most", least, most)
	}
	for n := most; ; n = max(n/2, least) {
		b, err := c.TryGet(n)
		switch {
		case err == nil, errors.Is(err, ErrClosed), errors.Is(err, errSize):
			return b, err
		case n == least:
			return c.wait(ctx, n)
		}
	}
}

var errSize = errors.New("bufpool: impossible size")

// TryGet is Get for those who cannot wait: the error is that of the account.
func (c *Classes) TryGet(n int64) (*Buffer, error) {
	if n < 1 || n > offheap.MaxBytes/2 {
		return nil, fmt.Errorf("%w: %d bytes", errSize, n)
	}
	size := c.sizeOf(n)
	b, err := c.take(n, size)
	if b != nil || err != nil {
		return b, err
	}
	for err = c.acct.TryGrow(size); err != nil && c.Trim(size) > 0; {
		err = c.acct.TryGrow(size)
	}
	if err != nil {
		return nil, fmt.Errorf("bufpool: buffer of %d bytes: %w", n, err)
	}
	return c.alloc(n, size)
}

// wait takes memory for n bytes from the account when there is so much. What is
// released meanwhile is not kept, so that it comes to those who wait.
func (c *Classes) wait(ctx context.Context, n int64) (*Buffer, error) {
	size := c.sizeOf(n)
	c.mu.Lock()
	c.waiting++
	c.waits++
	c.mu.Unlock()
	c.Trim(math.MaxInt64)
	err := c.acct.Grow(ctx, size)
	c.mu.Lock()
	c.waiting--
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("bufpool: buffer of %d bytes: %w", n, err)
	}
	return c.alloc(n, size)
}

// take hands out an idle buffer of that size, if there is one.
func (c *Classes) take(n, size int64) (*Buffer, error) {
	c.mu.Lock()
	stack := c.idle[size]
	if c.closed || len(stack) == 0 {
		c.misses++
		closed := c.closed
		c.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		return nil, nil
	}
	s := stack[len(stack)-1]
	c.idle[size] = stack[:len(stack)-1]
	s.idle = false
	c.idleBytes -= size
	c.outBytes += size
	c.out++
	c.hits++
	c.mu.Unlock()
	s.bytes = n
	return s.hand(), nil
}

// alloc makes a buffer of size bytes, which is charged already.
func (c *Classes) alloc(n, size int64) (*Buffer, error) {
	mem, err := allocate(c.acct, size, false)
	if err != nil {
		c.acct.Shrink(size)
		return nil, fmt.Errorf("bufpool: buffer of %d bytes: %w", n, err)
	}
	s := &slot{home: c, bytes: n, mem: mem}
	s.reused.slot = s
	c.mu.Lock()
	c.out++
	c.outBytes += size
	c.mu.Unlock()
	return s.hand(), nil
}

func (c *Classes) release(b *Buffer) {
	s := b.slot
	if !s.takeBack(b) {
		panic("bufpool: Release of a buffer that is not out")
	}
	high := c.acct.Level() >= level.High
	size := int64(len(s.mem))
	c.mu.Lock()
	if s.idle || s.mem == nil {
		c.mu.Unlock()
		panic("bufpool: Release of a buffer that is not out")
	}
	invariants.Poison(s.mem)
	c.out--
	c.outBytes -= size
	if high || c.closed || c.waiting > 0 || size > c.cfg.MaxBytes || size > c.cfg.IdleBytes-c.idleBytes {
		c.dropped++
		mem := s.mem
		s.mem = nil
		c.mu.Unlock()
		unmap(c.acct, mem)
		return
	}
	s.idle, s.epoch = true, c.epoch
	c.idle[size] = append(c.idle[size], s)
	c.idleBytes += size
	c.schedule()
	c.mu.Unlock()
}

// schedule sees to it that what is idle now is flushed some time. The lock is held.
func (c *Classes) schedule() {
	if c.timer != nil || c.idleBytes == 0 || c.closed {
		return
	}
	c.flushes.Add(1)
	c.timer = time.AfterFunc(c.cfg.IdleAfter, func() {
		defer c.flushes.Done()
		c.mu.Lock()
		mems := c.strip(func(s *slot) bool { return s.epoch < c.epoch })
		c.epoch++
		c.timer = nil
		c.schedule()
		c.mu.Unlock()
		c.free(mems)
	})
}

// strip takes idle buffers out, of each class those that are idle longest, while
// they are chosen, and returns their memory. The lock is held.
func (c *Classes) strip(chosen func(*slot) bool) [][]byte {
	var mems [][]byte
	for size, stack := range c.idle {
		n := 0
		for n < len(stack) && chosen(stack[n]) {
			s := stack[n]
			mems = append(mems, s.mem)
			c.idleBytes -= size
			s.mem, s.idle = nil, false
			n++
		}
		if c.idle[size] = slices.Delete(stack, 0, n); n == len(stack) {
			delete(c.idle, size)
		}
	}
	c.dropped += uint64(len(mems))
	return mems
}

// free gives memory back. No lock is held.
func (c *Classes) free(mems [][]byte) (freedBytes int64) {
	for _, mem := range mems {
		unmap(c.acct, mem)
		freedBytes += int64(len(mem))
	}
	return freedBytes
}

// Trim gives idle buffers back until that is wantBytes or more, and returns how much
// it is. It fits RegisterReclaim of a guard.
func (c *Classes) Trim(wantBytes int64) (freedBytes int64) {
	c.mu.Lock()
	mems := c.strip(func(s *slot) bool {
		if wantBytes <= 0 {
			return false
		}
		wantBytes -= int64(len(s.mem))
		return true
	})
	c.mu.Unlock()
	return c.free(mems)
}

// ClassStats are the figures of Classes at one moment.
type ClassStats struct {
	Out       int    // buffers from Get to Release
	OutBytes  int64  // their memory
	IdleBytes int64  // memory of those that are kept
	Hits      uint64 // Gets that took an idle buffer
	Misses    uint64 // Gets that did not, those that were refused included
	Waits     uint64 // Gets that had to wait for the account
	Dropped   uint64 // buffers given back to the account
}

// Stats returns the figures of now. OutBytes and IdleBytes together are what is
// charged to the account.
func (c *Classes) Stats() ClassStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ClassStats{c.out, c.outBytes, c.idleBytes, c.hits, c.misses, c.waits, c.dropped}
}

// Close gives all idle buffers back. Get then returns ErrClosed, and the memory of a
// buffer that is out goes with its Release. Close may be called again; each time it
// returns an error that says how much is still out, or nil.
func (c *Classes) Close() error {
	c.mu.Lock()
	c.closed = true
	mems := c.strip(func(*slot) bool { return true })
	if c.timer != nil && c.timer.Stop() {
		c.flushes.Done()
	}
	c.timer = nil
	var err error
	if c.out > 0 {
		err = fmt.Errorf("bufpool: closed with %d buffers of %d bytes out", c.out, c.outBytes)
	}
	c.mu.Unlock()
	c.free(mems)
	c.flushes.Wait()
	return err
}
