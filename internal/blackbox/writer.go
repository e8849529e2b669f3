package blackbox

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// DefaultSizeBytes is the size of a file: the last ten seconds and more of a
// rank that is sampled every 5 ms, and the outline of a day and a half.
const DefaultSizeBytes = 1 << 20

// MinSizeBytes is the least size of a file.
const MinSizeBytes = 64 << 10

// holdersEvery is the least time between two records of the largest reservations.
const holdersEvery = 100 * time.Millisecond

// Writer writes the file of one rank. Its methods may be called from any
// goroutine. A nil *Writer records nothing.
//
// The first failure (the file was cut short, the disk is full) goes to the
// function given to Create; after it the Writer records nothing more. No method
// returns an error or panics because of the file.
type Writer struct {
	mu     sync.Mutex
	fault  bool // what debug.SetPanicOnFault was before begin
	path   string
	store  *store // nil once it failed or was closed
	failed func(error)
	number uint64
	buf    [maxRecordBytes]byte

	limits, events, holders ring
	closeSlot               int
	recent                  ring
	outline                 [4]window

	limitSet    LimitSet
	peakAnon    int64
	peakUsed    [MaxLimits]int64
	phases      []*Phase
	lastHolders time.Time
}

// ring is a range of slots for records of one kind, the oldest of which makes
// room for the next.
type ring struct{ first, records, each, next int }

// place is the slot of the next record.
func (r *ring) place() int {
	slot := r.first + r.next*r.each
	r.next = (r.next + 1) % r.records
	return slot
}

// window keeps the largest sample of each stretch of time.
type window struct {
	ring
	span    time.Duration
	index   int64 // of the stretch since 1970
	slot    int
	largest int64
}

// Create makes the file of a rank in a directory that belongs to the user; the
// last element of dir is made if it is missing. sizeBytes is the size of the
// file, 0 for DefaultSizeBytes. failed is called at most once, from a method of
// the Writer; it must not call the Writer.
//
// Memory is mapped and no system call made for a record where the system and the
// file system have what that needs: Linux, fallocate. Elsewhere a record is one
// pwrite.
func Create(dir string, h Header, sizeBytes int64, failed func(error)) (*Writer, error) {
	if sizeBytes == 0 {
		sizeBytes = DefaultSizeBytes
	}
	if sizeBytes < MinSizeBytes || sizeBytes > maxFileBytes {
		return nil, fmt.Errorf("a record of %d bytes, want %d to %d", sizeBytes, MinSizeBytes, maxFileBytes)
	}
	h.FileBytes = sizeBytes / slotBytes * slotBytes
	f, err := makeFile(dir, fileName(&h))
	if err != nil {
		return nil, err
	}
	h.Locked = lock(f)
	s, err := openStore(f, h.FileBytes)
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	w := &Writer{path: f.Name(), store: s, failed: func(e error) { err = e }}
	w.layOut(int(h.FileBytes / slotBytes))
	if w.writeHeader(&h); w.store == nil {
		os.Remove(w.path)
		return nil, err
	}
	w.failed = failed
	return w, nil
}

func (w *Writer) writeHeader(h *Header) {
	w.begin()
	defer w.end()
	c := coder{buf: w.payload(kindHeader)}
	c.off = copy(c.buf, magic+string([]byte{version, 0}))
	h.code(&c)
	w.put(0, w.sealed(kindHeader))
}

// layOut divides the slots of the file. FORMAT.md says how.
func (w *Writer) layOut(slots int) {
	next := slotsOf[kindHeader]
	divide := func(n int, k kind) ring {
		r := ring{first: next, records: n / slotsOf[k], each: slotsOf[k]}
		next += r.records * r.each
		return r
	}
	w.limits = divide(2*slotsOf[kindLimits], kindLimits)
	w.closeSlot = divide(slotsOf[kindClose], kindClose).first
	rest := slots - next
	w.recent = divide(rest/2, kindSample)
	for i, span := range []time.Duration{1, 8, 64, 512} {
		w.outline[i] = window{ring: divide(rest/16, kindSample), span: span * time.Second, index: -1}
	}
	w.events = divide(rest/8, kindTransition)
	w.holders = divide(slots-next, kindHolders)
}

// payload is the zeroed payload of the record of a kind that comes next.
func (w *Writer) payload(k kind) []byte {
	b := w.buf[:slotsOf[k]*slotBytes]
	clear(b)
	return b[frameBytes:]
}

// sealed is the record whose payload was filled in.
func (w *Writer) sealed(k kind) []byte {
	w.number++
	b := w.buf[:slotsOf[k]*slotBytes]
	seal(b, k, w.number)
	return b
}

// begin locks the Writer and reports whether there is anything to do. If so, end
// must be deferred.
func (w *Writer) begin() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	if w.store == nil {
		w.mu.Unlock()
		return false
	}
	w.fault = debug.SetPanicOnFault(true)
	return true
}

// end unlocks the Writer. The kernel answers a store with SIGBUS when somebody
// has cut the mapped file short, or when the file system has no room for the page
// after all (copy on write, a quota, a failed disk). No check beforehand can rule
// that out; between begin and end the runtime makes it a panic of this goroutine,
// which ends here.
func (w *Writer) end() {
	r := recover()
	if _, fault := r.(interface{ Addr() uintptr }); fault {
		w.fail(fmt.Errorf("%s: cut short while it was written, or no room on the disk", w.path))
		r = nil
	}
	debug.SetPanicOnFault(w.fault)
	w.mu.Unlock()
	if r != nil {
		panic(r)
	}
}

