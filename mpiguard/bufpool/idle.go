package bufpool

import (
	"math/bits"
	"sync/atomic"
)

// idleSet is the set of idle slots: a bit for each. Taking one and putting it back
// is one atomic operation each, half of what a mutex costs. While the set is shut,
// take and tryAdd leave it alone, so that those who hold the lock of the pool can
// keep an order among those who wait.
type idleSet []atomic.Uint64

const (
	shutBit     = 1 << 63
	bitsPerWord = 63
)

func newIdleSet(n int) idleSet { return make(idleSet, (n+bitsPerWord-1)/bitsPerWord) }

// take removes the lowest slot, which is the one most often used, and returns it,
// or -1 if the set is empty or shut.
func (s idleSet) take() int {
	for i := range s {
		w := &s[i]
		for {
			old := w.Load()
			if old == 0 || old&shutBit != 0 {
				break
			}
			if w.CompareAndSwap(old, old&(old-1)) {
				return i*bitsPerWord + bits.TrailingZeros64(old)
			}
		}
	}
	return -1
}

// takeShut is take for a set that is shut.
func (s idleSet) takeShut() int {
	for i := range s {
		if old := s[i].Load() &^ shutBit; old != 0 {
			s[i].Store(old&(old-1) | shutBit)
			return i*bitsPerWord + bits.TrailingZeros64(old)
		}
	}
	return -1
}

// The outcomes of tryAdd.
const (
	added = iota
	present
	isShut
)

// tryAdd adds a slot if the set is not shut.
func (s idleSet) tryAdd(slot int) int {
	w, bit := &s[slot/bitsPerWord], uint64(1)<<(slot%bitsPerWord)
	for {
		switch old := w.Load(); {
		case old&bit != 0:
			return present
		case old&shutBit != 0:
			return isShut
		case w.CompareAndSwap(old, old|bit):
			return added
		}
	}
}

// add adds a slot whether or not the set is shut.
func (s idleSet) add(slot int) {
	s[slot/bitsPerWord].Or(1 << (slot % bitsPerWord))
}

func (s idleSet) shut() {
	for i := range s {
		s[i].Or(shutBit)
	}
}

func (s idleSet) open() {
	for i := range s {
		s[i].And(^uint64(shutBit))
	}
}

// len returns the number of slots in the set.
func (s idleSet) len() int {
	n := 0
	for i := range s {
		n += bits.OnesCount64(s[i].Load() &^ shutBit)
	}
	return n
}
