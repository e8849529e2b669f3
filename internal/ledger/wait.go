package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

const (
	// lookEvery is how often one who waits looks again although nobody rang: a
	// kill, or a fall of what the kernel counts, rings for nobody.
	lookEvery = 20 * time.Millisecond
	// lookSoon is how soon, where only the wishes of others stood in the way.
	lookSoon = 100 * time.Microsecond
	// recallTime is how long TryRecall waits for answers. They take some 100 µs, but
	// tens of milliseconds where every core is busy.
	recallTime = 50 * time.Millisecond
)

// Take grants n bytes and waits for them until ctx ends. The callers of one slot are
// served one after the other, in the order in which they came; over all slots, the
// first caller of each is served in the order in which it became the first. The
// error wraps the cause of ctx and, unless n was still behind others of the slot, a
// *Refused.
func (s *Slot) Take(ctx context.Context, n int64) error {
	if n < 0 {
		panic(fmt.Sprintf("ledger: Take: %d bytes", n))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("ledger: %d bytes not taken: %w", n, context.Cause(ctx))
	}
	return s.wait(ctx, n, freshTicket, func() bool { return false })
}

// TryRecall is TryTake of n bytes after all ranks were asked to give back what
// they have unused. It returns as soon as they have answered, and after 50 ms at
// the latest. Meanwhile it keeps nobody from taking. If a recall brought nothing a
// moment ago, or if others of the process wait, it is a mere TryTake.
func (s *Slot) TryRecall(n int64) error {
	if !s.mayRecall() || s.line.need() > 0 {
		_, err := s.TryTake(n, n)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recallTime)
	defer cancel()
	err := s.wait(ctx, n, noTicket, s.answered)
	if refused := (*Refused)(nil); errors.As(err, &refused) {
		return refused
	}
	return err
}

// wait takes n bytes, with freshTicket in the order of those who wait, with noTicket
// after them. It gives up when a request fails that was made after enough was true.
func (s *Slot) wait(ctx context.Context, n int64, ticket uint64, enough func() bool) error {
	claim := n
	if ticket == noTicket {
		claim = 0
	}
	place, err := s.line.enter(ctx, s.done, claim)
	defer s.line.leave(place)
	if err != nil {
		return fmt.Errorf("ledger: waiting for %d bytes behind others of the slot: %w", n, err)
	}
	if _, err = s.take(n, n, ticket); err == nil {
		return nil
	}
	ticket = s.queue(claim, ticket)
	defer s.unqueue()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		last := enough()
		_, err := s.take(n, n, ticket)
		refused := (*Refused)(nil)
		switch {
		case err == nil:
			s.recallHelped()
			return nil
		case !errors.As(err, &refused) || last:
			return err
		}
		s.recall(false)
		if refused.Reason == Contended {
			timer.Reset(lookSoon)
		} else {
			timer.Reset(lookEvery)
		}
		select {
		case <-s.woken:
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), refused)
		case <-s.done:
			return ErrClosed
		}
	}
}

// queue puts a ticket into the slot, and asks for what lies unused. A fresh one is
// drawn; noTicket is no place in the order, but makes others ring.
func (s *Slot) queue(claim int64, ticket uint64) uint64 {
	if s.lock() {
		if ticket == freshTicket {
			ticket = s.ledger.tickets.Add(1)
		}
		s.entry.need.Store(claim)
		s.ticket.Store(ticket)
		s.mu.Unlock()
	}
	s.recall(true)
	return ticket
}

// unqueue takes the ticket back, and wakes those who waited behind it.
func (s *Slot) unqueue() {
	if s.lock() {
		s.ticket.Store(0)
		s.ledger.ringWaiting()
		s.mu.Unlock()
	}
}

// recall asks every rank to give back what it has unused; not always, if that was
// done a moment ago.
func (s *Slot) recall(always bool) {
	if !s.lock() {
		return
	}
	defer s.mu.Unlock()
	now := time.Now()
	if !always && !s.backoff.may(now) {
		return
	}
	s.backoff.raise(now)
	s.asked = s.ledger.recalls.Add(1)
	for i := range s.ledger.entries {
		if s.ledger.entries[i].digest.Load() != 0 {
			s.ledger.backing.ring(i)
		}
	}
}

func (s *Slot) mayRecall() bool {
	if !s.lock() {
		return false
	}
	defer s.mu.Unlock()
	return s.backoff.may(time.Now())
}

func (s *Slot) recallHelped() {
	if s.lock() {
		s.backoff = backoff{}
		s.mu.Unlock()
	}
}

// answered reports whether every rank has answered the last recall of this slot.
func (s *Slot) answered() bool {
	if !s.lock() {
		return true
	}
	defer s.mu.Unlock()
	for i := range s.ledger.entries {
		e := &s.ledger.entries[i]
		if e.digest.Load() != 0 && e.acked.Load() < s.asked {
			return false
		}
	}
	return true
}

// listen passes the rings for the slot on.
func (s *Slot) listen() {
	for {
		s.ledger.backing.listen(s.index)
		select {
		case <-s.done:
			return
		default:
		}
		if recall := s.ledger.recalls.Load(); recall != s.heard.Load() {
			s.heard.Store(recall)
			signal(s.recalled)
		}
		signal(s.woken)
		// The next call of listen may take this thread away from the scheduler for
		// a while, with the goroutine that was just woken next in its queue.
		runtime.Gosched()
	}
}

// answer answers recalls. It has a goroutine of its own, since the program may
// take long to free memory, while who waits must hear the rings.
func (s *Slot) answer() {
	for {
		select {
		case <-s.recalled:
		case <-s.done:
			return
		}
		recall := s.heard.Load()
		s.mu.Lock()
		begun := s.begun
		s.mu.Unlock()
		if begun {
			s.member.Recall()
		}
		s.acked.Store(recall)
		s.ledger.ringWaiting()
	}
}

// Waiting reports whether a rank of the ledger waits for bytes. It costs one
// comparison while nobody does: who begins to wait raises a recall, so slots are
// looked at once after each.
func (s *Slot) Waiting() bool {
	heard := s.heard.Load()
	if s.calm.Load() == heard {
		return false
	}
	if !s.lock() {
		return false
	}
	defer s.mu.Unlock()
	for i := range s.ledger.entries {
		if s.ledger.entries[i].ticket.Load() != 0 {
			return true
		}
	}
	s.calm.Store(heard)
	return false
}

// backoff spaces out the recalls of a slot: they cost the others what they keep
// at hand. The zero backoff lets one through.
type backoff struct {
	next time.Time
	gap  time.Duration
}

func (b *backoff) may(now time.Time) bool { return !now.Before(b.next) }

func (b *backoff) raise(now time.Time) {
	b.gap = min(max(2*b.gap, 10*time.Millisecond), 160*time.Millisecond)
	b.next = now.Add(b.gap)
}
