package mpiguard

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// goLimit keeps the memory limit of the Go runtime at what the budget leaves for
// it. A constant GOMEMLIMIT cannot do that: it sees neither MPI, C libraries and
// off-heap pools nor the other ranks of the node.
type goLimit struct {
	restoreBytes int64
	setBytes     int64 // the limit that was set last

	cpu      [4]metrics.Sample
	gcShare  float64   // of the CPU time that was used, over the last window
	window   time.Time // when it began
	gc, busy float64   // CPU seconds at its begin
	marginOf int64     // the margin is the live heap over this
}

// The Go memory limit belongs to the operating system process: the first process
// object manages it.
var goLimitManaged atomic.Bool

// newGoLimit returns nil where the limit is not ours to set: GOMEMLIMIT is in the
// environment, be it off, or it is managed already.
func newGoLimit() *goLimit {
	if _, set := os.LookupEnv("GOMEMLIMIT"); set || !goLimitManaged.CompareAndSwap(false, true) {
		return nil
	}
	l := &goLimit{marginOf: calmMargin}
	l.restoreBytes = debug.SetMemoryLimit(-1)
	l.setBytes = l.restoreBytes
	l.cpu[0].Name, l.cpu[1].Name = "/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/gc/mark/idle:cpu-seconds"
	l.cpu[2].Name, l.cpu[3].Name = "/cpu/classes/total:cpu-seconds", "/cpu/classes/idle:cpu-seconds"
	return l
}

// The collector runs without end when the limit is at the live heap, so the limit
// stays a part of the live heap above it, whatever the budget says; more of it
// while the collector uses more CPU than it should. The part is live ÷ 8 at
// first and the whole at most.
const (
	calmMargin     = 8
	minMarginBytes = 4 << 20
	spiralShare    = 0.25
	calmShare      = 0.10
	spiralWindow   = time.Second
)

// goLimitFor is the limit for a runtime that holds heldBytes, of which
// floorBytes are live or cannot be collected, that was promised untouchedBytes
// more and of whose node headroomBytes are left to so many processes.
func goLimitFor(heldBytes, floorBytes, marginBytes, untouchedBytes, headroomBytes int64, processes int) int64 {
	if headroomBytes == UnlimitedBytes {
		return math.MaxInt64
	}
	limit := heldBytes + untouchedBytes + headroomBytes/int64(max(processes, 1))
	return max(limit, floorBytes+max(marginBytes, minMarginBytes))
}

// follow sets the limit where it has moved by more than a sixteenth, since
// setting it stops the world. It reports whether the collector spirals: it takes
// more than its part of the CPU although the limit gave way.
func (l *goLimit) follow(now time.Time, m *meter, untouchedBytes, headroomBytes int64, processes int) (spirals bool) {
	if now.Sub(l.window) >= spiralWindow {
		l.watchCollector(now)
	}
	limit := goLimitFor(m.goHeldBytes, m.goFloorBytes, m.goLiveBytes/l.marginOf, untouchedBytes, headroomBytes, processes)
	if d := limit - l.setBytes; max(d, -d) > l.setBytes/16 {
		l.setBytes = limit
		debug.SetMemoryLimit(limit)
	}
	return l.gcShare > spiralShare && l.marginOf == 1
}

// watchCollector ends a window: what the collector used of the CPU in it, not
// counting what would have been idle, decides about the margin.
func (l *goLimit) watchCollector(now time.Time) {
	metrics.Read(l.cpu[:])
	f := func(i int) float64 { return l.cpu[i].Value.Float64() }
	gc, busy := f(0)-f(1), f(2)-f(3)-f(1)
	if l.gcShare = 0; busy > l.busy && !l.window.IsZero() {
		l.gcShare = (gc - l.gc) / (busy - l.busy)
	}
	l.window, l.gc, l.busy = now, gc, busy
	switch {
	case l.gcShare > spiralShare:
		l.marginOf = max(l.marginOf/2, 1)
	case l.gcShare < calmShare:
		l.marginOf = min(l.marginOf*2, calmMargin)
	}
}

func (l *goLimit) close() {
	debug.SetMemoryLimit(l.restoreBytes)
	goLimitManaged.Store(false)
}
