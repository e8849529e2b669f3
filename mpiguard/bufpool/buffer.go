package bufpool

import (
	"runtime/debug"

	"github.com/mpiguard/mpiguard/internal/invariants"
)

// Buffer is a buffer that is out of its pool. It belongs to one owner at a time,
// from Get to Release.
type Buffer struct {
	slot *slot
	site []byte // the stack of the Get, when invariants are on
}

// Bytes returns the memory of the buffer. Its contents are undefined after Get.
// It must not be used after Release.
func (b *Buffer) Bytes() []byte {
	return b.slot.mem[:b.slot.pool.cfg.BufferBytes:b.slot.pool.cfg.BufferBytes]
}

// Release puts the buffer back, or hands it to the Get that waits longest. It
// panics when the buffer is not out.
func (b *Buffer) Release() { b.slot.pool.release(b) }

// slot is the place of one buffer in a pool. All but pool and index are guarded
// by pool.mu, and mem belongs to the holder while there is one.
type slot struct {
	pool   *Pool
	index  int
	mem    []byte  // nil when trimmed
	holder *Buffer // nil when idle or trimmed
	reused Buffer
}

// hand makes s belong to a new holder. Without invariants that is the same Buffer
// every time; with them a fresh one, so that a stale one is told from it.
func (s *slot) hand() *Buffer {
	s.holder = &s.reused
	if invariants.Enabled {
		s.holder = &Buffer{slot: s, site: debug.Stack()}
	}
	return s.holder
}
