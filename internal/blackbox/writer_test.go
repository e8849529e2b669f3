package blackbox

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/level"
)

var start = time.Unix(1_700_000_000, 123_456_789)

func testHeader() Header {
	return Header{
		Library: "v0.1.0", Run: "5f3c", Job: "4711", Host: "n2", BootID: "b", Program: "csvstats", Cgroup: "/job_4711/step_0",
		Rank: 3, Size: 4, PID: 4242, OwnPIDs: true, Started: start, InProc: true, InputBytes: 1 << 30, BaselineBytes: 9 << 20,
		KeepFree: 0.08, ElevatedAt: 0.7, HighAt: 0.85, CriticalAt: 0.95,
	}
}

func create(t testing.TB, sizeBytes int64) *Writer {
	t.Helper()
	w, err := Create(t.TempDir(), testHeader(), sizeBytes, func(err error) { t.Error(err) })
	require.NoError(t, err)
	return w
}

// sampleOf is a sample all fields of which follow from n: parts of two samples
// never make a third.
func sampleOf(n int) Sample {
	var s Sample
	b := int64(n)
	s.At = start.Add(time.Duration(n) * time.Millisecond)
	for i, p := range []*int64{
		&s.AnonBytes, &s.ShmemBytes, &s.FileBytes, &s.HighWaterBytes, &s.GoBytes, &s.NonGoBytes,
		&s.ReservedBytes, &s.UntouchedBytes, &s.UnaccountedBytes, &s.HeadroomBytes, &s.ChunkBytes, &s.OOMKills,
	} {
		*p = b*100 + int64(i)
	}
	s.Level, s.Binding = level.Level(n%4), n%3-1
	for i := range s.Limits {
		s.Limits[i] = LimitUse{LimitBytes: b*100 + 50 + int64(i), UsedBytes: b*100 + 60 + int64(i)}
	}
	return s
}

// bare is a sample without what the Writer fills in.
func bare(s Sample) Sample {
	s.Number, s.LimitSet, s.PeakAnonBytes = 0, 0, 0
	for i := range s.Limits {
		s.Limits[i].PeakUsedBytes = 0
	}
	return s
}

func read(t testing.TB, w *Writer) *File {
	t.Helper()
	f, err := ReadFile(w.path)
	require.NoError(t, err)
	return f
}

