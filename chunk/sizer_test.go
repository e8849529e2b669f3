package chunk

import (
	"math"
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
		name string
		from state
		in   readings
		want int64
	}{
		{"rests before it grows", state{mib, 0}, readings{plenty, level.Normal}, mib},
		{"grows after a rest", state{mib, calm}, readings{plenty, level.Normal}, 2 * mib},
		{"not above the maximum", state{16 * mib, calm}, readings{plenty, level.Normal}, 16 * mib},
		{"not when elevated", state{mib, calm}, readings{plenty, level.Elevated}, mib},
		{"not into the last headroom", state{mib, calm}, readings{7*mib - 1, level.Normal}, mib},
		{"just into the headroom", state{mib, calm}, readings{7 * mib, level.Normal}, 2 * mib},
		{"halves when high", state{mib, calm}, readings{plenty, level.High}, 512 * kib},
		{"least when critical", state{16 * mib, calm}, readings{plenty, level.Critical}, 64 * kib},
		{"falls with the headroom", state{16 * mib, calm}, readings{mib, level.Normal}, 4 * mib},
		{"the lower of both", state{16 * mib, calm}, readings{0, level.High}, 4 * mib},
		{"not below the minimum", state{64 * kib, calm}, readings{0, level.High}, 64 * kib},
		{"negative headroom", state{mib, 0}, readings{-5, level.Normal}, 256 * kib},
	} {
		got := c.from.next(c.in, l)
		assert.Equal(t, c.want, got.bytes, c.name)
		if c.want != c.from.bytes {
			assert.Zero(t, got.calm, c.name)
		}
	}
}

// TestSizerFollows: the size falls within one step and takes a row of steps for
// each doubling on its way up.
func TestSizerFollows(t *testing.T) {
	a := newAccount(t, plenty)
	s, err := NewSizer(SizerConfig{Account: a, MaxBytes: 4 * mib})
	require.NoError(t, err)
	up := func(from, to int64) {
		for n := from; n < to; n *= 2 {
			for range calmSteps - 1 {
				require.Equal(t, n, s.Next())
			}
			require.Equal(t, 2*n, s.Next())
		}
	}
	up(mib, 4*mib)
	a.set(plenty, level.Critical)
	require.EqualValues(t, 64*kib, s.Next())
	a.set(plenty, level.Normal)
	up(64*kib, 512*kib)
	a.set(mib, level.Normal)
	require.EqualValues(t, 256*kib, s.Next())
	for range 5 * calmSteps {
		require.EqualValues(t, 256*kib, s.Next(), "rests where the headroom holds it")
	}
	s.refused(100 * kib)
	require.EqualValues(t, 100*kib, s.Bytes())
	s.refused(1)
	require.EqualValues(t, 64*kib, s.Bytes())
}
