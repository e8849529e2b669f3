package chunk

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/level"
)

const kib, mib = 1 << 10, 1 << 20

func TestSizerConfig(t *testing.T) {
	for _, c := range []struct {
		cfg      SizerConfig
		min, max int64
		start    int64
	}{
		{SizerConfig{}, 64 * kib, mib, mib},
		{SizerConfig{MinBytes: 8 * mib}, 8 * mib, 8 * mib, 8 * mib},
		{SizerConfig{MaxBytes: 8 * mib}, 64 * kib, 8 * mib, mib},
		{SizerConfig{MaxBytes: 10}, 10, 10, 10},
		{SizerConfig{MinBytes: 1, MaxBytes: math.MaxInt64}, 1, math.MaxInt64, mib},
	} {
		s, err := NewSizer(c.cfg)
		require.NoError(t, err)
		assert.Equal(t, limits{c.min, c.max}, s.limits)
		assert.Equal(t, c.start, s.Bytes())
	}
	_, err := NewSizer(SizerConfig{MinBytes: -1})
	assert.EqualError(t, err, "chunk: SizerConfig.MinBytes is -1, must not be negative")
	_, err = NewSizer(SizerConfig{MaxBytes: -1})
	assert.EqualError(t, err, "chunk: SizerConfig.MaxBytes is -1, must not be negative")
	_, err = NewSizer(SizerConfig{MinBytes: 20, MaxBytes: 10})
	assert.EqualError(t, err, "chunk: SizerConfig.MaxBytes is 10, below MinBytes, 20")
	assert.PanicsWithValue(t, "chunk: Pin: size below 1", func() { Pin(0) })
	for range 100 {
		require.EqualValues(t, 12345, Pin(12345).Next())
	}
}

func TestSizerSteps(t *testing.T) {
	l := limits{64 * kib, 16 * mib}
	calm := calmSteps - 1
	for _, c := range []struct {
		name     string
		bytes    int64
		calm     int
		headroom int64
		level    level.Level
		want     int64
	}{
		{"rests before it grows", mib, 0, plenty, level.Normal, mib},
		{"grows after a rest", mib, calm, plenty, level.Normal, 3 * mib / 2},
		{"not above the maximum", 16 * mib, calm, plenty, level.Normal, 16 * mib},
		{"up to the maximum", 14 * mib, calm, plenty, level.Normal, 16 * mib},
		{"not when elevated", mib, calm, plenty, level.Elevated, mib},
		{"not for less than a quarter", mib, calm, 5 * mib, level.Normal, mib},
		{"for a quarter", mib, calm, 16*mib/3 + 2, level.Normal, 5 * mib / 4},
		{"not by more than there is room for", 4 * mib, calm, 22 * mib, level.Normal, 5 * mib},
		{"halves when high", mib, calm, plenty, level.High, 512 * kib},
		{"least when critical", 16 * mib, calm, plenty, level.Critical, 64 * kib},
		{"falls with the headroom", 16 * mib, calm, mib, level.Normal, 4 * mib},
		{"the lower of both", 16 * mib, calm, 0, level.High, 4 * mib},
		{"not below the minimum", 64 * kib, calm, 0, level.High, 64 * kib},
		{"negative headroom", mib, 0, -5, level.Normal, 256 * kib},
	} {
		from := l.start()
		from.bytes, from.calm = c.bytes, c.calm
		got := from.next(readings{c.headroom, c.level, unknownBytes}, l)
		assert.Equal(t, c.want, got.bytes, c.name)
		if c.want != c.bytes {
			assert.Zero(t, got.calm, c.name)
		}
	}
}

func TestQuarter(t *testing.T) {
	for n, want := range map[int64]int64{
		-1: 0, 0: 0, 1: 1, 3: 3, 4: 4, 7: 7, 8: 8, 9: 8, 10: 10, 15: 14, 16: 16, 19: 16, 20: 20,
		mib: mib, 5*mib/4 - 1: mib, 5 * mib / 4: 5 * mib / 4, 2*mib - 1: 7 * mib / 4,
		math.MaxInt64: 7 << 60,
	} {
		assert.Equal(t, want, quarter(n), n)
	}
}

