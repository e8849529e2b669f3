package mpiguard

import (
	"runtime/metrics"
	"time"

	"github.com/mpiguard/mpiguard/internal/procfs"
)

// Usage is the memory of one process as of its last sample. Ranks that are
// goroutines of one process share all of it but ReservedBytes. What cannot be
// read is UnknownBytes.
type Usage struct {
	// At is when the sample was taken, Interval how long after the one before.
	At       time.Time
	Interval time.Duration
	// AnonBytes is private memory, ShmemBytes shared memory and tmpfs pages that
	// are mapped, FileBytes mapped pages of files; all resident. See proc(5),
	// RssAnon, RssShmem and RssFile. The last two are read less often.
	AnonBytes, ShmemBytes, FileBytes int64
	// PeakBytes is the high-water mark of the resident set, VmHWM.
	PeakBytes int64
	// GoBytes is what the Go runtime holds, NonGoBytes the rest of AnonBytes: C
	// libraries, MPI and off-heap pools.
	GoBytes, NonGoBytes int64
	// ReservedBytes is the sum of this rank's reservations.
	ReservedBytes int64
	// UntouchedBytes is what was promised to reservations of the process and is
	// not resident yet. UnaccountedBytes is resident above the baseline of New
	// and belongs to no reservation.
	UntouchedBytes, UnaccountedBytes int64
}

// holdings are the sums over the reservations of a process.
type holdings struct {
	heapBytes      int64 // of the Go heap
	offHeapBytes   int64 // outside it, without what is committed
	committedBytes int64 // outside it and known to be resident
	promisedBytes  int64 // taken from the budget: all of the above, and leases that nobody uses yet
}

// reserved is what the reservations hold.
func (h holdings) reserved() int64 { return h.heapBytes + h.offHeapBytes + h.committedBytes }

// meter measures the private memory of this process. It is not safe for
// concurrent use.
type meter struct {
	self    *procfs.Self
	metrics [5]metrics.Sample
	status  procfs.Status

	heap, offHeap memory
	nonGoBytes    int64 // the last estimate
	goHeldBytes   int64 // what the runtime has mapped and not released
	goInUseBytes  int64 // that without free spans
	goLiveBytes   int64 // the heap that the last collection found live
	goFloorBytes  int64 // live heap, stacks and the runtime's own: no collection goes below it
	last          Usage
}

func newMeter(m Machine) *meter {
	mt := &meter{self: procfs.OpenSelf(m.Root, m.PID)}
	mt.metrics[0].Name = "/memory/classes/total:bytes"
	mt.metrics[1].Name = "/memory/classes/heap/released:bytes"
	mt.metrics[2].Name = "/memory/classes/heap/free:bytes"
	mt.metrics[3].Name = "/memory/classes/heap/objects:bytes"
	mt.metrics[4].Name = "/gc/heap/live:bytes"
	mt.sample(time.Now(), holdings{}, true)
	// What is there now, the MPI library included, is the baseline.
	mt.heap = memory{baselineBytes: mt.last.GoBytes}
	mt.offHeap = memory{baselineBytes: mt.last.NonGoBytes}
	return mt
}

func (m *meter) close() { m.self.Close() }

// sample measures the process and attributes what it finds to what is reserved.
// A full sample reads the split of the resident set and the peak too.
func (m *meter) sample(now time.Time, h holdings, full bool) {
	metrics.Read(m.metrics[:])
	goMetric := func(i int) int64 { return int64(m.metrics[i].Value.Uint64()) }
	goBytes := goMetric(0) - goMetric(1)
	goInUse := goBytes - goMetric(2)

	resident, shared, err := m.self.Statm()
	anon := resident - shared
	if err != nil { // not Linux, or a sandbox: the runtime's own figure is the least there is
		anon = goBytes + m.nonGoBytes
	}
	if full {
		if m.status, err = m.self.Status(); err != nil {
			m.status = procfs.Status{RssShmemBytes: UnknownBytes, RssFileBytes: UnknownBytes, HWMBytes: UnknownBytes}
		}
	}
	m.nonGoBytes = nonGo(anon, goBytes, m.nonGoBytes, m.offHeap.baselineBytes+h.committedBytes, goInUse > m.goInUseBytes)
	m.goHeldBytes, m.goInUseBytes = goBytes, goInUse
	m.goLiveBytes = goMetric(4)
	m.goFloorBytes = goInUse - goMetric(3) + m.goLiveBytes

	m.heap.observe(anon-m.nonGoBytes, h.heapBytes)
	m.offHeap.observe(m.nonGoBytes-h.committedBytes, h.offHeapBytes)
	m.last = Usage{
		At: now, Interval: now.Sub(m.last.At),
		AnonBytes: anon, ShmemBytes: m.status.RssShmemBytes, FileBytes: m.status.RssFileBytes,
		PeakBytes: m.status.HWMBytes,
		GoBytes:   anon - m.nonGoBytes, NonGoBytes: m.nonGoBytes,
		UntouchedBytes:   max(h.promisedBytes-m.touched(h), 0),
		UnaccountedBytes: m.heap.unaccountedBytes + m.offHeap.unaccountedBytes,
	}
}

// touched is how much of what is promised is resident.
func (m *meter) touched(h holdings) int64 {
	return h.committedBytes + m.heap.touchedBytes + m.offHeap.touchedBytes
}

// release follows reservations that shrank: see memory.release.
func (m *meter) release(h holdings) {
	m.heap.release(h.heapBytes)
	m.offHeap.release(h.offHeapBytes)
}

// nonGo estimates the private memory outside the Go runtime: what is resident
// less what Go has mapped. Go maps before it touches, so the difference is too
// low while the heap grows into fresh memory: the estimate never goes below
// least, and falls only when Go's memory in use did not grow since last.
func nonGo(anonBytes, goBytes, lastBytes, leastBytes int64, goGrew bool) int64 {
	n := anonBytes - goBytes
	if goGrew {
		n = max(n, lastBytes)
	}
	return min(max(n, leastBytes), anonBytes)
}
