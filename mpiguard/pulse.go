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
// nothing. Errors are those of Survey, and ErrExhausted on all ranks once the
// memory of one is exhausted: see Checkpoint.
func (g *Guard) Pulse(ctx context.Context) (Pulse, error) {
	var p Pulse
	start := time.Now()
	err := g.collective(ctx, "pulse", func(ctx context.Context, mine vote) (int, vote, error) {
		if mine == voteYes && g.proc.exhaustion.over.Err() != nil {
			mine = voteExhausted
		}
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

// AnyMore reports whether any rank has more to do: each says whether it has. It is
// what chunk.Lockstep steps by. Collective. Errors are those of Survey.
func (g *Guard) AnyMore(ctx context.Context, more bool) (bool, error) {
	var any bool
	err := g.collective(ctx, "any more", func(ctx context.Context, mine vote) (int, vote, error) {
		words := [2]uint64{ranked(byte(mine), g.rank)}
		if more {
			words[1] = 1
		}
		if err := g.comm.AllreduceUint64(ctx, words[:], words[:], OpMax); err != nil {
			return -1, voteYes, err
		}
		any = words[1] > 0
		v, rank := unranked(words[0])
		return rank, vote(v), nil
	})
	return any && err == nil, err
}

// ranked packs a number so that the maximum over the ranks is the highest number,
// of the lowest rank that has it.
func ranked(n byte, rank int) uint64 { return uint64(n)<<32 | uint64(math.MaxUint32-uint32(rank)) }

func unranked(w uint64) (n byte, rank int) { return byte(w >> 32), int(math.MaxUint32 - uint32(w)) }

// pulseWords packs what a rank says so that the maximum of each word over the
// ranks is the answer: a higher vote or level wins, then a lower rank, and the
// headroom is turned upside down.
func pulseWords(rank int, v vote, l Level, headroomBytes int64) [3]uint64 {
	return [3]uint64{
		ranked(byte(v), rank),
		ranked(byte(l), rank),
		math.MaxInt64 - uint64(max(headroomBytes, 0)),
	}
}

func readPulse(words [3]uint64) (p Pulse, v vote, voter int) {
	l, rank := unranked(words[1])
	b, voter := unranked(words[0])
	return Pulse{Level: Level(l), Rank: rank, HeadroomBytes: math.MaxInt64 - int64(words[2])}, vote(b), voter
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
