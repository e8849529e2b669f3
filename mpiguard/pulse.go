package mpiguard

import (
	"context"
	"math"
	"time"
)

// Pulse is the pressure of all ranks in a few words.
type Pulse struct {
	Level         Level // the worst of all ranks
	Rank          int   // the lowest rank that has it
	HeadroomBytes int64 // the least of all ranks; UnlimitedBytes where nothing limits
}

// Pulse gives every rank the worst level of all ranks as of their last samples,
// so that all can take the same decision at the same step. Collective.
//
// It costs one Allreduce of 24 bytes however many ranks there are, and measures
// nothing. Errors are those of Survey.
func (g *Guard) Pulse(ctx context.Context) (Pulse, error) {
	var p Pulse
	start := time.Now()
	err := g.collective(ctx, "pulse", func(ctx context.Context, mine vote) (int, vote, error) {
		words := pulseWords(g.rank, mine, g.Level(), g.HeadroomBytes())
		if err := g.comm.AllreduceUint64(ctx, words[:], words[:], OpMax); err != nil {
			return -1, voteYes, err
		}
		var v vote
		var voter int
		p, v, voter = readPulse(words)
		return voter, v, nil
	})
	if err != nil {
		return Pulse{}, err
	}
	g.proc.mu.Lock()
	defer g.proc.mu.Unlock()
	g.pulses.note(start, -1, 0)
	return p, nil
}

// pulseWords packs what a rank says so that the maximum of each word over the
// ranks is the answer: a higher vote or level wins, then a lower rank, and the
// headroom is turned upside down.
func pulseWords(rank int, v vote, l Level, headroomBytes int64) [3]uint64 {
	lowFirst := uint64(math.MaxUint32 - uint32(rank))
	return [3]uint64{
		uint64(v)<<32 | lowFirst,
		uint64(l)<<32 | lowFirst,
		math.MaxInt64 - uint64(max(headroomBytes, 0)),
	}
}

func readPulse(words [3]uint64) (p Pulse, v vote, voter int) {
	rank := func(w uint64) int { return int(math.MaxUint32 - uint32(w)) }
	return Pulse{
		Level:         Level(words[1] >> 32),
		Rank:          rank(words[1]),
		HeadroomBytes: math.MaxInt64 - int64(words[2]),
	}, vote(words[0] >> 32), rank(words[0])
}

// PulseEvery gives a loop the agreed level at every step for the price of a Pulse
// every so many steps: the function that it returns pulses at its first call and
// at every steps-th after that, Collective., and repeats the last answer
// otherwise. All ranks must call it equally often; see the example. After an error
// the next call pulses again. It panics if steps is not positive.
func (g *Guard) PulseEvery(steps int) func(ctx context.Context) (Pulse, error) {
	if steps <= 0 {
		panic("mpiguard: PulseEvery: steps is not positive")
	}
	step, last := 0, Pulse{}
	return func(ctx context.Context) (Pulse, error) {
		if step%steps != 0 {
			step++
			return last, nil
		}
		p, err := g.Pulse(ctx)
		if err == nil {
			last = p
			step++
		}
		return p, err
	}
}
