package bufpool

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

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
func (b *Buffer) Bytes() []byte { return b.slot.mem[:b.slot.bytes:b.slot.bytes] }

// Release puts the buffer back, or hands it to a Get that waits. It panics when the
// buffer is not out.
func (b *Buffer) Release() { b.slot.home.release(b) }

// slot is the place of one buffer. Its memory belongs to whoever took it out of the
// idle ones.
type slot struct {
	home   interface{ release(*Buffer) }
	index  int    // in a Pool
	bytes  int64  // the length of the buffer
	mem    []byte // whole pages, nil when trimmed
	reused Buffer
	holder atomic.Pointer[Buffer] // kept when invariants are on

	idle  bool   // in Classes
	epoch uint64 // in Classes: when it was put back
}

// hand makes s, taken out of the idle set, belong to a new holder. Without
// invariants that is the same Buffer every time, and with them a fresh one, so that
// a stale one is told from it.
func (s *slot) hand() *Buffer {
	if !invariants.Enabled {
		return &s.reused
	}
	if !invariants.Poisoned(s.mem) {
		panic(fmt.Sprintf("bufpool: buffer %d was written after its Release", s.index))
	}
	b := &Buffer{slot: s, site: debug.Stack()}
	s.holder.Store(b)
	return b
}

// takeBack ends the use of s by b and reports whether b was the holder, as far as
// that is known.
func (s *slot) takeBack(b *Buffer) bool {
	return !invariants.Enabled || s.holder.CompareAndSwap(b, nil)
}