// TestSizerFollows: the size falls within one step and takes a row of steps for each
// rise.
func TestSizerFollows(t *testing.T) {
	a := newAccount(t, plenty)
	s, err := NewSizer(SizerConfig{Account: a, MaxBytes: 4 * mib})
	require.NoError(t, err)
	s.memory = nil
	up := func(from int64, to ...int64) {
		for _, n := range to {
			for range calmSteps - 1 {
				require.Equal(t, from, s.Next())
			}
			require.Equal(t, n, s.Next())
			from = n
		}
	}
	up(mib, 3*mib/2, 2*mib, 3*mib, 4*mib)
	a.set(plenty, level.Critical)
	require.EqualValues(t, 64*kib, s.Next())
	a.set(plenty, level.Normal)
	up(64*kib, 96*kib, 128*kib, 192*kib, 256*kib, 384*kib, 512*kib)
	a.set(mib, level.Normal)
	require.EqualValues(t, 320*kib, s.Next())
	for range 5 * calmSteps {
		require.EqualValues(t, 256*kib, s.Next(), "rests where the headroom holds it")
	}
	s.Limit(10)
	require.EqualValues(t, 10, s.Next())
	require.EqualValues(t, 256*kib, s.Bytes())
	s.Limit(0)
	require.EqualValues(t, 256*kib, s.Next())
	assert.PanicsWithValue(t, "chunk: Limit: negative size", func() { s.Limit(-1) })
	assert.Zero(t, s.Cost(), "nothing was measured")

	s.refused(100 * kib)
	require.EqualValues(t, 100*kib, s.Bytes())
	s.refused(1)
	require.EqualValues(t, 64*kib, s.Bytes())
}

// TestSizerCutsOnce: a level that stays high while memory is given back is no reason
// to go on falling, and one under which the headroom falls is.
func TestSizerCutsOnce(t *testing.T) {
	l := limits{64 * kib, 16 * mib}
	s := l.start()
	for _, c := range []struct {
		headroom int64
		level    level.Level
		want     int64
	}{
		{800 * mib, level.Normal, mib},
		{160 * mib, level.High, 512 * kib},
		{160 * mib, level.High, 512 * kib},
		{151 * mib, level.High, 512 * kib},
		{149 * mib, level.High, 256 * kib},
		{148 * mib, level.High, 256 * kib},
		{200 * mib, level.Elevated, 256 * kib},
		{200 * mib, level.High, 128 * kib},
		{-5, level.High, 64 * kib},
	} {
		s = s.next(readings{c.headroom, c.level, unknownBytes}, l)
		require.Equal(t, c.want, s.bytes, "%+v", c)
	}
}

// plant is a program under a budget: what a Sizer controls. A chunk takes perByte
// bytes of memory for each of its own, which the process keeps, with garbage of the
// chunk before it, until the collector has run; the rest is its own.
type plant struct {
	budget, base, state, other int64
	perByte                    float64
	stale                      int // the headroom is sampled once in so many steps

	chunk, kept int64
	headroom    int64
	steps       int
}

// private is the memory of the process.
func (p *plant) private() int64 { return p.base + p.state + p.kept }

// run works on a chunk of n bytes.
func (p *plant) run(t *testing.T, n int64) {
	p.chunk = int64(p.perByte * float64(n))
	p.kept = max(p.kept-p.kept/8, p.chunk, min(2*p.chunk, p.kept+p.chunk))
	require.LessOrEqual(t, p.private()+p.other, p.budget, "step %d: killed", p.steps)
	if p.steps++; p.steps%p.stale == 0 {
		p.headroom = p.free()
	}
}

// free is what the guard calls headroom.
func (p *plant) free() int64 { return p.budget*92/100 - p.private() - p.other }

// level is that of a guard, roughly.
func (p *plant) level() level.Level {
	switch share := float64(p.free()) / float64(p.budget); {
	case share < 0.02:
		return level.Critical
	case share < 0.07:
		return level.High
	case share < 0.15:
		return level.Elevated
	}
	return level.Normal
}

// drive lets the Sizer work for so many steps and returns the last size.
func drive(t *testing.T, s state, l limits, p *plant, steps int, each func(i int)) state {
	for i := range steps {
		if each != nil {
			each(i)
		}
		in := readings{p.headroom, p.level(), unknownBytes}
		if s.wantsUsed() {
			in.usedBytes = p.private()
		}
		s = s.next(in, l)
		p.run(t, s.bytes)
	}
	return s
}

