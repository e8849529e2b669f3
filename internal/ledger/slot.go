package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Member is what a ledger has to know of a rank.
type Member struct {
	// IDs name the constraints that the rank is under, at most MaxConstraints.
	// Ranks with an equal id share that constraint; zero is shared with none.
	IDs []uint64
	// Measure stores in room[i], for the constraint with IDs[i], its limit less
	// what is kept free and less what is used, read at that moment: what could be
	// taken if nothing were promised. It may be negative; math.MaxInt64 means that
	// there is no limit. Measure must not take from the slot.
	Measure func(room []int64)
	// Recall, unless nil, is called when a rank of the ledger, this one included,
	// is short, and gives back what is leased but unused. Calls come one at a time
	// from a goroutine of the slot, for which Close waits; none comes before the
	// first call of a method of the slot, so that it can be stored where Recall
	// finds it.
	Recall func()
	// MinimumBytes is what the rank may hold although others wait.
	MinimumBytes int64
}

// Slot is the account of one rank in a Ledger. Its methods are safe for
// concurrent use. After Close those that take return ErrClosed and the others do
// nothing.
type Slot struct {
	ledger *Ledger
	*entry
	index  int
	member Member

	ownDigest uint64
	mask      uint64 // of the constraints that can be shared

	taking sync.Mutex // by one at a time, since there is one wish
	scan   scan

	mu      sync.Mutex
	held    int64 // promised, touched or not
	touched int64 // at most held
	begun   bool  // a method was called
	ended   bool
	backoff backoff // of recalls
	asked   uint64  // the last recall that was raised here

	line      line          // of those who wait
	woken     chan struct{} // for the first of them
	recalled  chan struct{}
	heard     atomic.Uint64 // the recall that was heard of last
	calm      atomic.Uint64 // the recall after which nobody was found waiting
	done      chan struct{} // closed by Close
	closeOnce sync.Once
	workers   sync.WaitGroup
}

// Join takes a free slot. An error means that another living process, or another
// Slot of this one, has it. The slot lives as long as this process and, should it
// fork, as its children that do not exec.
func (l *Ledger) Join(slot int, m Member) (*Slot, error) {
	if slot < 0 || slot >= len(l.entries) {
		panic(fmt.Sprintf("ledger: Join: slot %d of %d", slot, len(l.entries)))
	}
	if len(m.IDs) > MaxConstraints {
		panic(fmt.Sprintf("ledger: Join: %d constraints, above %d", len(m.IDs), MaxConstraints))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if err := l.claim(slot); err != nil {
		return nil, err
	}
	m.IDs = slices.Clone(m.IDs)
	if m.Recall == nil {
		m.Recall = func() {}
	}
	s := &Slot{
		ledger:   l,
		entry:    &l.entries[slot],
		index:    slot,
		member:   m,
		woken:    make(chan struct{}, 1),
		recalled: make(chan struct{}, 1),
		done:     make(chan struct{}),
		scan:     newScan(len(m.IDs)),

		ownDigest: digestOf(m.IDs),
	}
	s.clear()
	for i, id := range m.IDs {
		s.ids[i].Store(id)
		if id != 0 {
			s.mask |= 1 << i
		}
	}
	for i := len(m.IDs); i < MaxConstraints; i++ {
		s.ids[i].Store(0)
	}
	recalls := l.recalls.Load()
	s.acked.Store(recalls)
	s.heard.Store(recalls)
	s.calm.Store(recalls - 1) // who waits by now is not known
	s.digest.Store(s.ownDigest)
	l.slots = append(l.slots, s)
	s.workers.Go(s.listen)
	s.workers.Go(s.answer)
	return s, nil
}

// claim takes the lock of a slot. Who holds it for a moment only is sweeping.
func (l *Ledger) claim(slot int) error {
	for end := time.Now().Add(100 * time.Millisecond); ; time.Sleep(time.Millisecond) {
		free, err := l.backing.claim(slot)
		switch {
		case err != nil:
			return fmt.Errorf("ledger: lock of slot %d: %w", slot, err)
		case free:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("ledger: slot %d is taken", slot)
		}
	}
}

// digestOf is equal for slots that are under the same constraints in the same
// order, and never zero.
func digestOf(ids []uint64) uint64 {
	var text []byte
	for _, id := range ids {
		text = binary.LittleEndian.AppendUint64(text, id)
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return h.Sum64() | 1
}

// Close gives back all that the slot holds and frees it. Calls that wait return
// ErrClosed.
func (s *Slot) Close() {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.ended = true
		s.held, s.touched = 0, 0
		s.mu.Unlock()
		close(s.done)
		s.ledger.backing.ring(s.index)
		s.workers.Wait()
		s.taking.Lock()
		defer s.taking.Unlock()
		s.clear()
		s.ledger.backing.release(s.index)
		s.ledger.ringWaiting()
	})
}

// lock locks s.mu for a method, unless s was closed. While it is locked the table
// is there.
func (s *Slot) lock() bool {
	s.mu.Lock()
	s.begun = true
	if s.ended {
		s.mu.Unlock()
		return false
	}
	return true
}

// Give returns n bytes of those held; of what remains, as much as possible counts
// as touched. It panics if n is negative or above what is held.
func (s *Slot) Give(n int64) {
	if !s.lock() {
		return
	}
	defer s.mu.Unlock()
	if n < 0 || n > s.held {
		panic(fmt.Sprintf("ledger: Give: %d of %d bytes", n, s.held))
	}
	s.held -= n
	s.touched = min(s.touched, s.held)
	s.publish()
	s.ledger.ringWaiting()
}

// Touch moves delta bytes of those held from untouched to touched, or back if
// negative, as far as there are, and returns how many are touched then. What is
// touched must have been measured as used before; what will cease to be used must
// be moved back before it does.
func (s *Slot) Touch(delta int64) (touchedBytes int64) {
	if !s.lock() {
		return 0
	}
	defer s.mu.Unlock()
	s.touched += min(max(delta, -s.touched), s.held-s.touched)
	s.publish()
	return s.touched
}

// publish shows the others what s.mu guards. It is the owner alone who stores.
func (s *Slot) publish() { s.untouched.Store(s.held - s.touched) }

// Bytes returns what is held, and how much of it is touched.
func (s *Slot) Bytes() (held, touched int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.touched
}

// Publish shows the row to the others. Its Slot is not used.
func (s *Slot) Publish(r Row) {
	if s.lock() {
		s.show(r)
		s.mu.Unlock()
	}
}

// Untouched stores in sums[i], for the constraint with Member.IDs[i], what the
// slots under it, this one included, hold untouched. It makes no system call.
func (s *Slot) Untouched(sums []int64) {
	s.taking.Lock() // for which Close waits
	defer s.taking.Unlock()
	if s.lock() {
		s.mu.Unlock()
		s.sum(noTicket)
		copy(sums, s.scan.untouched)
	}
}
