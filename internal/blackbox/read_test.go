package blackbox

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
)

// recorded is the content of a small file with all kinds of records, and the
// samples in it.
func recorded(t testing.TB) ([]byte, map[uint64]Sample) {
	t.Helper()
	w := create(t, MinSizeBytes)
	w.Limits(start, []Limit{{Source: "cgroup v2 memory.max", Path: "/job", ID: 1}})
	for n := range 300 {
		s := sampleOf(n)
		w.Sample(&s)
		if n%10 == 0 {
			w.Transition(Transition{At: s.At, Reason: "r"})
			w.Holders(Holders{At: s.At, Top: []Holder{{"h", 1}}})
			w.Phase(s.At, "p", 1)(s.At, 2)
		}
	}
	w.Close(start, "")
	content, err := os.ReadFile(w.path)
	require.NoError(t, err)
	samples := map[uint64]Sample{}
	for _, s := range read(t, w).Samples {
		samples[s.Number] = s
	}
	require.NotEmpty(t, samples)
	return content, samples
}

// checkSamples: what was read is what was written, be it less.
func checkSamples(t testing.TB, f *File, written map[uint64]Sample) {
	for _, s := range f.Samples {
		if w, ok := written[s.Number]; !ok || w != s {
			require.Equal(t, w, s, "a sample that was never written")
		}
	}
}

func TestCutAtEachLength(t *testing.T) {
	content, written := recorded(t)
	step := 1
	if testing.Short() || invariants.Enabled {
		step = 97 // the race detector has nothing to find here
	}
	for n := 0; n <= len(content); n += step {
		f, err := Read(bytes.NewReader(content[:n]))
		if n < slotsOf[kindHeader]*slotBytes {
			if n < slotBytes {
				require.ErrorIs(t, err, ErrNotRecord)
			}
			continue
		}
		require.NoError(t, err)
		require.Equal(t, int64(len(content)-n), f.Damage.MissingBytes)
		require.LessOrEqual(t, f.Damage.Slots, slotsOf[kindLimits], "only the record that was cut")
		checkSamples(t, f, written)
		if n == len(content) {
			require.Len(t, f.Samples, len(written))
			require.Equal(t, Damage{}, f.Damage)
		}
	}
}

func TestFlippedBytes(t *testing.T) {
	content, written := recorded(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		bad := bytes.Clone(content)
		flipped := map[int]bool{}
		for range 1 + rng.IntN(50) {
			i := rng.IntN(len(bad))
			bad[i] ^= byte(1 + rng.IntN(255))
			flipped[i/slotBytes] = true
		}
		f, err := Read(bytes.NewReader(bad))
		require.NoError(t, err)
		checkSamples(t, f, written)
		require.NotZero(t, f.Damage.Slots, "a flipped byte shows, in an empty slot too")
		lost := 0
		if f.HeaderLost {
			lost = slotsOf[kindHeader] - 1
		}
		if len(f.LimitSets) == 0 {
			lost += slotsOf[kindLimits] - 1
		}
		require.LessOrEqual(t, f.Damage.Slots-lost, 2*len(flipped), "no good record is lost")
	}
}

func TestVersionOfTheFuture(t *testing.T) {
	content, _ := recorded(t)
	content[frameBytes+len(magic)] = 9
	seal(content[:slotsOf[kindHeader]*slotBytes], kindHeader, 1)
	_, err := Read(bytes.NewReader(content))
	assert.ErrorIs(t, err, ErrVersion)
}

func TestHeaderLost(t *testing.T) {
	w := create(t, MinSizeBytes)
	s := sampleOf(7)
	w.Sample(&s)
	require.NoError(t, w.store.put(40, []byte("scribble")))
	f := read(t, w)
	assert.True(t, f.HeaderLost)
	assert.True(t, f.Damage.Undecided)
	assert.Equal(t, Header{Run: "5f3c", Host: "n2", Rank: 3, PID: 4242}, f.Header, "from the name")
	assert.Equal(t, []Sample{s}, f.Samples)
}

// readDir sorts what Files yields.
func readDir(dir string) (files []*File, errs []error) {
	for f, err := range Files(dir) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files = append(files, f)
	}
	return files, errs
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for rank := range 3 {
		h := testHeader()
		h.Rank = rank
		w, err := Create(dir, h, MinSizeBytes, nil)
		require.NoError(t, err)
		w.Close(start, "")
	}
	require.NoError(t, os.WriteFile(dir+"/empty.mpiguard", nil, 0o600))
	require.NoError(t, os.WriteFile(dir+"/notes.txt", []byte("hello"), 0o600))
	require.NoError(t, os.Mkdir(dir+"/dir.mpiguard", 0o700))
	files, errs := readDir(dir)
	assert.Len(t, files, 3)
	assert.Len(t, errs, 2)
	_, errs = readDir(dir + "/none")
	assert.Len(t, errs, 1)
}

func FuzzRead(f *testing.F) {
	content, _ := recorded(f)
	f.Add(content)
	f.Add(content[:5000])
	f.Add(append(bytes.Clone(content), "panic: boom\n"...))
	f.Add([]byte("MPGBOX"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Good checksums, so that what is behind them is reached too.
		for off := 0; off+slotBytes <= len(b); off += slotBytes {
			if k := kind(b[off+4]); k >= kindHeader && int(k) < len(slotsOf) && off+slotsOf[k]*slotBytes <= len(b) && b[off+5] == 0 {
				seal(b[off:off+slotsOf[k]*slotBytes], k, uint64(b[off+8]))
			}
		}
		file, err := Read(bytes.NewReader(b))
		if err == nil {
			for i := range file.Samples {
				file.Limit(&file.Samples[i], file.Samples[i].Binding)
			}
		}
	})
}

func BenchmarkSample(b *testing.B) {
	for _, c := range []struct {
		name   string
		growth int64
	}{{"steady", 0}, {"growing", 1}} {
		b.Run(c.name, func(b *testing.B) {
			w := create(b, 0)
			s := sampleOf(1)
			at := start
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(5 * time.Millisecond)
				s.At = at
				s.AnonBytes += c.growth
				w.Sample(&s)
			}
		})
	}
}

func BenchmarkHolders(b *testing.B) {
	w := create(b, 0)
	h := Holders{At: start, Top: make([]Holder, MaxHolders)}
	for i := range h.Top {
		h.Top[i] = Holder{"the hash table of something", 1 << 20}
	}
	b.ReportAllocs()
	for b.Loop() {
		w.Holders(h)
	}
}

func BenchmarkRead(b *testing.B) {
	w := create(b, 0)
	for n := range 10_000 {
		s := sampleOf(n)
		w.Sample(&s)
	}
	for b.Loop() {
		_, _ = ReadFile(w.path)
	}
}
