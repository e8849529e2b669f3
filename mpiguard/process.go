package mpiguard

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/lease"
	"github.com/mpiguard/mpiguard/internal/ledger"
)

// process is what the guards of one process share: the monitor of its limits,
// the meter of its memory, the level, and the goroutine that watches them. A
// process of an MPI program has one guard or several on one communicator; with
// inproc it holds the guards of several ranks. It is made for the first guard
// and ends with the last.
type process struct {
	key    any // what its guards have in common: their communicator, or its world
	shared bool
	cfg    Config // of the first guard; New compares what matters
	rank   int    // of the first guard

	level    atomic.Uint32
	headroom atomic.Int64 // as of the last sample, UnlimitedBytes where nothing limits
	budget   atomic.Pointer[Budget]

	mu        sync.Mutex // guards what follows; taken before no other lock of the guard
	guards    []*Guard
	monitor   *monitor
	meter     *meter
	held      holdings  // as of the last sample
	used      []int64   // of each constraint of the budget, as of the last sample
	coarse    bool      // what is used of a limit that is far may be an upper bound
	refreshed time.Time // when the limits were last read
	growth    growth
	ladder    ladder
	room      int64 // the least room that was measured last, whatever is promised of it

	// What New agreed on with the other ranks, and does not change after.
	pool   *lease.Pool // what the reservations of all guards hold of what is promised
	ledger *ledger.Ledger
	slot   *ledger.Slot     // what the process was promised; nil before New has joined it
	ids    []uint64         // the constraints of the slot; the last, zero, is for what is not shared
	shares map[uint64]share // by constraint
	static bool             // neighbours are not in the ledger: a share of each constraint is all there is
	host   []bool           // by rank: is it on this host

	neighbours []int // the processes on this kernel, each by its lowest rank
	place      int   // of this process among them

	goLimit *goLimit // nil where the limit is not ours
	spirals bool     // the collector takes more than its part of the CPU
	watched bool
	binds   []int        // by place in ids: the constraint of the budget that rooms found
	rows    []ledger.Row // scratch

	transitions   [Critical + 1]uint64 // to each level
	killedAtStart int64                // what killed counted when the process object was made
	killed        int64                // and at the last refresh
	throttled     int64                // what throttled counted then
	killedAt      time.Time            // when killed was last seen to rise
	throttledAt   time.Time            // and throttled

	recorded []int // the constraints that the records list

	surveyed struct { // the last Survey, and what it was made of
		rows   *usageRow
		survey *Survey
	}

	reclaimer  reclaimer
	relief     chan struct{} // asks for a round of reclaim; closed with the watcher
	exhaustion exhaustion

	stop    chan struct{}
	stopped sync.WaitGroup
}

// processes are the process objects that are open, one but for inproc worlds.
var processes = struct {
	sync.Mutex
	open []*process
}{}

