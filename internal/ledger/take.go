package ledger

import (
	"errors"
	"fmt"
)

// Reason says why a request was refused.
type Reason uint8

// The reasons.
const (
	Short     Reason = iota // not enough is left
	Behind                  // enough is left, but others waited before
	Contended               // others were about to take, and did not decide in time
)

// String returns the reason as a clause.
func (r Reason) String() string {
	return [...]string{"not enough is left", "others waited before", "others are taking"}[r]
}

// Refused is the error of a request that could not be granted.
type Refused struct {
	NeedBytes int64
	// RoomBytes is what could be granted if nobody else asked: limit − kept free −
	// used − promised but untouched, the least over the constraints. It may be
	// negative.
	RoomBytes int64
	// Constraint is the index in Member.IDs of the one that binds.
	Constraint int
	Reason     Reason
}

func (r *Refused) Error() string {
	return fmt.Sprintf("ledger: %d bytes refused with room for %d: %s", r.NeedBytes, r.RoomBytes, r.Reason)
}

// TryTake grants between need and want bytes, as many as there are, and returns
// how many. Without room for need it returns a *Refused and changes nothing. It
// does not wait for others to give, only, for 50 µs at a time, to learn what one
// who takes at the same moment will do. It panics unless 0 ≤ need ≤ want.
func (s *Slot) TryTake(need, want int64) (int64, error) {
	if need < 0 || want < need {
		panic(fmt.Sprintf("ledger: TryTake: need %d, want %d", need, want))
	}
	return s.take(need, want, noTicket)
}

// take is TryTake for the holder of a ticket. It asks twice before it refuses: the
// sum is no snapshot, and counts twice what moved from one slot to another, or into
// use, while it was added up.
func (s *Slot) take(need, want int64, ticket uint64) (int64, error) {
	s.taking.Lock()
	defer s.taking.Unlock()
	n, err := s.ask(need, want, ticket)
	if err == nil || errors.Is(err, ErrClosed) {
		return n, err
	}
	s.ledger.sweep()
	return s.ask(need, want, ticket)
}

// ask states the wish, and grants what can be granted of it.
func (s *Slot) ask(need, want int64, ticket uint64) (int64, error) {
	if !s.lock() {
		return 0, ErrClosed
	}
	held := s.held
	s.mu.Unlock()
	defer s.wish.Store(0)
	var v verdict
	for range s.ledger.attempts {
		s.wish.Store(want)
		s.ledger.step()
		s.sum(ticket)
		s.member.Measure(s.scan.room)
		s.ledger.step()
		v = s.scan.weigh(need, held, s.member.MinimumBytes)
		if v.now >= need {
			n := min(want, v.now)
			if s.grant(n, want) {
				return n, nil
			}
			continue
		}
		if v.yield {
			s.wish.Store(0)
		}
		// While the wishes of others decide it, look at the slots alone.
		for lookAgain := s.ledger.patience(); v.now < need; v = s.scan.weigh(need, held, s.member.MinimumBytes) {
			if v.later < need {
				return 0, v.refused(need)
			}
			if !lookAgain() {
				s.revoke()
				break
			}
			s.sum(ticket)
		}
	}
	return 0, v.refused(need)
}

// grant turns n bytes of the wish into a promise, unless the wish was revoked. The
// promise is shown before the wish is taken back, so that one of the two is seen.
func (s *Slot) grant(n, wish int64) bool {
	if !s.lock() {
		return false
	}
	defer s.mu.Unlock()
	s.held += n
	s.publish()
	s.ledger.step()
	if s.wish.CompareAndSwap(wish, 0) {
		return true
	}
	s.held -= n
	s.publish()
	return false
}

// revoke takes the wishes of others back. Who stated one does not get it then, and
// asks anew: perhaps it was stopped, or the kernel makes it wait for its figures.
func (s *Slot) revoke() {
	for i := range s.ledger.entries {
		e := &s.ledger.entries[i]
		if wish := e.wish.Load(); wish != 0 && i != s.index {
			e.wish.CompareAndSwap(wish, 0)
		}
	}
}
