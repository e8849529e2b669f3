package chunk

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		data := strings.Repeat("0123456789", 30)[:rng.IntN(300)]
		size := 1 + rng.IntN(100)
		cfg := Config{Account: newAccount(t, plenty), Sizer: Pin(int64(size))}
		for _, r := range []io.Reader{
			strings.NewReader(data),
			iotest.OneByteReader(strings.NewReader(data)),
			iotest.DataErrReader(strings.NewReader(data)),
		} {
			got, err := collect(Read(t.Context(), r, cfg))
			require.NoError(t, err)
			require.Equal(t, data, strings.Join(got, ""))
			for i, c := range got {
				if i < len(got)-1 {
					require.Len(t, c, size, "every chunk but the last is full")
				}
				require.NotEmpty(t, c)
			}
		}
		ranks := 1 + rng.IntN(10)
		var all []string
		for rank := range ranks {
			got, err := collect(ReadAt(t.Context(), strings.NewReader(data), Partition(int64(len(data)), ranks, rank), cfg))
			require.NoError(t, err)
			all = append(all, got...)
		}
		require.Equal(t, data, strings.Join(all, ""))
	}
}

func TestReadAtTakesNoMoreThanTheSpan(t *testing.T) {
	a := newAccount(t, plenty)
	for range ReadAt(t.Context(), strings.NewReader("0123456789"), Span{2, 5}, Config{Account: a}) {
		assert.EqualValues(t, offheapPage, a.size)
	}
}

// TestFileChanges: a file that shrinks while it is read is an error with offsets,
// and one that grows is read as far as was asked.
func TestFileChanges(t *testing.T) {
	name := filepath.Join(t.TempDir(), "input")
	const size = 100
	line := strings.Repeat("x", 9) + "\n"
	cfg := Config{Account: newAccount(t, plenty), Sizer: Pin(20)}
	whole := Span{0, size}
	change := func(to int64) *os.File {
		require.NoError(t, os.WriteFile(name, []byte(strings.Repeat(line, size/10)), 0o600))
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		require.NoError(t, f.Truncate(to))
		return f
	}

	got, err := collect(ReadAt(t.Context(), change(55), whole, cfg))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualError(t, err, "chunk: at offset 55: the input ends before offset 100: unexpected EOF")
	assert.Len(t, strings.Join(got, ""), 55, "what is there is yielded")

	got, err = collect(LinesAt(t.Context(), change(55), size, whole, cfg))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualError(t, err, "chunk: line 6 at offset 55: the input ends before offset 100: unexpected EOF")
	assert.Len(t, got, 5)

	// A rank that looks for its first line finds out too, even at the edge.
	for _, to := range []int64{0, 30, 49, 50, 99} {
		_, err = collect(LinesAt(t.Context(), change(to), size, Span{55, 45}, cfg))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "truncated to %d", to)
	}

	// The last line of what was asked ends where that ends.
	got, err = collect(LinesAt(t.Context(), change(200), 95, Partition(95, 2, 1), cfg))
	require.NoError(t, err)
	assert.Equal(t, "xxxxx", got[len(got)-1])
	assert.Len(t, got, 5)
}

func TestUnreadableFiles(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	_, err = collect(Lines(t.Context(), dir, Config{}))
	require.ErrorContains(t, err, "chunk: line 1 at offset 0: read "+dir.Name()+": is a directory")
	_, err = collect(LinesAt(t.Context(), dir, 100, Span{50, 50}, Config{}))
	require.ErrorContains(t, err, "chunk: at offset 49: read "+dir.Name()+": is a directory")
}

func TestSlice(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 100} {
		s := make([]float64, n)
		for i := range s {
			s[i] = float64(i)
		}
		var got []float64
		for part := range Slice(s, Config{Sizer: Pin(8 * 8)}) {
			require.LessOrEqual(t, len(part), 8)
			require.Equal(t, len(part), cap(part), "an append must not overwrite what follows")
			require.True(t, len(part) == 8 || len(got)+len(part) == n)
			got = append(got, part...)
		}
		require.Len(t, got, n)
		require.Equal(t, s, append(make([]float64, 0), got...))
	}
	for part := range Slice([]int64{1, 2, 3}, Config{Sizer: Pin(1)}) {
		assert.Len(t, part, 1, "an element at least")
	}
	for part := range Slice(make([]struct{}, 5), Config{Sizer: Pin(3)}) {
		assert.NotEmpty(t, part)
	}
	n := 0
	for range Slice(make([]byte, 10), Config{Sizer: Pin(2)}) {
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
	a := newAccount(t, 0)
	for part := range Slice(make([]byte, DefaultMaxBytes), Config{Account: a}) {
		assert.LessOrEqual(t, len(part), DefaultMaxBytes/4, "follows the account")
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	data := bytes.Repeat([]byte("some line of text\n"), 100_000)
	steps := func(cfg Config) (n int) {
		for _, err := range Lines(t.Context(), bytes.NewReader(data), cfg) {
			require.NoError(t, err)
			n++
		}
		for range Read(t.Context(), bytes.NewReader(data), cfg) {
			n++
		}
		for range Slice(data, cfg) {
			n++
		}
		return n
	}
	a := newAccount(t, plenty)
	few := testing.AllocsPerRun(1, func() { steps(Config{Account: a, Sizer: Pin(2 << 20)}) })
	many := testing.AllocsPerRun(1, func() { steps(Config{Account: a, Sizer: Pin(1 << 10)}) })
	assert.Less(t, few, 50.)
	assert.LessOrEqual(t, many, few)
}