func TestEverythingReadsBack(t *testing.T) {
	w := create(t, MinSizeBytes)
	limits := []Limit{
		{"cgroup v2 memory.max", "/job_4711", ScopeCgroup, "hard", 1 << 63, 4, 16 << 20},
		{"MemTotal", "/proc/meminfo", ScopeNode, "hard", 7, 8, 2 << 30},
	}
	w.Limits(start, limits)
	s := sampleOf(1)
	w.Sample(&s)
	tr := Transition{start, level.Normal, level.High, "group /job_4711: 187 MiB used of 200 MiB"}
	w.Transition(tr)
	assert.True(t, w.HoldersDue(start))
	h := Holders{start.Add(1), 9, 300, []Holder{{"hash table", 200}, {"cache", 100}}}
	w.Holders(h)
	assert.False(t, w.HoldersDue(start.Add(50*time.Millisecond)))
	endA := w.Phase(start, "read", 10)
	w.Phase(start.Add(2), "assemble", 20)
	s2 := sampleOf(2)
	w.Sample(&s2)
	endA(start.Add(3), 30)
	endA(start.Add(4), 40)
	assert.True(t, read(t, w).Held, "while the writer lives")
	w.Close(start.Add(5), "not released before Close")
	w.Close(start.Add(6), "again")
	w.Sample(&s2)

	f := read(t, w)
	want := testHeader()
	want.FileBytes, want.Locked = MinSizeBytes, f.Header.Locked
	assert.Equal(t, want, f.Header)
	assert.Equal(t, []LimitSet{{start, 1, limits}}, f.LimitSets)
	assert.Equal(t, []Sample{s, s2}, f.Samples)
	assert.Equal(t, s2.AnonBytes, f.Samples[1].PeakAnonBytes)
	assert.Equal(t, s2.Limits[1].UsedBytes, f.Samples[1].Limits[1].PeakUsedBytes)
	assert.Equal(t, []Transition{tr}, f.Transitions)
	assert.Equal(t, []Holders{h}, f.Holders)
	assert.Equal(t, []Phase{
		{"read", start, start.Add(3), 10, 30, s2.AnonBytes},
		{"assemble", start.Add(2), time.Time{}, 20, 0, 20},
	}, f.Phases, "a sample counts for the phases that are under way")
	assert.Equal(t, &Close{start.Add(5), "not released before Close"}, f.Close)
	assert.Equal(t, Damage{}, f.Damage)
	assert.False(t, f.Held)
	l, ok := f.Limit(&f.Samples[0], 1)
	assert.True(t, ok)
	assert.Equal(t, limits[1], l)
	_, ok = f.Limit(&f.Samples[0], -1)
	assert.False(t, ok)
	info, err := os.Stat(w.path)
	require.NoError(t, err)
	assert.Equal(t, int64(MinSizeBytes), info.Size())
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// No record is longer than its slots, whatever it is given.
func TestRecordsFit(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	w := create(t, MinSizeBytes)
	many := make([]Limit, MaxLimits+3)
	for i := range many {
		many[i] = Limit{Source: long, Path: long, Kind: long}
	}
	w.Limits(start, many)
	w.Transition(Transition{Reason: long})
	w.Phase(start, long, 0)
	top := make([]Holder, MaxHolders+3)
	for i := range top {
		top[i].Name = long
	}
	w.Holders(Holders{Top: top})
	w.Close(start, long)
	f := read(t, w)
	assert.Len(t, f.LimitSets[0].Limits, MaxLimits)
	assert.Equal(t, strings.Repeat("ü", 300), f.LimitSets[0].Limits[4].Path)
	assert.Len(t, f.Holders[0].Top, MaxHolders)
	assert.Equal(t, strings.Repeat("ü", 23), f.Holders[0].Top[7].Name)
	assert.Equal(t, strings.Repeat("ü", 230), f.Transitions[0].Reason)
	assert.Equal(t, strings.Repeat("ü", 230), f.Close.Error)

	h := testHeader()
	h.Library, h.Run, h.Job, h.Host, h.BootID, h.Program, h.Cgroup = long, long, long, long, long, long, long
	w, err := Create(t.TempDir(), h, MinSizeBytes, nil)
	require.NoError(t, err)
	defer w.Close(start, "")
	got := read(t, w)
	assert.Equal(t, 3, got.Header.Rank)
	assert.Equal(t, 0.95, got.Header.CriticalAt)
}

// Control characters cannot reach a terminal through a record.
func TestTextsAreCleaned(t *testing.T) {
	w := create(t, MinSizeBytes)
	w.Transition(Transition{Reason: "a\x1b[31mb\nc\xffd"})
	assert.Equal(t, "a\uFFFD[31mb\uFFFDc\uFFFDd", read(t, w).Transitions[0].Reason)
}

// The last samples are all there, and of those before, the largest of each
// stretch.
func TestRingsKeepTheEndAndTheOutline(t *testing.T) {
	const samples, spike = 20_000, 700
	w := create(t, MinSizeBytes)
	for n := range samples {
		s := sampleOf(n)
		s.AnonBytes = 5
		if n == spike {
			s.AnonBytes = 1 << 30
		}
		w.Sample(&s)
	}
	f := read(t, w)
	recent := f.Samples[len(f.Samples)-w.recent.records:]
	for i, s := range recent {
		assert.Equal(t, sampleOf(samples-len(recent)+i).At, s.At)
	}
	assert.True(t, reflect.DeepEqual(Damage{}, f.Damage))
	var kept bool
	for _, s := range f.Samples {
		kept = kept || s.AnonBytes == 1<<30 && s.At.Equal(sampleOf(spike).At)
	}
	assert.True(t, kept, "the peak of its second")
	info, err := os.Stat(w.path)
	require.NoError(t, err)
	assert.Equal(t, int64(MinSizeBytes), info.Size(), "it does not grow")
	assert.Equal(t, int64(1<<30), f.Samples[len(f.Samples)-1].PeakAnonBytes)
	for i := 1; i < len(f.Samples); i++ {
		require.Less(t, f.Samples[i-1].Number, f.Samples[i].Number, "each once, in order")
	}
}

func TestSampleDoesNotAllocate(t *testing.T) {
	w := create(t, MinSizeBytes)
	defer w.Close(start, "")
	s := sampleOf(1)
	h := Holders{Top: []Holder{{"hash table", 1}}}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		s.At = s.At.Add(5 * time.Millisecond)
		s.AnonBytes++
		w.Sample(&s)
		if w.HoldersDue(s.At) {
			h.At = s.At
			w.Holders(h)
		}
	}))
}

