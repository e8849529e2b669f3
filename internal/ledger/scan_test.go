package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWeigh asks for 10 bytes of 100 from slot 1 with what another slot shows.
func TestWeigh(t *testing.T) {
	type shown struct{ untouched, wish, need, ticket int64 }
	for _, c := range []struct {
		name       string
		slot       int // of the other
		other      shown
		ticket     uint64 // of the asker
		minimum    int64
		room       int64
		later, now int64
		yield      bool
	}{
		{name: "nothing", room: 100, later: 100, now: 100, ticket: noTicket},
		{name: "a promise", other: shown{untouched: 30}, room: 70, later: 70, now: 70, ticket: noTicket},
		{name: "a small wish", other: shown{untouched: 30, wish: 60}, room: 70, later: 70, now: 10, ticket: noTicket},
		{name: "a wish of a lower slot", other: shown{wish: 95}, room: 100, later: 100, now: 5, yield: true, ticket: noTicket},
		{name: "a wish of a higher slot", slot: 2, other: shown{wish: 95}, room: 100, later: 100, now: 5, ticket: noTicket},
		{name: "one who waits", other: shown{need: 95, ticket: 7}, room: 100, later: 5, now: 5, ticket: noTicket},
		{name: "one who began to wait", other: shown{need: 95, ticket: 7}, room: 100, later: 5, now: 5, ticket: freshTicket},
		{name: "one who waits longer", other: shown{need: 95, ticket: 7}, room: 100, later: 5, now: 5, ticket: 8},
		{name: "one who came later", other: shown{need: 95, ticket: 7}, room: 100, later: 100, now: 100, ticket: 6},
		{name: "one who waits takes", slot: 2, other: shown{wish: 80, need: 80, ticket: 7}, room: 100, later: 20, now: 20, ticket: noTicket},
		{name: "and another of its process", other: shown{wish: 95, need: 50, ticket: 7}, room: 100, later: 50, now: 5, yield: true, ticket: noTicket},
		{name: "one who came later takes", other: shown{wish: 95, need: 95, ticket: 7}, room: 100, later: 100, now: 5, ticket: 6},
		{name: "one who does not wait takes", other: shown{wish: 95}, room: 100, later: 100, now: 5, ticket: 6},
		{name: "within the minimum", minimum: 15, other: shown{need: 95, ticket: 7}, room: 15, later: 15, now: 15, ticket: noTicket},
		{name: "within the minimum, wished for", minimum: 15, slot: 2, other: shown{wish: 95, need: 95, ticket: 7}, room: 15, later: 15, now: 5, yield: true, ticket: noTicket},
		{name: "beyond the minimum", minimum: 9, other: shown{need: 95, ticket: 7}, room: 100, later: 5, now: 5, ticket: noTicket},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := InProcess(3)
			defer l.Close()
			s, other := join(t, l, 1, 100), join(t, l, c.slot, 100)
			other.untouched.Store(c.other.untouched)
			other.wish.Store(c.other.wish)
			other.entry.need.Store(c.other.need)
			other.ticket.Store(uint64(c.other.ticket))
			s.sum(c.ticket)
			s.member.Measure(s.scan.room)
			v := s.scan.weigh(10, 0, c.minimum)
			assert.Equal(t, c.room, min(v.room, 100))
			assert.Equal(t, c.later, min(v.later, 100))
			assert.Equal(t, c.now, min(v.now, 100))
			assert.Equal(t, c.yield, v.yield)
		})
	}
}