// TestSizerLearns: a program that needs many times the chunk is never killed, and
// uses most of its budget; a program that needs little gets large chunks.
func TestSizerLearns(t *testing.T) {
	l := limits{64 * kib, 64 * mib}
	for _, perByte := range []float64{1, 2, 5, 20, 60} {
		for _, stale := range []int{1, 7, 40} {
			p := &plant{budget: 256 * mib, base: 10 * mib, perByte: perByte, stale: stale}
			p.headroom = p.free()
			s := drive(t, l.start(), l, p, 1000, nil)
			if s.bytes == l.max {
				continue
			}
			assert.GreaterOrEqual(t, float64(p.private()), 0.6*float64(p.budget), "cost %v stale %d: size %d, learned %v", perByte, stale, s.bytes, s.cost)
		}
	}
}

// TestSizerTellsStateFromChunks: memory that grows while chunks do not is not taken
// for their price.
func TestSizerTellsStateFromChunks(t *testing.T) {
	l := limits{64 * kib, 4 * mib}
	p := &plant{budget: 512 * mib, base: 10 * mib, perByte: 3, stale: 5}
	p.headroom = p.free()
	s := drive(t, l.start(), l, p, 3000, func(int) { p.state += 100 * kib })
	assert.EqualValues(t, 4*mib, s.bytes)
	assert.InDelta(t, 6, s.cost, 2)
}

// TestSizerUnderPressure: another process takes 60 % of the budget and gives it back
// later. The size falls, the program lives, and the size comes back.
func TestSizerUnderPressure(t *testing.T) {
	l := limits{64 * kib, 64 * mib}
	for _, stale := range []int{1, 5} {
		p := &plant{budget: 256 * mib, base: 10 * mib, perByte: 10, stale: stale}
		p.headroom = p.free()
		s := drive(t, l.start(), l, p, 1000, nil)
		before := s.bytes
		s = drive(t, s, l, p, 300, func(int) { p.other = min(p.other+2*mib, 256*mib*6/10) })
		assert.Less(t, s.bytes, before/2)
		s = drive(t, s, l, p, 500, nil)
		assert.GreaterOrEqual(t, s.bytes, int64(mib), "goes on")
		p.other = 0
		s = drive(t, s, l, p, 1000, nil)
		assert.GreaterOrEqual(t, s.bytes, before*3/4)
	}
}

// TestSizerTraces replays what a Sizer read in a real program that needs twenty
// times the chunk, under 256 MiB: alone, and with another program that takes 60 % of
// that for a while. Each row is the headroom, the level, the memory and the size.
func TestSizerTraces(t *testing.T) {
	l := limits{64 * kib, 64 * mib}
	replay := func(name string) (sizes []int64, in []readings) {
		f, err := os.Open(filepath.Join("testdata", name))
		require.NoError(t, err)
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		require.NoError(t, err)
		s := l.start()
		for i, row := range rows {
			var v [4]int64
			for j := range v {
				v[j], err = strconv.ParseInt(row[j], 10, 64)
				require.NoError(t, err)
			}
			in = append(in, readings{v[0], level.Level(v[1]), v[2]})
			s = s.next(in[i], l)
			sizes = append(sizes, s.bytes)
			require.Equal(t, v[3], s.bytes, "%s, step %d", name, i)
		}
		return sizes, in
	}

	sizes, _ := replay("sizer-alone.csv")
	for i := 1; i < len(sizes); i++ {
		require.GreaterOrEqual(t, sizes[i], sizes[i-1], "step %d: fell without a reason", i)
	}
	assert.GreaterOrEqual(t, sizes[len(sizes)-1], int64(2*mib))

	sizes, in := replay("sizer-pressed.csv")
	least, high := 0, 0
	for i := range sizes {
		if high == 0 && in[i].level >= level.High {
			high, least = i, i
		}
		if high > 0 && sizes[i] < sizes[least] {
			least = i
		}
	}
	require.Positive(t, high)
	assert.LessOrEqual(t, sizes[high], sizes[high-1]/2, "down in the step in which the level rises")
	assert.Less(t, sizes[least], sizes[high-1]/2)
	assert.GreaterOrEqual(t, sizes[len(sizes)-1], sizes[high-1]*3/4, "and up again in the end")
}