func TestPeaksFollowTheLimitNotItsIndex(t *testing.T) {
	w := create(t, MinSizeBytes)
	w.Limits(start, []Limit{{ID: 1}, {ID: 2}})
	w.Sample(&Sample{Limits: [MaxLimits]LimitUse{{UsedBytes: 10}, {UsedBytes: 20}}})
	w.Limits(start, []Limit{{ID: 2}, {ID: 3}})
	w.Sample(&Sample{})
	s := read(t, w).Samples[1]
	assert.Equal(t, int64(20), s.Limits[0].PeakUsedBytes)
	assert.Equal(t, int64(0), s.Limits[1].PeakUsedBytes)
	assert.Equal(t, 2, s.LimitSet)
}

func TestNilWriterRecordsNothing(t *testing.T) {
	var w *Writer
	w.Limits(start, nil)
	w.Sample(&Sample{})
	w.Transition(Transition{})
	w.Holders(Holders{})
	w.Phase(start, "p", 1)(start, 2)
	w.Close(start, "")
	assert.False(t, w.HoldersDue(start))
	_, err := w.CrashOutput()
	assert.Error(t, err)
}

func TestConcurrentUse(t *testing.T) {
	w := create(t, MinSizeBytes)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 200 {
				s := sampleOf(n)
				w.Sample(&s)
				w.Transition(Transition{At: s.At})
				end := w.Phase(s.At, "p", 0)
				w.Holders(Holders{At: s.At})
				end(s.At, 0)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, Damage{}, read(t, w).Damage)
	w.Close(start, "")
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	h := testHeader()
	w, err := Create(filepath.Join(dir, "made"), h, 0, nil)
	require.NoError(t, err, "the last element of the directory is made")
	w.Close(start, "")
	_, err = Create(filepath.Join(dir, "made"), h, 0, nil)
	assert.ErrorIs(t, err, os.ErrExist, "no file is written over")
	_, err = Create(filepath.Join(dir, "no", "where"), h, 0, nil)
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Create(dir, h, 100, nil)
	assert.ErrorContains(t, err, "100 bytes")

	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("precious"), 0o600))
	if err := os.Symlink(target, filepath.Join(dir, fileName(&h))); err == nil {
		_, err = Create(dir, h, 0, nil)
		assert.Error(t, err, "no link is followed")
		got, _ := os.ReadFile(target)
		assert.Equal(t, "precious", string(got))
	}
}

func TestNames(t *testing.T) {
	for _, h := range []Header{
		testHeader(),
		{Run: "../../etc_x", Host: "a/b\x00c.d-e_f", Rank: 12345, PID: 1},
		{},
	} {
		name := fileName(&h)
		assert.Equal(t, name, filepath.Base(name))
		got, ok := headerOfName(name)
		assert.True(t, ok)
		assert.Equal(t, h.Rank, got.Rank)
		assert.Equal(t, h.PID, got.PID)
		assert.Equal(t, nameable(h.Host), got.Host)
		assert.Equal(t, nameable(h.Run), got.Run)
	}
	for _, bad := range []string{"", "x.mpiguard", "a_b_c_d.mpiguard", "a_1_c_2"} {
		_, ok := headerOfName(bad)
		assert.False(t, ok, bad)
	}
}
