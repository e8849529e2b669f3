package chunk

import (
	"fmt"
	"sync"
)

// The bounds of a Sizer, where none are given. A chunk of 1 MiB stays in the
// second-level cache of a core; larger ones read slower, and 64 KiB costs a sixth.
const (
	DefaultMinBytes = 64 << 10
	DefaultMaxBytes = 1 << 20
)

const startBytes = 1 << 20

// SizerConfig bounds a Sizer.
type SizerConfig struct {
	// Account tells headroom and level; nil stands for plenty.
	Account Account
	// MinBytes and MaxBytes bound the size; 0 is DefaultMinBytes, and
	// DefaultMaxBytes or MinBytes, whichever is more. Equal values pin the size. A
	// MaxBytes above the default pays for programs that do something once for each
	// chunk, such as a collective.
	MinBytes, MaxBytes int64
}

// Sizer decides how large the next chunk is. Its methods are safe for concurrent
// use.
//
// It is a control loop whose step is a chunk. What it controls is the size. What it
// looks at before each chunk is the headroom and the level of the account, and the
// private memory of the process, from which it learns what a byte of input costs:
// how much the memory grew, in the first steps with a size, for each byte of it.
// Memory that grows later, with chunks no larger than before, is the program's own
// and not the price of a chunk. What one chunk uses, the next can use again; so
//
//	room = (3/4 of the headroom + memory that came with the chunks) / cost of a byte
//
// is the largest chunk that fits, and the rules are, the first that applies:
//
//   - critical: the minimum
//   - high: half, or room if that is less; once, and again if the headroom falls by
//     another sixteenth
//   - a size above room: room, at once
//   - elevated: no change
//   - room for a quarter more at least, after 16 steps in a row like that: as much as
//     there is room for, but at most half as much again
//
// The size starts at 1 MiB, or at the bound next to that; a byte costs four until
// more is known; and sizes are rounded down to quarters of a power of two, so that
// small moves of the headroom change nothing. Memory that is taken and given back
// within one step is seen only as far as the process keeps it, as Go does.
type Sizer struct {
	acct   Account
	limits limits
	memory func() int64 // private memory of the process; nil when it does not matter

	mu    sync.Mutex
	state state
	limit int64 // from Limit, or 0
}

// NewSizer returns a Sizer.
func NewSizer(cfg SizerConfig) (*Sizer, error) {
	if cfg.MinBytes < 0 {
		return nil, fmt.Errorf("chunk: SizerConfig.MinBytes is %d, must not be negative", cfg.MinBytes)
	}
	if cfg.MaxBytes < 0 {
		return nil, fmt.Errorf("chunk: SizerConfig.MaxBytes is %d, must not be negative", cfg.MaxBytes)
	}
	l := limits{cfg.MinBytes, cfg.MaxBytes}
	if l.max == 0 {
		l.max = max(DefaultMaxBytes, l.min)
	}
	if l.min == 0 {
		l.min = min(DefaultMinBytes, l.max)
	}
	if l.max < l.min {
		return nil, fmt.Errorf("chunk: SizerConfig.MaxBytes is %d, below MinBytes, %d", l.max, l.min)
	}
	return newSizer(cfg.Account, l), nil
}

// Pin returns a Sizer whose size is always n bytes. It panics if n is below 1.
func Pin(n int64) *Sizer {
	if n < 1 {
		panic("chunk: Pin: size below 1")
	}
	return newSizer(nil, limits{n, n})
}

func newSizer(acct Account, l limits) *Sizer {
	s := &Sizer{acct: acct, limits: l, state: l.start(), memory: privateBytes}
	if acct == nil {
		s.acct, s.memory = unaccounted{}, nil
	}
	return s
}

// unpressed is the Sizer over no account.
var unpressed = Pin(DefaultMaxBytes)

func defaultSizer(acct Account) *Sizer {
	if acct == nil {
		return unpressed
	}
	return newSizer(acct, limits{DefaultMinBytes, DefaultMaxBytes})
}

// Next makes a step and returns the size of the next chunk in bytes.
func (s *Sizer) Next() int64 {
	if s.limits.min == s.limits.max {
		return s.limits.min
	}
	in := readings{headroomBytes: s.acct.HeadroomBytes(), level: s.acct.Level(), usedBytes: unknownBytes}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory != nil && s.state.wantsUsed() {
		in.usedBytes = s.memory()
	}
	s.state = s.state.next(in, s.limits)
	if s.limit > 0 {
		return min(s.state.bytes, s.limit)
	}
	return s.state.bytes
}

// Bytes returns the size of the last step, without regard to Limit.
func (s *Sizer) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.bytes
}

// Cost returns how many bytes of memory one byte of input costs, as far as that is
// known: 0 until the first chunks were worked on.
func (s *Sizer) Cost() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.cost
}

// Limit bounds the sizes from now on: Next returns n at most, also where that is
// below the minimum, until Limit is called again; 0 lifts it. Ranks whose chunks
// shall be of one size agree on the least of their sizes, now and then:
//
//	least := []uint64{uint64(sizer.Bytes())}
//	err := comm.AllreduceUint64(ctx, least, least, mpiguard.OpMin)
//	sizer.Limit(int64(least[0]))
//
// It panics if n is negative. A pinned size has no other limit.
func (s *Sizer) Limit(n int64) {
	if n < 0 {
		panic("chunk: Limit: negative size")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
}

// refused takes in that the account granted only n bytes.
func (s *Sizer) refused(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = s.state.resized(max(min(s.state.bytes, n), s.limits.min))
}
