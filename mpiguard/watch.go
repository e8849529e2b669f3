package mpiguard

import (
	"runtime"
	"time"
)

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
			p.ledger.Sweep() // of neighbours that died nobody else tells
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
