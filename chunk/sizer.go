package chunk

import (
	"fmt"
	"math/bits"
	"sync"

	"github.com/mpiguard/mpiguard/internal/level"
)

// The bounds of a Sizer, where none are given. A chunk of 1 MiB stays in the
// second-level cache of a core; larger ones read slower, and 64 KiB costs a sixth.
const (
	DefaultMinBytes = 64 << 10
	DefaultMaxBytes = 1 << 20
)

const (
	startBytes = 1 << 20
	// A chunk takes at most one part in this many of what is free, as the program
	// needs memory for what it makes of it.
	headroomParts = 4
	// So many chunks without pressure come before a larger one.
	calmSteps = 16
)

// SizerConfig bounds a Sizer.
type SizerConfig struct {
	// Account tells headroom and level; nil stands for plenty.
	Account Account
	// MinBytes and MaxBytes bound the size; 0 is DefaultMinBytes, and
	// DefaultMaxBytes or MinBytes, whichever is more. Equal values pin the size.
	MinBytes, MaxBytes int64
}

// Sizer decides how large the next chunk is. It starts at 1 MiB, or at the bound
// next to that, and is a control loop with the chunk as its step: with headroom or
// level going down the size falls at once, and with both well it doubles after a
// row of steps. Its methods are safe for concurrent use.
type Sizer struct {
	acct   Account
	limits limits

	mu    sync.Mutex
	state state
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
	if cfg.Account == nil {
		cfg.Account = unaccounted{}
	}
	return &Sizer{acct: cfg.Account, limits: l, state: l.start()}, nil
}

// Pin returns a Sizer whose size is always n bytes. It panics if n is below 1.
func Pin(n int64) *Sizer {
	if n < 1 {
		panic("chunk: Pin: size below 1")
	}
	l := limits{n, n}
	return &Sizer{acct: unaccounted{}, limits: l, state: l.start()}
}

func defaultSizer(acct Account) *Sizer {
	l := limits{DefaultMinBytes, DefaultMaxBytes}
	return &Sizer{acct: acct, limits: l, state: l.start()}
}

// Next makes a step and returns the size of the next chunk in bytes.
func (s *Sizer) Next() int64 {
	if s.limits.min == s.limits.max {
		return s.limits.min
	}
	in := readings{s.acct.HeadroomBytes(), s.acct.Level()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = s.state.next(in, s.limits)
	return s.state.bytes
}

// Bytes returns the size of the last step.
func (s *Sizer) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.bytes
}

// refused takes in that the account granted only n bytes.
func (s *Sizer) refused(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state{bytes: max(min(s.state.bytes, n), s.limits.min)}
}

// limits are the bounds of a size.
type limits struct{ min, max int64 }

func (l limits) clamp(n int64) int64 { return min(max(n, l.min), l.max) }

func (l limits) start() state { return state{bytes: l.clamp(startBytes)} }

// readings are what a step looks at. The headroom is what is left with the present
// chunk in memory.
type readings struct {
	headroomBytes int64
	level         level.Level
}

// state is a size and the steps since it could have been larger.
type state struct {
	bytes int64
	calm  int
}

// next is one step: a pure function of what was and what is read.
func (s state) next(in readings, l limits) state {
	free := max(in.headroomBytes, 0)
	if sum := free + s.bytes; sum > free {
		free = sum // the present chunk makes way for the next one
	}
	room := floorPow2(free / headroomParts)
	switch {
	case in.level >= level.Critical:
		return state{bytes: l.min}
	case in.level >= level.High:
		return state{bytes: l.clamp(min(s.bytes/2, room))}
	case room < s.bytes:
		return state{bytes: l.clamp(room)}
	case in.level > level.Normal || room/2 < s.bytes:
		return state{bytes: s.bytes}
	case s.calm+1 < calmSteps || s.bytes == l.max:
		return state{bytes: s.bytes, calm: min(s.calm+1, calmSteps)}
	default:
		return state{bytes: l.clamp(2 * s.bytes)}
	}
}

// floorPow2 returns the greatest power of two not above n, and 0 for 0: a size that
// followed the headroom byte by byte would never rest.
func floorPow2(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}
