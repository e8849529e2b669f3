package chunk

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/level"
)

// twoCores makes sure that reading ahead is not turned off.
func twoCores(t *testing.T) {
	old := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// TestFeeds: however the input gets into memory, the loop sees the same.
func TestFeeds(t *testing.T) {
	twoCores(t)
	name := filepath.Join(t.TempDir(), "input")
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		data := randomText(rng, 1+rng.IntN(20000))
		require.NoError(t, os.WriteFile(name, []byte(data+"beyond\nthe end"), 0o600))
		f, err := os.Open(name)
		require.NoError(t, err)
		size := int64(len(data))
		ranks := 1 + rng.IntN(5)
		buffer := 1 + rng.Int64N(6000)
		for _, cfg := range []Config{{}, {ReadAhead: true}, {Mmap: true}} {
			a := newAccount(t, plenty)
			cfg.Account, cfg.Sizer, cfg.MaxLineBytes = a, Pin(buffer), size
			var chunks, lines, blocks []string
			for rank := range ranks {
				span := Partition(size, ranks, rank)
				part, err := collect(ReadAt(t.Context(), f, span, cfg))
				require.NoError(t, err)
				for _, c := range part[:max(len(part)-1, 0)] {
					require.EqualValues(t, buffer, len(c))
				}
				chunks = append(chunks, part...)
				part, err = collect(LinesAt(t.Context(), f, size, span, cfg))
				require.NoError(t, err)
				lines = append(lines, part...)
				part, err = collect(LineBlocksAt(t.Context(), f, size, span, cfg))
				require.NoError(t, err)
				blocks = append(blocks, part...)
			}
			require.Equal(t, data, strings.Join(chunks, ""), "seed %d", seed)
			require.Equal(t, data, strings.Join(blocks, ""), "seed %d", seed)
			require.Equal(t, bare(oracle(data)), append([]string{}, lines...), "seed %d", seed)
			a.checkEmpty(t)
		}
		f.Close()
	}
}

func TestMmapFileChanges(t *testing.T) {
	name := filepath.Join(t.TempDir(), "input")
	const page, size = 4 << 10, 20 << 10
	line := strings.Repeat("x", 99) + "\n"
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat(line, size/100+1)[:size]), 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	cfg := Config{Account: newAccount(t, plenty), Sizer: Pin(page), Mmap: true}
	n, yields := 0, 0
	for b, e := range ReadAt(t.Context(), f, Span{0, size}, cfg) {
		if err = e; err != nil {
			break
		}
		n += len(b)
		if yields++; yields == 2 {
			require.NoError(t, f.Truncate(10<<10))
		}
	}
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualError(t, err, "chunk: at offset 10240: the input ends before offset 20480: unexpected EOF")
	assert.Equal(t, 10<<10, n, "what is there is yielded")

	_, err = collect(LinesAt(t.Context(), f, size, Span{0, size}, cfg))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestReadAhead: the next chunk is read while the loop works, into a second buffer,
// and no further.
func TestReadAhead(t *testing.T) {
	twoCores(t)
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, plenty)
		r := &slowReader{r: bytes.NewReader(make([]byte, 10<<10)), delay: time.Second}
		cfg := Config{Account: a, Sizer: Pin(1 << 10), ReadAhead: true}
		start := time.Now()
		n := 0
		for c, err := range Read(t.Context(), r, cfg) {
			require.NoError(t, err)
			n += len(c)
			synctest.Wait()
			require.LessOrEqual(t, r.reads.Load(), int64(n>>10)+1)
			require.LessOrEqual(t, a.size, int64(2*offheapPage))
			time.Sleep(time.Second)
		}
		assert.Equal(t, 10<<10, n)
		assert.Equal(t, 11*time.Second, time.Since(start), "reading and working overlap")
		assert.EqualValues(t, 2*offheapPage, a.peak)

		// One core: no second buffer.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		a.peak = 0
		_, err := collect(Read(t.Context(), bytes.NewReader(make([]byte, 10<<10)), cfg))
		require.NoError(t, err)
		assert.EqualValues(t, offheapPage, a.peak)
	})
}

type slowReader struct {
	r     io.Reader
	delay time.Duration
	reads atomic.Int64
}

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(s.delay)
	s.reads.Add(1)
	return s.r.Read(p)
}

// TestReadAheadGivesWay: the second buffer goes when the account has no room or the
// level is high, and the loop goes on with one.
func TestReadAheadGivesWay(t *testing.T) {
	twoCores(t)
	data := bytes.Repeat([]byte("0123456\n"), 1<<10)
	a := newAccount(t, 2*offheapPage)
	i := 0
	var got []byte
	for b, err := range LineBlocks(t.Context(), bytes.NewReader(data), Config{Account: a, Sizer: Pin(500), ReadAhead: true}) {
		require.NoError(t, err)
		got = append(got, b...)
		switch i++; i {
		case 2:
			require.EqualValues(t, 2*offheapPage, a.size)
			a.set(offheapPage, level.Normal)
		case 4:
			require.EqualValues(t, 2*offheapPage, a.size, "what it has it keeps")
			a.set(2*offheapPage, level.High)
		case 6:
			require.EqualValues(t, offheapPage, a.size)
			a.set(2*offheapPage, level.Normal)
		case 8:
			require.EqualValues(t, 2*offheapPage, a.size)
		}
	}
	assert.Equal(t, data, got)

	a.set(offheapPage, level.Normal)
	chunks, err := collect(Read(t.Context(), bytes.NewReader(data), Config{Account: a, Sizer: Pin(500), ReadAhead: true}))
	require.NoError(t, err)
	assert.Equal(t, string(data), strings.Join(chunks, ""))
}

// TestReadAheadStops: leaving the loop waits for the read that is under way, so that
// no goroutine is left and no byte in the account.
func TestReadAheadStops(t *testing.T) {
	twoCores(t)
	data := strings.Repeat("line\n", 100)
	for at := range 20 {
		synctest.Test(t, func(t *testing.T) {
			a := newAccount(t, plenty)
			i := 0
			r := &slowReader{r: strings.NewReader(data), delay: time.Second}
			for range Lines(t.Context(), r, Config{Account: a, Sizer: Pin(25), ReadAhead: true}) {
				if i++; i > at {
					break
				}
			}
			a.checkEmpty(t)
		})
	}
}
