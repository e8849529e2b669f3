package ledger

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func init() {
	// One who nibbles takes pieces of 5 % and gives each back after a while, so
	// that three of them have all there is between them.
	roles["nibble"] = func(o order) error {
		p, err := newPlayer(o)
		if err != nil {
			return err
		}
		const piece = budget / 20
		rnd := rand.New(rand.NewPCG(o.Seed, 3))
		var pieces int64
		for !p.y.stop.Load() {
			if rnd.IntN(4) > 0 && p.try(piece, piece) > 0 {
				pieces++
			}
			time.Sleep(50 * time.Microsecond)
			if pieces > 0 && rnd.IntN(4) == 0 {
				p.give(piece, 0)
				pieces--
			}
		}
		p.give(pieces*piece, 0)
		return p.ledger.Close()
	}
}

// TestStarvation: one asks for 60 % while three churn pieces of 5 %.
// MPIGUARD_LONG=1: 50 times, not 5.
func TestStarvation(t *testing.T) {
	l := create(t, procs)
	defer l.Close()
	y, f := newTally(t)
	me, err := l.Join(0, y.member())
	require.NoError(t, err)
	var cmds []*exec.Cmd
	for i := 1; i < procs; i++ {
		cmds = append(cmds, start(t, f, order{Role: "nibble", Handle: l.Handle(), Slot: i, Seed: uint64(i)}))
	}
	const large = budget * 6 / 10
	var all []time.Duration
	for range oftenOr(5, 50) {
		waitFor(t, "the others have most", func() bool { return y.held.Load() > budget*8/10 })
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		require.NoError(t, me.Take(ctx, large))
		cancel()
		all = append(all, time.Since(begin))
		me.Give(large)
	}
	slices.Sort(all)
	t.Logf("granted after: median %v, longest %v", all[len(all)/2], all[len(all)-1])
	y.stop.Store(true)
	for _, cmd := range cmds {
		assert.NoError(t, cmd.Wait())
	}
	assert.LessOrEqual(t, y.most.Load(), int64(budget))
	assert.Zero(t, y.held.Load())
}
