package mpiguard

import (
	"cmp"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// RegisterReclaim tells the guard of memory that the program can do without for
// now: a cache, buffers that can be filled again. f gives up about wantBytes, and
// returns how much it gave up. It is called when the level is High or above, and
// before a request is refused; one call of one callback at a time, the one that
// freed the most last time first, and no more often than such calls bring
// something. What they bring is measured, so f need not be exact. f may release
// reservations; it must make no MPI call, must not reserve, and must not call
// Close. A panic in f is logged as an error.
//
// stop and Close take the callback out; a call of f that is under way may outlast
// stop, and Close waits for it.
func (g *Guard) RegisterReclaim(name string, f func(wantBytes int64) (freedBytes int64)) (stop func()) {
	r := &g.proc.reclaimer
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &reclaimCallback{name: name, guard: g, f: f}
	r.callbacks = append(r.callbacks, c)
	r.futile, r.took = 0, 0 // there is something new to try
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.callbacks = slices.DeleteFunc(r.callbacks, func(o *reclaimCallback) bool { return o == c })
	}
}

type reclaimCallback struct {
	name       string
	guard      *Guard
	f          func(int64) int64
	freedBytes int64 // what the last call brought, as measured
}

// reclaimer frees memory that the process can do without.
type reclaimer struct {
	running sync.Mutex // held during a round

	mu        sync.Mutex // guards what follows
	callbacks []*reclaimCallback
	last      time.Time     // when the last round ended
	took      time.Duration // how long it took
	anonBytes int64         // what was resident after it
	futile    int           // rounds in a row that brought nothing
}

// A round costs time and may bring nothing: rounds take at most a twentieth of
// the time, and after some that brought nothing the next comes only after a
// while, or when there is that much more to reclaim from.
const (
	reclaimPart       = 20
	reclaimPause      = 10 * time.Second
	reclaimGrowth     = 50 << 20
	futileBytes       = 64 << 10 // less than this is nothing: the counters of the kernel are not exact
	collectLeastBytes = 1 << 20

	futileRounds = 3 // so many rounds without effect mean that nothing can be reduced
)

// forget takes the callbacks of a guard out and waits for a round under way.
func (r *reclaimer) forget(g *Guard) {
	r.mu.Lock()
	r.callbacks = slices.DeleteFunc(r.callbacks, func(c *reclaimCallback) bool { return c.guard == g })
	r.mu.Unlock()
	r.running.Lock()
	defer r.running.Unlock()
}

// idle reports whether rounds have not taken more than their part of the time.
func (r *reclaimer) idle(now time.Time) bool { return now.Sub(r.last) >= reclaimPart*r.took }

// due reports whether the callbacks may be called.
func (r *reclaimer) due(now time.Time, anonBytes int64) bool {
	return r.idle(now) && (r.futile < futileRounds || now.Sub(r.last) >= reclaimPause || anonBytes-r.anonBytes >= reclaimGrowth)
}

// gaveUp reports whether nothing can be reduced: the last rounds brought nothing.
func (r *reclaimer) gaveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.futile >= futileRounds
}

// reclaim frees about wantBytes if it may try now. Who comes while a round is
// under way is turned away.
func (p *process) reclaim(wantBytes int64) {
	r := &p.reclaimer
	if !r.running.TryLock() {
		return
	}
	defer r.running.Unlock()
	start, before := time.Now(), p.anon()
	collect := p.worthCollecting()
	r.mu.Lock()
	var callbacks []*reclaimCallback
	due := r.due(start, before)
	if due {
		callbacks = slices.Clone(r.callbacks)
	}
	collect = collect && r.idle(start)
	r.mu.Unlock()
	if !due && !collect {
		return
	}
	slices.SortStableFunc(callbacks, func(a, b *reclaimCallback) int { return cmp.Compare(b.freedBytes, a.freedBytes) })
	for _, c := range callbacks {
		if before-p.anon() >= wantBytes {
			break
		}
		c.freedBytes = p.callReclaim(c, wantBytes)
	}
	if (collect || p.worthCollecting()) && before-p.anon() < wantBytes {
		debug.FreeOSMemory()
	}
	after := p.anon()
	freedBytes := max(before-after, 0)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	r.took, r.anonBytes = r.last.Sub(start), after
	if freedBytes >= futileBytes {
		r.futile = 0
	} else {
		r.futile++
	}
	p.cfg.Logger.Debug("reclaimed memory", slog.Int("rank", p.rank), slog.String("wanted", sizeText(wantBytes)),
		slog.String("freed", sizeText(freedBytes)), slog.Duration("took", r.took))
}

// callReclaim calls one callback and returns what that brought. Go memory that it
// gave up is resident until the collector has run: where nothing can be seen, what
// it says decides about the order of the next round.
func (p *process) callReclaim(c *reclaimCallback, wantBytes int64) (freedBytes int64) {
	before := p.anon()
	var said int64
	if err := guarded(func() { said = c.f(wantBytes) }); err != nil {
		p.cfg.Logger.Error("callback of RegisterReclaim failed", "rank", p.rank, "name", c.name, "error", err)
	}
	return max(before-p.anon(), said)
}

// anon measures the private memory of the process.
func (p *process) anon() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(quick)
	return p.meter.last.AnonBytes
}

// worthCollecting reports whether a collection that gives free spans back could
// bring enough for what it costs, which is in proportion to the live heap.
func (p *process) worthCollecting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.meter
	return m.goHeldBytes-m.goFloorBytes >= max(collectLeastBytes, m.goLiveBytes/8)
}
