package ledger

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests of this file run ranks step by step, in every order or in random
// ones: each rank is a coroutine that stops between the atomic steps of the
// protocol. The code under test is that of the package, not a model of it.

// world is what the ranks of an interleaving share.
type world struct {
	budget int64
	used   int64 // what the kernel counts
	held   int64 // count of the test: added to after a grant, taken from before a release
	err    error
}

// rank is one coroutine.
type rank struct {
	*Slot
	w    *world
	step func()
	turn uint64 // the ticket, or noTicket
	once bool   // ask once, not twice, which has too many orders to try all

	// The most that was promised in each slot, and used, during the request under
	// way. The sum of slots is no snapshot: what moves from one to another may be
	// counted in both.
	promised [4]int64
	used     int64
}

// observe keeps the maxima up to date; it is called after each step of anybody.
func (r *rank) observe() {
	for i := range r.ledger.entries {
		r.promised[i] = max(r.promised[i], r.ledger.entries[i].untouched.Load())
	}
	r.used = max(r.used, r.w.used)
}

// least returns the least room that the rank can have seen during the request.
func (r *rank) least() int64 {
	room := r.w.budget - r.used
	for _, n := range r.promised {
		room -= n
	}
	return room
}

// script is what a rank does.
type script func(r *rank)

// hold takes bytes and gives them back untouched.
func hold(need, want int64) script {
	return func(r *rank) {
		if n, ok := r.tryTake(need, want); ok {
			r.step()
			r.w.held -= n
			r.Give(n)
		}
	}
}

// use takes bytes, touches them, lets the ledger know, and gives them back in the
// order that the package asks for.
func use(need, want int64) script {
	return func(r *rank) {
		n, ok := r.tryTake(need, want)
		if !ok {
			return
		}
		touched := n / 2
		r.step()
		r.w.used += touched
		r.step()
		r.Touch(touched)
		r.step()
		r.w.held -= n
		r.Touch(-touched)
		r.step()
		r.w.used -= touched
		r.step()
		r.Give(n)
	}
}

// wait draws a ticket and tries a few times.
func wait(need int64) script {
	return func(r *rank) {
		r.turn = r.ledger.tickets.Add(1)
		r.need.Store(need)
		r.step()
		r.ticket.Store(r.turn)
		granted := false
		for range 3 {
			r.step()
			if _, granted = r.tryTake(need, need); granted {
				break
			}
		}
		r.ticket.Store(0)
		r.turn = noTicket
		r.step()
		if granted {
			r.w.held -= need
			r.Give(need)
		}
	}
}

// tryTake counts what is granted, and looks whether a refusal was right: a request is
// refused for what is promised and used, never for what others wish for.
func (r *rank) tryTake(need, want int64) (int64, bool) {
	r.promised, r.used = [4]int64{}, 0
	r.observe()
	request := r.take
	if r.once {
		request = r.ask
	}
	n, err := request(need, want, r.turn)
	if err != nil {
		if err.(*Refused).Reason == Short && need <= r.least() {
			r.w.err = fmt.Errorf("with room for %d at any time: %w", r.least(), err)
		}
		return 0, false
	}
	if r.w.held += n; r.w.held > r.w.budget && r.w.err == nil {
		r.w.err = fmt.Errorf("slot %d took %d bytes: %d of %d held", r.index, n, r.w.held, r.w.budget)
	}
	return n, true
}

// interleaver runs scripts, one a rank, in the order that choose sets.
type interleaver struct {
	w     world
	ranks []*rank
}

// The ranks look so many times again at the wishes of others before they revoke
// them, and make so many attempts.
func newInterleaver(t *testing.T, ranks, looks, attempts int) *interleaver {
	in := &interleaver{}
	base := InProcess(ranks)
	t.Cleanup(func() { base.Close() })
	for i := range ranks {
		// Every rank has a view of its own of the same table, and so a step.
		l := newLedger(base.table, base.backing)
		l.patience = func() func() bool {
			n := 0
			return func() bool { n++; return n <= looks }
		}
		l.attempts = attempts
		s, err := l.Join(i, Member{
			IDs:     []uint64{1},
			Measure: func(room []int64) { room[0] = in.w.budget - in.w.used },
		})
		require.NoError(t, err)
		t.Cleanup(s.Close)
		in.ranks = append(in.ranks, &rank{Slot: s, w: &in.w, turn: noTicket})
	}
	return in
}

// run lets choose pick, of the ranks that have not finished, the one that makes
// the next step. The one that made the last comes first, if it goes on.
func (in *interleaver) run(budget int64, scripts []script, choose func(alive int, goesOn bool) int) error {
	in.w = world{budget: budget}
	var next []func() (struct{}, bool)
	for i, r := range in.ranks {
		step, stop := iter.Pull(func(yield func(struct{}) bool) {
			r.step = func() { yield(struct{}{}) }
			r.ledger.step = r.step
			scripts[i](r)
		})
		defer stop()
		next = append(next, step)
	}
	goesOn := false
	for len(next) > 0 {
		i := choose(len(next), goesOn)
		one := next[i]
		next = slices.Delete(next, i, i+1)
		if _, goesOn = one(); goesOn {
			next = slices.Insert(next, 0, one)
		}
		for _, r := range in.ranks {
			r.observe()
		}
		if in.w.err != nil {
			return in.w.err
		}
	}
	if in.w.used != 0 || in.w.held != 0 {
		return fmt.Errorf("at the end %d used, %d held", in.w.used, in.w.held)
	}
	for _, r := range in.ranks {
		if wish, untouched := r.wish.Load(), r.untouched.Load(); wish != 0 || untouched != 0 {
			return fmt.Errorf("at the end slot %d has wish %d, untouched %d", r.index, wish, untouched)
		}
	}
	return nil
}

