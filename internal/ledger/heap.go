package ledger

import (
	"sync"
	"unsafe"
)

const cacheLine = 64

// heap is the backing of a ledger within one process.
type heap struct {
	*table
	claims
	bells []chan struct{}
}

func newHeap(slots int) *heap {
	mem := make([]byte, tableBytes(slots)+cacheLine)
	p := unsafe.Pointer(unsafe.SliceData(mem))
	off := -uintptr(p) & (cacheLine - 1)
	h := &heap{
		table:  view(unsafe.Add(p, off), slots),
		claims: newClaims(slots),
		bells:  make([]chan struct{}, slots),
	}
	for i := range h.bells {
		h.bells[i] = make(chan struct{}, 1)
	}
	return h
}

func (h *heap) claim(slot int) (bool, error) { return h.claims.add(slot), nil }
func (h *heap) release(slot int)             { h.claims.remove(slot) }
func (h *heap) ring(slot int)                { signal(h.bells[slot]) }
func (h *heap) listen(slot int)              { <-h.bells[slot] }
func (h *heap) handle() Handle               { return Handle{} }
func (h *heap) close() error                 { return nil }

// signal makes the next receive from c, which has room for one, return.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// claims are the slots whose locks this process has. The kernel does not tell
// two owners in one process apart.
type claims struct {
	mu   sync.Mutex
	mine []bool
}

func newClaims(slots int) claims { return claims{mine: make([]bool, slots)} }

// add reports whether the slot was not claimed yet.
func (c *claims) add(slot int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mine[slot] {
		return false
	}
	c.mine[slot] = true
	return true
}

func (c *claims) remove(slot int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mine[slot] = false
}
