package ledger

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	budget = 1 << 30
	procs  = 4
)

// tally is memory that the processes of a test share beside the ledger.
type tally struct {
	held atomic.Int64 // added to after a grant, taken from before a release
	most atomic.Int64 // of held
	// What is not free: as held, but taken from after a release. Only a request that
	// fits beside it ought to be granted.
	taken atomic.Int64

	granted, refused, wrong atomic.Int64 // wrong: refused although it fit
	reasons                 [3]atomic.Int64
	pause                   atomic.Bool
	stop                    atomic.Bool
	slots                   [procs]struct {
		phase  atomic.Int64
		held   atomic.Int64
		used   atomic.Int64
		paused atomic.Bool
		_      [4]uint64
	}
}

const (
	phaseStarted = 1 + iota
	phaseOpen
	phaseJoined
)

// player is a rank with its tally.
type player struct {
	*Slot
	y *tally
}

func (y *tally) member() Member {
	return Member{IDs: []uint64{1}, Measure: func(room []int64) { room[0] = budget - y.used() }}
}

// try takes bytes, and counts what came of it.
func (p *player) try(need, want int64) int64 {
	before := p.y.taken.Load()
	n, err := p.TryTake(need, want)
	var refused *Refused
	switch {
	case err == nil:
		p.y.granted.Add(1)
		p.y.slots[p.index].held.Add(n)
		p.y.taken.Add(n)
		sum := p.y.held.Add(n)
		for most := p.y.most.Load(); sum > most && !p.y.most.CompareAndSwap(most, sum); most = p.y.most.Load() {
		}
		return n
	case errors.As(err, &refused):
		p.y.refused.Add(1)
		if max(before, p.y.taken.Load())+need <= budget {
			p.y.wrong.Add(1)
			p.y.reasons[refused.Reason].Add(1)
		}
		return 0
	}
	panic(err)
}

// give releases bytes of which some are in use.
func (p *player) give(n, used int64) {
	p.y.held.Add(-n)
	p.y.slots[p.index].held.Add(-n)
	p.Touch(-used)
	p.use(-used)
	p.Give(n)
	p.y.taken.Add(-n)
}

// touch uses bytes that are held, and lets the ledger know afterwards.
func (p *player) touch(n int64) {
	p.use(n)
	p.Touch(n)
}

func (p *player) use(n int64) { p.y.slots[p.index].used.Add(n) }

// used is what the kernel would count.
func (y *tally) used() (sum int64) {
	for i := range y.slots {
		sum += y.slots[i].used.Load()
	}
	return sum
}

// churn takes, touches and gives at random until it has done so many steps or is
// told to stop.
func (p *player) churn(seed uint64, steps int, between func()) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	type piece struct{ bytes, used int64 }
	var pieces []piece
	for i := 0; i < steps && !p.y.stop.Load(); i++ {
		between()
		if k := len(pieces); k > 0 && (k == 8 || rnd.IntN(2) == 0) {
			j := rnd.IntN(k)
			if c := &pieces[j]; c.used == 0 && rnd.IntN(2) == 0 {
				c.used = rnd.Int64N(c.bytes + 1)
				p.touch(c.used)
				continue
			}
			p.give(pieces[j].bytes, pieces[j].used)
			pieces[j] = pieces[k-1]
			pieces = pieces[:k-1]
			continue
		}
		need := 1 + rnd.Int64N(budget>>rnd.IntN(12))
		if n := p.try(need, need+rnd.Int64N(need)); n > 0 {
			pieces = append(pieces, piece{n, 0})
		}
	}
	for _, c := range pieces {
		p.give(c.bytes, c.used)
	}
}

func (y *tally) checkEnd(t *testing.T) {
	t.Helper()
	t.Logf("granted %d, refused %d, of them %d that fit %v; at most %.1f %% held", y.granted.Load(), y.refused.Load(),
		y.wrong.Load(), &y.reasons, 100*float64(y.most.Load())/budget)
	assert.LessOrEqual(t, y.most.Load(), int64(budget), "never above the budget")
	assert.Zero(t, y.held.Load())
	assert.Zero(t, y.used())
	// Of the requests that fit, 95 % are granted.
	assert.GreaterOrEqual(t, 5*y.granted.Load(), 95*y.wrong.Load())
}

// TestGoroutines: ranks of one process take and give at random.
func TestGoroutines(t *testing.T) {
	l := InProcess(procs)
	defer l.Close()
	var y tally
	var wg sync.WaitGroup
	for i := range procs {
		s, err := l.Join(i, y.member())
		require.NoError(t, err)
		wg.Go(func() {
			p := &player{s, &y}
			p.churn(uint64(i), oftenOr(50_000, 1_000_000), func() {})
		})
	}
	wg.Wait()
	y.checkEnd(t)
}