// TestEveryInterleaving runs two ranks in every order of their steps, and three in
// every order in which a rank is interrupted a few times at most.
func TestEveryInterleaving(t *testing.T) {
	const every = math.MaxInt
	for _, c := range []struct {
		name                        string
		long                        bool // millions of orders
		interrupts, looks, attempts int
		scripts                     []script
	}{
		{"room for one, patient", false, every, 1, 1, []script{hold(6, 6), hold(5, 5)}},
		{"room for one", true, every, 0, 2, []script{hold(6, 6), hold(5, 5)}},
		{"room for one, many looks", true, every, 1, 2, []script{hold(6, 6), hold(5, 5)}},
		{"room for both", false, every, 0, 2, []script{hold(5, 5), hold(4, 4)}},
		{"room for both, less than they want", true, every, 0, 2, []script{hold(2, 9), hold(3, 8)}},
		{"one after the other", false, every, 1, 1, []script{hold(10, 10), hold(1, 10)}},
		{"in use, patient", false, every, 1, 1, []script{use(6, 6), hold(5, 5)}},
		{"in use", true, every, 0, 2, []script{use(6, 6), hold(5, 5)}},
		{"in use by both, patient", true, every, 2, 1, []script{use(6, 6), use(5, 5)}},
		{"in use by both", true, every, 0, 2, []script{use(6, 6), use(5, 5)}},
		{"in use by both, less than they want", true, every, 2, 1, []script{use(2, 9), use(3, 8)}},
		{"three, room for two", false, 2, 1, 2, []script{hold(4, 4), hold(4, 4), hold(4, 4)}},
		{"three, one waits", false, 2, 0, 2, []script{hold(2, 3), wait(8), use(4, 4)}},
		{"three, room for two, interrupted more", true, 4, 1, 2, []script{hold(4, 4), hold(4, 4), hold(4, 4)}},
		{"three, one waits, interrupted more", true, 4, 0, 2, []script{hold(2, 3), wait(8), use(4, 4)}},
		{"three, in use", true, 4, 0, 2, []script{use(4, 4), wait(5), use(2, 9)}},
	} {
		if c.long && !long {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			in := newInterleaver(t, len(c.scripts), c.looks, c.attempts)
			for _, r := range in.ranks {
				r.once = true
			}
			runs, err := in.every(10, c.scripts, c.interrupts)
			require.NoError(t, err)
			t.Logf("%d orders", runs)
		})
	}
}

// every runs the scripts in every order with so many interrupts and returns how
// many there are. The choices of a run are the digits of a number that is counted
// up.
func (in *interleaver) every(budget int64, scripts []script, interrupts int) (runs int, err error) {
	var choices, options []int
	for {
		depth, left := 0, interrupts
		err := in.run(budget, scripts, func(alive int, goesOn bool) int {
			if goesOn && left == 0 {
				alive = 1
			}
			if depth == len(choices) {
				choices = append(choices, 0)
				options = append(options, 0)
			}
			options[depth] = alive
			depth++
			if goesOn && choices[depth-1] > 0 {
				left--
			}
			return choices[depth-1]
		})
		runs++
		if err != nil {
			return runs, fmt.Errorf("order %v: %w", choices[:depth], err)
		}
		last := depth - 1
		for last >= 0 && choices[last] == options[last]-1 {
			last--
		}
		if last < 0 {
			return runs, nil
		}
		choices = append(choices[:last], choices[last]+1)
		options = options[:len(choices)]
	}
}

// TestRandomInterleavings runs four ranks that take, wait and give a few times
// each.
func TestRandomInterleavings(t *testing.T) {
	in := newInterleaver(t, 4, 1, 3)
	for seed := range uint64(oftenOr(3000, 2_000_000)) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		scripts := make([]script, len(in.ranks))
		for i := range scripts {
			scripts[i] = func(r *rank) {
				for range 3 {
					need := rnd.Int64N(8)
					if rnd.IntN(3) == 0 {
						wait(need)(r)
					} else {
						use(need, need+rnd.Int64N(4))(r)
					}
				}
			}
		}
		pace := 1 + rnd.IntN(8) // how many steps a rank makes in a row
		err := in.run(10, scripts, func(alive int, goesOn bool) int {
			if goesOn && rnd.IntN(pace) > 0 {
				return 0
			}
			return rnd.IntN(alive)
		})
		require.NoError(t, err, "seed %d", seed)
	}
}