// joinProcess adds the guard to the process object of its communicator, which
// it makes where there is none yet.
func joinProcess(g *Guard) (*process, error) {
	key, shared := any(g.comm), false
	if w, ok := g.comm.(SharedProcess); ok {
		key, shared = w.World(), true
	}
	processes.Lock()
	defer processes.Unlock()
	for _, p := range processes.open {
		if p.key == key {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.guards = append(p.guards, g)
			return p, nil
		}
		if !p.shared && !shared {
			return nil, ErrInUse
		}
	}
	p := &process{
		key: key, shared: shared, cfg: g.cfg, rank: g.rank, guards: []*Guard{g},
		monitor: openMonitor(g.cfg.machine, g.cfg.KeepFree, g.cfg.LimitBytes),
		meter:   newMeter(g.cfg.machine),
		ladder:  newLadder(g.cfg),
		relief:  make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
	p.exhaustion.over, p.exhaustion.end = context.WithCancelCause(context.Background())
	p.pool = lease.NewPool(p, leaseBlockBytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(full)
	p.killedAtStart = p.killed
	processes.open = append(processes.open, p)
	return p, nil
}

// leave takes the guard out; the last one stops the watcher and waits for it.
func (p *process) leave(g *Guard) {
	processes.Lock()
	defer processes.Unlock()
	p.mu.Lock()
	p.guards = slices.DeleteFunc(p.guards, func(o *Guard) bool { return o == g })
	last := len(p.guards) == 0
	p.mu.Unlock()
	if !last {
		return
	}
	processes.open = slices.DeleteFunc(processes.open, func(o *process) bool { return o == p })
	close(p.stop)
	p.stopped.Wait()
	p.exhaustion.end(ErrClosed)
	if p.goLimit != nil {
		p.goLimit.close()
	}
	if p.ledger != nil {
		_ = p.ledger.Close() // unmapping what is mapped does not fail
	}
	p.monitor.close()
	p.meter.close()
}

// depth says how much a sample reads.
type depth int

const (
	quick depth = iota // own private memory; the use of a cgroup only as an upper bound while it is far from its limit
	fresh              // the use of every constraint as well: before a grant, a refusal, a survey
	full               // the split of the resident set and its high-water mark as well
)

// Leases: the block that reservations are granted from, and how often what lies
// unused is given back.
const (
	leaseBlockBytes = 256 << 10
	trimEvery       = time.Second
)

// refreshEvery is how old the limits may grow. One that changed is to be seen
// within a second, and the watcher may be late.
const refreshEvery = time.Second / 2

// observe samples the process and its constraints, tells the ledger what became
// resident of what was promised, and moves the level. The caller holds p.mu.
func (p *process) observe(d depth) {
	now := time.Now()
	every := refreshEvery
	if p.ladder.level >= High {
		every = refreshEvery / 5 // a kill in the group is worth knowing at once, and before the next
	}
	changed := false
	if p.budget.Load() == nil || now.Sub(p.refreshed) >= every {
		changed = p.refresh(now)
		d = full
	}
	p.held = p.holdings()
	p.meter.sample(now, p.held, d == full)
	p.touch()
	p.monitor.sample(p.used, d >= fresh)
	p.coarse = d < fresh
	p.sampleJob()
	pressure, why, worst := p.pressure(now, d)
	justKilled := p.killedAt.Equal(now)
	switch {
	case justKilled:
		why = causeKilled
	case changed:
		why = causeLimits
	}
	if old := p.ladder.level; p.ladder.observe(now, pressure) || justKilled || changed {
		p.level.Store(uint32(p.ladder.level))
		if old != p.ladder.level {
			p.transitions[p.ladder.level]++
		}
		t := Transition{From: old, To: p.ladder.level, At: now, Reason: p.reason(why, worst)}
		p.cfg.Logger.Info("memory level changed", "rank", p.rank, "from", t.From, "to", t.To, "reason", t.Reason)
		p.post(t)
	}
}

// post tells all guards of a transition.
func (p *process) post(t Transition) {
	for _, g := range p.guards {
		g.recorder.Transition(blackbox.Transition{At: t.At, From: t.From, To: t.To, Reason: t.Reason})
		g.notices.post(t)
	}
}

// sampleJob stores what the ranks of the job on this host use. Of the other
// processes it is what they published last; where they do not, they are not seen.
func (p *process) sampleJob() {
	b := p.budget.Load()
	known := false
	var bytes int64
	for i, c := range b.Constraints {
		if c.Scope != ScopeJob {
			continue
		}
		if !known {
			known, bytes = true, p.meter.last.AnonBytes
			p.rows = p.rows[:0]
			if p.slot != nil {
				p.rows = p.ledger.Rows(p.rows)
			}
			for _, r := range p.rows {
				if r.PID != os.Getpid() && r.Rank < len(p.host) && p.host[r.Rank] {
					bytes += r.PrivateBytes
				}
			}
		}
		p.used[i] = bytes
	}
}

// touch tells the ledger how much of what was promised is resident.
func (p *process) touch() {
	if p.slot != nil {
		_, was := p.slot.Bytes()
		p.slot.Touch(p.meter.touched(p.held) - was)
	}
}

// untouched is, for each of p.ids, what the processes under it were promised and
// have not touched. It is taken without p.mu, which the ledger may want.
func (p *process) untouched() (sums [ledger.MaxConstraints]int64) {
	p.slot.Untouched(sums[:])
	return sums
}

// look takes a sample and publishes what it means.
func (p *process) look(d depth) {
	sums := p.untouched()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(d)
	p.left(&sums)
}

// left is the headroom as of the last sample and the constraint that it is
// under, -1 where nothing limits. The caller holds p.mu.
func (p *process) left(untouched *[ledger.MaxConstraints]int64) (bytes int64, binding int) {
	var room [ledger.MaxConstraints]int64
	p.rooms(room[:])
	bytes, binding, p.room = UnlimitedBytes, -1, UnlimitedBytes
	for k := range p.ids {
		p.room = min(p.room, room[k])
		if n := room[k] - untouched[k]; p.binds[k] >= 0 && n < bytes {
			bytes, binding = n, p.binds[k]
		}
	}
	p.headroom.Store(bytes)
	p.slot.Publish(ledger.Row{
		Rank: p.rank, PID: os.Getpid(), ReservedBytes: p.held.reserved(),
		PrivateBytes: p.meter.last.AnonBytes, HeadroomBytes: bytes, Level: uint8(p.ladder.level),
	})
	return bytes, binding
}

// holdings sums up the reservations.
func (p *process) holdings() holdings {
	var h holdings
	if p.slot != nil {
		h.promisedBytes, _ = p.slot.Bytes()
	}
	for owner, n := range p.pool.All() {
		r := owner.(*Reservation)
		committed := min(r.committed.Load(), n)
		h.committedBytes += committed
		if r.offHeap {
			h.offHeapBytes += n - committed
		} else {
			h.heapBytes += n - committed
		}
	}
	return h
}

// refresh reads all limits again and publishes the budget. It reports whether
// they have changed since the last time, if there was one.
func (p *process) refresh(now time.Time) (changed bool) {
	b, changed := p.monitor.refresh()
	p.refreshed = now
	old := p.budget.Load()
	if changed = changed && old != nil; changed {
		p.cfg.Logger.Warn("memory limits changed", "was", sizeText(old.LimitBytes()), "is", sizeText(b.LimitBytes()))
	}
	k, t := killed(b), throttled(b)
	if old != nil && k > p.killed {
		p.killedAt = now
		p.cfg.Logger.Warn("the kernel killed processes for memory", "rank", p.rank, "killed", k-p.killed)
	} else if old != nil && t > p.throttled {
		p.throttledAt = now
	}
	p.killed, p.throttled = k, t
	p.used = slices.Grow(p.used[:0], len(b.Constraints))[:len(b.Constraints)]
	p.publish(b)
	if changed {
		for _, g := range p.guards {
			g.recordLimits(now)
		}
	}
	return changed
}

// publish makes b the budget, with this rank's shares written in.
func (p *process) publish(b *Budget) {
	out := *b
	out.Constraints = slices.Clone(b.Constraints)
	out.ShareBytes = UnknownBytes
	for i := range out.Constraints {
		c := &out.Constraints[i]
		if c.Scope == ScopeJob && c.UsedBytes == UnknownBytes {
			c.UsedBytes = p.meter.last.AnonBytes // at least; the other ranks' memory is added to p.used
		}
		s, ok := p.shares[c.id]
		if !ok {
			continue
		}
		c.Ranks = s.ranks
		if each := s.spareBytes / int64(s.ranks); out.ShareBytes == UnknownBytes || each < out.ShareBytes {
			out.ShareBytes = each
		}
	}
	p.budget.Store(&out)
}
