package ledger

import (
	"math"
	"math/bits"
)

// Tickets are drawn from 1 on and served in rising order. One who has begun to wait
// but drew none yet has freshTicket, and comes before those who do not wait.
const (
	freshTicket = math.MaxUint64 - 1
	noTicket    = math.MaxUint64
)

// scan is what an asker knows: for each of its constraints the room if nothing
// were promised, and sums over the slots that share the constraint.
type scan struct {
	room      []int64
	untouched []int64 // the asker's own included
	wishes    []int64 // of the others
	queue     []int64 // what others wait for who come before the asker
	both      []int64 // what is in wishes and in queue
	line      int64   // what others wait for in the asker's process
	before    uint64  // constraints with a wish of one who comes before the asker

	shares []share // by slot, made when the first slot differs from ours
}

// share is the set of our constraints that a slot with the digest shares.
type share struct{ digest, mask uint64 }

func newScan(constraints int) scan {
	sums := make([]int64, 5*constraints)
	part := func(i int) []int64 { return sums[i*constraints : (i+1)*constraints : (i+1)*constraints] }
	return scan{room: part(0), untouched: part(1), wishes: part(2), queue: part(3), both: part(4)}
}

// sum adds up the slots for the holder of a ticket.
func (s *Slot) sum(ticket uint64) {
	c := &s.scan
	clear(c.untouched)
	clear(c.wishes)
	clear(c.queue)
	clear(c.both)
	c.before = 0
	c.line = 0
	if ticket == noTicket {
		c.line = s.line.need()
	}
	var all struct{ untouched, wishes, queue, both int64 } // of the slots like ours
	for i := range s.ledger.entries {
		e := &s.ledger.entries[i]
		digest := e.digest.Load()
		if digest == 0 || i == s.index {
			continue
		}
		// The wish first: a grant is added to what is untouched before the wish is
		// taken back, so one of the two shows it.
		wish := e.wish.Load()
		s.ledger.step()
		untouched := e.untouched.Load()
		s.ledger.step()
		theirs, queue := e.ticket.Load(), int64(0)
		if theirs == 0 {
			theirs = noTicket
		} else if theirs < ticket {
			queue = e.need.Load()
		}
		both := min(wish, queue)
		if wish|untouched|queue == 0 {
			continue
		}
		mask := s.mask
		if digest == s.ownDigest {
			all.untouched = add(all.untouched, untouched)
			all.wishes = add(all.wishes, wish)
			all.queue = add(all.queue, queue)
			all.both = add(all.both, both)
		} else {
			mask = s.sharedWith(i, digest)
			for m := mask; m != 0; m &= m - 1 {
				k := bits.TrailingZeros64(m)
				c.untouched[k] = add(c.untouched[k], untouched)
				c.wishes[k] = add(c.wishes[k], wish)
				c.queue[k] = add(c.queue[k], queue)
				c.both[k] = add(c.both[k], both)
			}
		}
		if wish > 0 && (theirs < ticket || theirs == ticket && i < s.index) {
			c.before |= mask
		}
	}
	own := s.untouched.Load()
	for k := range c.untouched {
		c.untouched[k] = add(c.untouched[k], own)
		if s.mask&(1<<k) != 0 {
			c.untouched[k] = add(c.untouched[k], all.untouched)
			c.wishes[k] = add(c.wishes[k], all.wishes)
			c.queue[k] = add(c.queue[k], all.queue)
			c.both[k] = add(c.both[k], all.both)
		}
	}
}

// sharedWith returns the set of our constraints that the slot with the digest
// shares.
func (s *Slot) sharedWith(slot int, digest uint64) uint64 {
	c := &s.scan
	if c.shares == nil {
		c.shares = make([]share, len(s.ledger.entries))
	}
	if c.shares[slot].digest == digest {
		return c.shares[slot].mask
	}
	e := &s.ledger.entries[slot]
	mask := uint64(0)
	for k, id := range s.member.IDs {
		for i := range e.ids {
			if id != 0 && id == e.ids[i].Load() {
				mask |= 1 << k
			}
		}
	}
	// Once the digest is there the ids are, and they stay as long as it does.
	if e.digest.Load() == digest {
		c.shares[slot] = share{digest, mask}
	}
	return mask
}

// verdict is what a scan means for a request.
type verdict struct {
	now   int64                          // can be granted, whatever others do
	later int64                          // could be granted if those who wish now take nothing
	room  int64                          // could be granted if no one else asked
	binds struct{ now, later, room int } // the constraints that set the three
	yield bool                           // one who comes before the asker wishes for what it needs
}

// weigh applies a scan to a request of one that holds some bytes already.
func (c *scan) weigh(need, held, minimum int64) verdict {
	v := c.total(need, math.MaxInt64-held, true)
	if floor := minimum - held; v.later < need && need <= floor {
		return c.total(need, floor, false)
	}
	return v
}

// total weighs for one who can have so much at most, and comes after those who
// wait or, if not queued, does not.
func (c *scan) total(need, most int64, queued bool) verdict {
	v := verdict{now: most, later: most, room: most}
	for k := range c.room {
		room := sub(c.room[k], c.untouched[k])
		later, wishes := sub(room, c.line), c.wishes[k]
		if queued {
			later = sub(later, c.queue[k])
			wishes -= c.both[k]
		}
		now := sub(later, wishes)
		if room < v.room {
			v.room, v.binds.room = room, k
		}
		if later < v.later {
			v.later, v.binds.later = later, k
		}
		if now < v.now {
			v.now, v.binds.now = now, k
		}
		if now < need && c.before&(1<<k) != 0 {
			v.yield = true
		}
	}
	return v
}

func (v verdict) refused(need int64) *Refused {
	r := &Refused{NeedBytes: need, RoomBytes: v.room}
	switch {
	case v.room < need:
		r.Reason, r.Constraint = Short, v.binds.room
	case v.later < need:
		r.Reason, r.Constraint = Behind, v.binds.later
	default:
		r.Reason, r.Constraint = Contended, v.binds.now
	}
	return r
}

// add returns a+b for a, b ≥ 0, or the largest number.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// sub returns a-b for b ≥ 0, or the smallest number.
func sub(a, b int64) int64 {
	if a < math.MinInt64+b {
		return math.MinInt64
	}
	return a - b
}
