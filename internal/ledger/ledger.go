// Package ledger holds the promises of the processes that share a kernel: how
// many bytes each may still touch. It is a table in shared memory with one slot
// a rank, and a protocol by which ranks take bytes without a lock, without a
// server, and without harm if one of them is killed at any point.
//
// # Protocol
//
// There is no global counter. The truth is the sum over the slots of living
// processes, and what a slot promises is written by its owner alone: a process
// that dies leaves nothing half done in a place that others depend on.
//
// To take n bytes a rank (1) stores n in its slot as a wish, (2) sums, for each
// constraint that it is under, what the slots under the same constraint hold
// untouched and wish for, (3) only then reads what the kernel counts as used, and
// (4) adds n to what it holds untouched, or not, and takes the wish back. Of two
// ranks that do so at once, at least one sees the other's wish. A rank lowers what
// it holds untouched only after it has measured that the memory is in use. So a
// byte is counted twice for a moment, as wish and as promise or as promise and as
// use, and is never missed.
//
// A request is refused only for what is promised and used, and after a second
// look. While the wishes of others decide it, who comes first keeps its wish and
// looks again: those who wait, in the order of their tickets, then the others, in
// that of their slots. The rest take their wish back and look again. A wish that
// stands in the way for 50 µs is revoked, for its owner may be stopped: a promise
// is made only if the wish was still there when it was shown.
//
// Who waits puts a ticket and its need into its slot. Those who come later leave
// that need free, in the constraints that they share with it, so a large request
// is not starved by small ones. Only up to its guaranteed minimum a rank may take
// in spite of tickets.
//
// A slot lives as long as its owner holds a lock on it, which the kernel drops
// when the process ends. Who can take the lock of a slot clears it.
package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// ErrClosed: the slot or the ledger was closed.
var ErrClosed = errors.New("ledger: closed")

// MaxConstraints is the number of constraints that a slot has room for.
const MaxConstraints = 24

// maxSlots bounds the table, so that a header cannot ask for all memory.
const maxSlots = 1 << 14

// Ledger is a table of slots, in memory that processes share or, made by
// InProcess, of one process. Its methods are safe for concurrent use.
type Ledger struct {
	*table
	backing backing

	mu     sync.RWMutex
	closed bool
	slots  []*Slot // joined through this Ledger

	// Tests set them before anything else is called.
	step     func()                         // called between the steps of the protocol
	patience func() (lookAgain func() bool) // how long to bear with the wishes of others
	attempts int                            // of one whose wish was revoked, or who revoked those of others
}

// backing is the memory of a table, and what the system adds to it.
type backing interface {
	// claim takes the lock of a slot; it reports false while anybody has it, this
	// process included.
	claim(slot int) (bool, error)
	// release gives the lock back.
	release(slot int)
	// ring makes the call of listen for the slot return, the one that is under way
	// or else the next. One goroutine a slot listens; listen may also return
	// without cause.
	ring(slot int)
	listen(slot int)
	// handle says where others find the memory.
	handle() Handle
	// close frees the memory.
	close() error
}

// header is the start of the table. All but the counters is written once, before
// anybody else sees it.
type header struct {
	magic, version, length, nonce uint64
	_                             [4]uint64

	tickets atomic.Uint64 // given out to those who wait
	recalls atomic.Uint64 // times that unused leases were asked for
	_       [6]uint64
}

// entry is a slot in shared memory: six cache lines, so that the prefetch of line
// pairs does not tie neighbours together.
type entry struct {
	// What every asker reads. The digest of the ids is zero while the slot is
	// free; by it, slots under the same constraints know each other.
	digest    atomic.Uint64
	wish      atomic.Int64
	untouched atomic.Int64
	ticket    atomic.Uint64 // of the one who waits; zero if nobody wants to be rung
	need      atomic.Int64  // and how much for
	acked     atomic.Uint64 // the recall that was answered last
	bell      atomic.Uint32 // futex word
	_         uint32
	_         uint64

	// What others show: see Row.
	rank, pid         atomic.Int64
	reserved, private atomic.Int64
	headroom          atomic.Int64
	level             atomic.Uint64
	_                 [2]uint64
	ids               [MaxConstraints]atomic.Uint64
	_                 [8]uint64
}

// clear frees the slot. The digest goes first: nobody looks at the rest then.
func (e *entry) clear() {
	e.digest.Store(0)
	e.wish.Store(0)
	e.untouched.Store(0)
	e.ticket.Store(0)
	e.need.Store(0)
	e.show(Row{})
}

func (e *entry) show(r Row) {
	e.rank.Store(int64(r.Rank))
	e.pid.Store(int64(r.PID))
	e.reserved.Store(r.ReservedBytes)
	e.private.Store(r.PrivateBytes)
	e.headroom.Store(r.HeadroomBytes)
	e.level.Store(uint64(r.Level))
}

