package mpiguard

import (
	"context"
	"fmt"
	"os"
	"runtime"
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
	key    any // what its guards have in common: see processKey
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

// cause is what decided about the pressure.
type cause int

const (
	causeUse       cause = iota // of a constraint so much is used
	causeGrowth                 // at the present rate its limit is near in time
	causeCollector              // what suffices does so only with all time spent in the collector
	causeThrottled              // the kernel throttles at a soft limit
	causeKilled                 // the kernel has killed a process of a group that we are in
	causeLimits                 // the limits are not what they were
)

// pressure fuses what was measured into one figure: that of the constraint of
// which the most is used, raised where that alone would be too late. worst is that
// constraint, -1 where nothing limits.
func (p *process) pressure(now time.Time, d depth) (pressure float64, why cause, worst int) {
	b := p.budget.Load()
	room := UnlimitedBytes
	worst = -1
	for i := range b.Constraints {
		if v, ok := p.view(b, i); ok && v.pressure > pressure {
			pressure, worst, room = v.pressure, i, v.roomBytes
		}
	}
	if worst < 0 {
		return 0, causeUse, worst
	}
	if d >= fresh || pressure >= farFromLimit { // else the use is an upper bound, whose changes mean nothing
		p.growth.observe(now, b.Constraints[worst].id, room)
	}
	raise := func(when bool, l Level, c cause) {
		if at := p.ladder.at[l]; when && pressure < at {
			pressure, why = at, c
		}
	}
	raise(true, p.growth.level(), causeGrowth)
	raise(p.spirals, High, causeCollector)
	raise(now.Sub(p.throttledAt) < refreshEvery, High, causeThrottled)
	raise(now.Sub(p.killedAt) < refreshEvery, Critical, causeKilled)
	return pressure, why, worst
}

// reason says for people what decided about the pressure.
func (p *process) reason(why cause, worst int) string {
	text := "nothing limits this process"
	if worst >= 0 {
		text = p.describe(worst)
	}
	switch why {
	case causeGrowth:
		return fmt.Sprintf("at %s/s the limit is %v away; %s", sizeText(int64(p.growth.rate)), p.growth.left().Round(time.Millisecond), text)
	case causeCollector:
		return fmt.Sprintf("the garbage collector uses more than %.0f %% of the CPU; %s", 100*spiralShare, text)
	case causeThrottled:
		return "the kernel throttles at memory.high; " + text
	case causeKilled:
		return "the kernel killed a process of the cgroup for memory; " + text
	case causeLimits:
		return "the limits changed; " + text
	default:
		return text
	}
}

// kills is how many processes the kernel has killed for memory in the groups that
// this process is in since the guard was made, UnknownBytes where that cannot be
// read.
func (p *process) kills() int64 {
	if p.killedAtStart == UnknownBytes {
		return UnknownBytes
	}
	return max(p.killed-p.killedAtStart, 0)
}

// killed is the largest count of kills in a group of the process: that of a group
// may hold those of the groups below it.
func killed(b *Budget) int64 {
	most := UnknownBytes
	for _, c := range b.Constraints {
		if c.Scope == ScopeCgroup {
			most = max(most, c.Killed)
		}
	}
	return most
}

// throttled is how often processes were throttled at the soft limits.
func throttled(b *Budget) int64 {
	var sum int64
	for _, c := range b.Constraints {
		sum += c.Throttled
	}
	return sum
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

// view is what one constraint means for this process at a moment.
type view struct {
	roomBytes  int64   // what could be granted if nothing were promised
	shareBytes int64   // the same under the static share; UnlimitedBytes where there is none
	mostBytes  int64   // what could be granted at best
	pressure   float64 // what is used of what may be used
}

// view computes what constraint i of the budget means as of the last sample. It
// reports false for one that does not bind: an RLIMIT, which counts address
// space, one without limit, one that cannot be read.
func (p *process) view(b *Budget, i int) (view, bool) {
	c := &b.Constraints[i]
	if c.Scope == ScopeProcess || c.LimitBytes == UnlimitedBytes || c.LimitBytes == UnknownBytes {
		return view{}, false
	}
	used := max(p.used[i], 0)
	usable := max(c.LimitBytes-c.KeptFreeBytes(b.KeepFree), 1)
	v := view{usable - used, UnlimitedBytes, usable, float64(used) / float64(usable)}
	if s, ok := p.shares[c.id]; ok && p.static && s.here < s.ranks {
		v.shareBytes = s.bytes() - p.meter.last.AnonBytes
		v.mostBytes = min(v.mostBytes, s.bytes())
		if c.Scope == ScopeJob { // what the other processes use is not known
			v.pressure = float64(used) / float64(max(s.bytes(), 1))
		}
	}
	return v, true
}

// describe says what constraint i is and how it stands.
func (p *process) describe(i int) string {
	b := p.budget.Load()
	c := b.Constraints[i]
	text := fmt.Sprintf("%s: %s used of %s, %s kept free", c.label(), sizeText(p.used[i]), sizeText(c.LimitBytes),
		sizeText(c.KeptFreeBytes(b.KeepFree)))
	if s := p.shares[c.id]; p.static && s.here < s.ranks {
		text += fmt.Sprintf(", %d of %d ranks here with a share of %s", s.here, s.ranks, sizeText(s.bytes()))
	}
	return text
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

// scope is what the other ranks need to know to divide the constraints.
func (p *process) scope(peers []peer, me int) scopeRow {
	h := p.offer(peers, me)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(full)
	row := scopeRow{process: peers[me].process, anonBytes: p.meter.last.AnonBytes,
		ledgerFD: int64(h.FD), ledgerNonce: h.Nonce}
	n := 0
	b := p.budget.Load()
	for i, c := range b.Constraints {
		if _, binds := p.view(b, i); binds && n < len(row.constraints) {
			row.constraints[n] = scopeEntry{c.id, c.LimitBytes, p.used[i]}
			n++
		}
	}
	return row
}

// setShares learns from the rows of all ranks which constraints this process
// shares with others.
func (p *process) setShares(rows []scopeRow, me int) {
	b := p.budget.Load()
	p.shares = map[uint64]share{}
	for _, c := range b.Constraints {
		if s := shareOf(rows, me, c.id, c.KeptFreeBytes(b.KeepFree)); s.ranks > 0 {
			p.shares[c.id] = s
		}
	}
	p.publish(b)
}

// watch samples until stop is closed, the more often the less room there is.
func (p *process) watch() {
	defer close(p.relief)
	t := time.NewTimer(0)
	defer t.Stop()
	trimmed := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
		}
		sums := p.untouched()
		p.mu.Lock()
		p.observe(quick)
		left, binding := p.left(&sums)
		p.record(quick, left, binding)
		p.followGo(left, binding)
		p.relieve(time.Now())
		interval := min(watchInterval(p.room, runtime.NumCPU()), refreshEvery-time.Since(p.refreshed))
		p.mu.Unlock()
		if now := time.Now(); now.Sub(trimmed) >= trimEvery {
			p.pool.Trim()
			trimmed = now
		}
		t.Reset(interval)
	}
}

// followGo sets the Go memory limit to what is left for the Go heap.
func (p *process) followGo(leftBytes int64, binding int) {
	if p.goLimit == nil {
		return
	}
	processes := 1
	if binding >= 0 && !p.static {
		p.rows = p.ledger.Rows(p.rows[:0])
		processes = min(len(p.rows), p.shares[p.budget.Load().Constraints[binding].id].ranks)
	}
	p.spirals = p.goLimit.follow(time.Now(), p.meter, p.meter.heap.untouched(p.held.heapBytes), leftBytes, processes)
}

// Bounds of the watcher's interval, and how fast one thread can fault memory in:
// 1.7 MB in a millisecond was measured with 4 KiB pages.
const (
	minWatchInterval   = 5 * time.Millisecond
	maxWatchInterval   = time.Second
	faultBytesPerMilli = 1_700_000
)

// watchInterval is a quarter of the time in which all cores together can fault
// in the room that is left.
func watchInterval(roomBytes int64, cores int) time.Duration {
	perMilli := int64(4*cores) * faultBytesPerMilli
	return min(max(time.Duration(roomBytes/perMilli)*time.Millisecond, minWatchInterval), maxWatchInterval)
}