// put writes a record.
func (w *Writer) put(slot int, record []byte) {
	if w.store == nil {
		return
	}
	if err := w.store.put(int64(slot)*slotBytes, record); err != nil {
		w.fail(err)
	}
}

// fail ends the recording.
func (w *Writer) fail(err error) {
	w.store.close()
	w.store = nil
	if w.failed != nil {
		w.failed(err)
	}
}

// Limits says which limits the samples from now on refer to by index; what is
// beyond MaxLimits is left out.
func (w *Writer) Limits(now time.Time, limits []Limit) {
	if !w.begin() {
		return
	}
	defer w.end()
	limits = limits[:min(len(limits), MaxLimits)]
	old, peaks := w.limitSet.Limits, w.peakUsed
	w.peakUsed = [MaxLimits]int64{}
	for i, l := range limits {
		for j := range old {
			if old[j].ID == l.ID {
				w.peakUsed[i] = peaks[j]
			}
		}
	}
	w.limitSet = LimitSet{now, w.limitSet.Number + 1, append([]Limit(nil), limits...)}
	w.limitSet.code(&coder{buf: w.payload(kindLimits)})
	w.put(w.limits.place(), w.sealed(kindLimits))
}

// Sample records s, of which it fills in what the Writer knows.
func (w *Writer) Sample(s *Sample) {
	if !w.begin() {
		return
	}
	defer w.end()
	w.peakAnon = max(w.peakAnon, s.AnonBytes)
	s.PeakAnonBytes, s.LimitSet = w.peakAnon, w.limitSet.Number
	for i := range s.Limits {
		w.peakUsed[i] = max(w.peakUsed[i], s.Limits[i].UsedBytes)
		s.Limits[i].PeakUsedBytes = w.peakUsed[i]
	}
	for _, p := range w.phases {
		p.PeakAnonBytes = max(p.PeakAnonBytes, s.AnonBytes)
	}
	s.code(&coder{buf: w.buf[frameBytes:slotBytes]}) // it fills the payload to the last byte
	record := w.sealed(kindSample)
	s.Number = w.number
	w.put(w.recent.place(), record)
	// The largest sample of a stretch is written over as larger ones come, so
	// that it is there whenever the process ends.
	for i := range w.outline {
		o := &w.outline[i]
		if index := s.At.UnixNano() / int64(o.span); index != o.index {
			o.index, o.slot, o.largest = index, o.place(), s.AnonBytes
		} else if s.AnonBytes > o.largest {
			o.largest = s.AnonBytes
		} else {
			continue
		}
		w.put(o.slot, record)
	}
}

// Transition records a change of the level.
func (w *Writer) Transition(t Transition) {
	if !w.begin() {
		return
	}
	defer w.end()
	t.code(&coder{buf: w.payload(kindTransition)})
	w.put(w.events.place(), w.sealed(kindTransition))
}

// HoldersDue reports whether it is time for a record of the largest
// reservations: the caller need not sort them before.
func (w *Writer) HoldersDue(now time.Time) bool {
	if !w.begin() {
		return false
	}
	defer w.end()
	return now.Sub(w.lastHolders) >= holdersEvery
}

// Holders records the largest reservations.
func (w *Writer) Holders(h Holders) {
	if !w.begin() {
		return
	}
	defer w.end()
	w.lastHolders = h.At
	h.Top = h.Top[:min(len(h.Top), MaxHolders)]
	h.code(&coder{buf: w.payload(kindHolders)})
	w.put(w.holders.place(), w.sealed(kindHolders))
}

// Phase records that a stretch of the program begins, and that it has ended when
// end is called with the private memory of that moment. Phases may overlap. A
// second call of end does nothing.
func (w *Writer) Phase(now time.Time, name string, anonBytes int64) (end func(now time.Time, anonBytes int64)) {
	p := &Phase{Name: name, Start: now, StartAnonBytes: anonBytes, PeakAnonBytes: anonBytes}
	end = func(now time.Time, anonBytes int64) { w.endPhase(p, now, anonBytes) } // also where the file fails here
	if !w.begin() {
		return end
	}
	defer w.end()
	w.phases = append(w.phases, p)
	w.phase(p)
	return end
}

func (w *Writer) endPhase(p *Phase, now time.Time, anonBytes int64) {
	if !w.begin() {
		return
	}
	defer w.end()
	if i := slices.Index(w.phases, p); i >= 0 {
		w.phases = slices.Delete(w.phases, i, i+1)
		p.End, p.EndAnonBytes, p.PeakAnonBytes = now, anonBytes, max(p.PeakAnonBytes, anonBytes)
		w.phase(p)
	}
}

func (w *Writer) phase(p *Phase) {
	p.code(&coder{buf: w.payload(kindPhase)})
	w.put(w.events.place(), w.sealed(kindPhase))
}

// CrashOutput is a file for debug.SetCrashOutput, which may be closed after that
// call: the text of a crash is appended to the record.
func (w *Writer) CrashOutput() (*os.File, error) {
	if w == nil {
		return nil, os.ErrInvalid
	}
	return os.OpenFile(w.path, os.O_WRONLY|os.O_APPEND, 0)
}

// Close marks the record as that of a guard that was closed, with the text of
// the error that its Close returned, and closes the file. A second Close does
// nothing.
func (w *Writer) Close(now time.Time, problem string) {
	if !w.begin() {
		return
	}
	defer w.end()
	m := Close{now, problem}
	m.code(&coder{buf: w.payload(kindClose)})
	w.put(w.closeSlot, w.sealed(kindClose))
	if w.store != nil {
		w.store.close()
		w.store = nil
	}
}