const (
	magic       = 0x6c65646772 << 24 // "ledgr", for who looks at the memory
	version     = 1                  // of the layout of header and entry, and of the protocol
	headerBytes = unsafe.Sizeof(header{})
	entryBytes  = unsafe.Sizeof(entry{})
)

// The layout is the same on every system: processes of 32 and of 64 bits may
// share it.
var (
	_ [128]byte = [headerBytes]byte{}
	_ [384]byte = [entryBytes]byte{}
)

// table is a view of the memory.
type table struct {
	*header
	entries []entry
}

func tableBytes(slots int) int { return int(headerBytes) + slots*int(entryBytes) }

// view lays a table over memory that begins at p, which is aligned to a cache
// line and long enough.
func view(p unsafe.Pointer, slots int) *table {
	return &table{
		header:  (*header)(p),
		entries: unsafe.Slice((*entry)(unsafe.Add(p, headerBytes)), slots),
	}
}

// Handle is what another process needs to open a ledger.
type Handle struct {
	PID, FD int
	Nonce   uint64
}

func newLedger(t *table, b backing) *Ledger {
	return &Ledger{
		table:    t,
		backing:  b,
		step:     func() {},
		patience: spinTime,
		attempts: 3,
	}
}

// spinTime is the patience with the wishes of others. A wish stands for as long as
// it takes to sum the slots and to read the usage.
func spinTime() func() bool {
	end := time.Now().Add(50 * time.Microsecond)
	return func() bool { return time.Now().Before(end) }
}

// InProcess returns a ledger for ranks that are goroutines of one process. It
// panics if slots is not between 1 and 16,384.
func InProcess(slots int) *Ledger {
	checkSlots(slots)
	h := newHeap(slots)
	return newLedger(h.table, h)
}

func checkSlots(slots int) {
	if slots < 1 || slots > maxSlots {
		panic(fmt.Sprintf("ledger: %d slots", slots))
	}
}

// Slots returns the number of slots.
func (l *Ledger) Slots() int { return len(l.entries) }

// Handle returns what another process passes to Open while l is open. The one of
// a ledger made by InProcess is zero.
func (l *Ledger) Handle() Handle { return l.backing.handle() }

// Close closes the slots that were joined through l and frees the memory. Other
// processes go on with theirs. Closing again does nothing.
func (l *Ledger) Close() error {
	l.mu.Lock()
	done := l.closed
	l.closed = true
	l.mu.Unlock()
	if done {
		return nil
	}
	for _, s := range l.slots { // Join adds none any more
		s.Close()
	}
	return l.backing.close()
}

// Sweep clears the slots of processes that have ended and returns how many those
// were. A request that would be refused does so first.
func (l *Ledger) Sweep() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return 0
	}
	return l.sweep()
}

func (l *Ledger) sweep() int {
	n := 0
	for i := range l.entries {
		e := &l.entries[i]
		if e.digest.Load() == 0 {
			continue
		}
		if free, err := l.backing.claim(i); err != nil || !free {
			continue
		}
		// The owner may have closed its slot between the two.
		if e.digest.Load() != 0 {
			e.clear()
			n++
		}
		l.backing.release(i)
	}
	if n > 0 {
		l.ringWaiting()
	}
	return n
}

// ringWaiting wakes those who wait.
func (l *Ledger) ringWaiting() {
	for i := range l.entries {
		if l.entries[i].ticket.Load() != 0 {
			l.backing.ring(i)
		}
	}
}

// Row is what a rank shows of itself. Its numbers are read one by one: a row may
// hold some of the sample before.
type Row struct {
	Slot          int // filled in by Rows
	Rank          int // in the communicator of the job
	PID           int
	ReservedBytes int64 // the sum of its reservations
	PrivateBytes  int64 // measured
	HeadroomBytes int64
	Level         uint8
}

// Rows appends to dst a row for each slot that is taken. It makes no system call.
// After Close it returns dst.
func (l *Ledger) Rows(dst []Row) []Row {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return dst
	}
	n := len(dst)
	dst = slices.Grow(dst, len(l.entries))[:n+len(l.entries)]
	for i := range l.entries {
		e := &l.entries[i]
		if e.digest.Load() == 0 {
			continue
		}
		r := &dst[n] // field by field: to make a Row and copy it takes three times as long
		n++
		r.Slot = i
		r.Rank = int(e.rank.Load())
		r.PID = int(e.pid.Load())
		r.ReservedBytes = e.reserved.Load()
		r.PrivateBytes = e.private.Load()
		r.HeadroomBytes = e.headroom.Load()
		r.Level = uint8(e.level.Load())
	}
	return dst[:n]
}
