package chunk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/level"
)

// oracle splits data into lines with their terminators.
func oracle(data string) []string {
	lines := strings.SplitAfter(data, "\n")
	return lines[:len(lines)-1+min(1, len(lines[len(lines)-1]))]
}

// bare takes the terminators off.
func bare(lines []string) []string {
	out := []string{}
	for _, l := range lines {
		if s, ok := strings.CutSuffix(l, "\r\n"); ok {
			l = s
		}
		out = append(out, strings.TrimSuffix(l, "\n"))
	}
	return out
}

func collect(seq iter.Seq2[[]byte, error]) ([]string, error) {
	out := []string{}
	for line, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, string(line))
	}
	return out, nil
}

// randomText returns up to n bytes of lines of random lengths.
func randomText(rng *rand.Rand, n int) string {
	ends := [][]string{{"\n"}, {"\r\n"}, {"\n", "\r\n", "\r", "\r\r\n"}}[rng.IntN(3)]
	longest := 1 + rng.IntN(1+rng.IntN(n+1))
	var sb strings.Builder
	for sb.Len() < n {
		for range rng.IntN(longest) {
			sb.WriteByte("ab;\x00\xff"[rng.IntN(5)])
		}
		sb.WriteString(ends[rng.IntN(len(ends))])
	}
	return sb.String()[:rng.IntN(n+1)] // often without a final newline
}

// TestLinesAtRanks: whatever the contents, the ranks and the size of the buffer,
// every line is read by exactly one rank, and the blocks of all are the file.
func TestLinesAtRanks(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		data := randomText(rng, 1+rng.IntN(300))
		size := int64(len(data))
		ra := strings.NewReader(data + "after the end\nof what was asked")
		ranks := 1 + rng.IntN(12)
		a := newAccount(t, plenty)
		cfg := Config{Account: a, Sizer: Pin(1 + rng.Int64N(64)), MaxLineBytes: size}

		var lines, blocks, owned []string
		for rank := range ranks {
			span := Partition(size, ranks, rank)
			part, err := collect(LinesAt(t.Context(), ra, size, span, cfg))
			require.NoError(t, err)
			lines = append(lines, part...)

			part, err = collect(LineBlocksAt(t.Context(), ra, size, span, cfg))
			require.NoError(t, err)
			for i, b := range part {
				require.True(t, strings.HasSuffix(b, "\n") || i == len(part)-1 && strings.HasSuffix(data, b), "block %q ends within a line", b)
			}
			blocks = append(blocks, part...)

			// Which lines these must be: those that start in the span.
			at := int64(0)
			for _, l := range oracle(data) {
				if at >= span.Offset && at < span.End() {
					owned = append(owned, l)
				}
				at += int64(len(l))
			}
			require.Equal(t, strings.Join(owned, ""), strings.Join(blocks, ""), "seed %d, rank %d of %d, %q", seed, rank, ranks, data)
		}
		require.Equal(t, data, strings.Join(blocks, ""), "seed %d", seed)
		require.Equal(t, bare(oracle(data)), append([]string{}, lines...), "seed %d", seed)
		a.checkEmpty(t)
	}
}

func TestLineSpanIsStable(t *testing.T) {
	data := "a\n\nlong long line\nb"
	size := int64(len(data))
	for off := range size + 1 {
		for n := range size - off + 1 {
			s, err := LineSpan(t.Context(), strings.NewReader(data), size, Span{off, n})
			require.NoError(t, err)
			again, err := LineSpan(t.Context(), strings.NewReader(data), size, s)
			require.NoError(t, err)
			require.Equal(t, s, again, "from %v", Span{off, n})
		}
	}
}

// TestLineSpanReadsLittle: a rank does not read the parts of the others.
func TestLineSpanReadsLittle(t *testing.T) {
	data := strings.Repeat(strings.Repeat("x", 99)+"\n", 10000)
	size := int64(len(data))
	c := &countingReaderAt{ReaderAt: strings.NewReader(data)}
	_, err := LineSpan(t.Context(), c, size, Partition(size, 4, 1))
	require.NoError(t, err)
	assert.LessOrEqual(t, c.bytes, int64(8<<10))
	c.bytes = 0
	span := Span{size/2 - 200, 400}
	_, err = collect(LinesAt(t.Context(), c, size, span, Config{}))
	require.NoError(t, err)
	assert.LessOrEqual(t, c.bytes, int64(8<<10)+span.Length+100)
}

type countingReaderAt struct {
	io.ReaderAt
	bytes int64
}

func (c *countingReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.bytes += int64(n)
	return n, err
}

func TestLinesOfReaders(t *testing.T) {
	readers := map[string]func(io.Reader) io.Reader{
		"plain":    func(r io.Reader) io.Reader { return r },
		"one byte": iotest.OneByteReader,
		"half":     iotest.HalfReader,
		"data err": iotest.DataErrReader,
	}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		data := randomText(rng, 1+rng.IntN(300))
		for name, wrap := range readers {
			cfg := Config{Account: newAccount(t, plenty), Sizer: Pin(1 + rng.Int64N(400)), MaxLineBytes: int64(len(data))}
			got, err := collect(Lines(t.Context(), wrap(strings.NewReader(data)), cfg))
			require.NoError(t, err)
			require.Equal(t, bare(oracle(data)), got, "seed %d, %s", seed, name)
			got, err = collect(LineBlocks(t.Context(), wrap(strings.NewReader(data)), cfg))
			require.NoError(t, err)
			require.Equal(t, data, strings.Join(got, ""), "seed %d, %s", seed, name)
		}
	}
}

func TestTerminators(t *testing.T) {
	for in, want := range map[string][]string{
		"":             {},
		"\n":           {""},
		"\r\n":         {""},
		"\r":           {"\r"},
		"\n\n":         {"", ""},
		"a":            {"a"},
		"a\r":          {"a\r"},
		"a\r\n":        {"a"},
		"a\r\r\n":      {"a\r"},
		"a\rb\nc":      {"a\rb", "c"},
		"a\n\r\nb\r\n": {"a", "", "b"},
	} {
		for size := int64(1); size < 8; size++ {
			got, err := collect(Lines(t.Context(), strings.NewReader(in), Config{Sizer: Pin(size), MaxLineBytes: 10}))
			require.NoError(t, err)
			assert.Equal(t, want, got, "%q", in)
		}
	}
}

func TestLongLines(t *testing.T) {
	const longest = 100
	line := strings.Repeat("x", longest)
	a := newAccount(t, plenty)
	cfg := Config{Account: a, Sizer: Pin(16), MaxLineBytes: longest}

	for _, end := range []string{"\n", ""} {
		got, err := collect(Lines(t.Context(), strings.NewReader("a\n"+line+end), cfg))
		require.NoError(t, err)
		assert.Equal(t, []string{"a", line}, got)
	}
	for _, end := range []string{"x\n", "x"} {
		input := "a\nb\n" + line + end
		for want, seq := range map[string]iter.Seq2[[]byte, error]{
			"chunk: line 3 at offset 4: line too long: no end within 100 bytes": Lines(t.Context(), strings.NewReader(input), cfg),
			"chunk: at offset 4: line too long: no end within 100 bytes":        LineBlocks(t.Context(), strings.NewReader(input), cfg),
		} {
			got, err := collect(seq)
			assert.Equal(t, "ab", strings.NewReplacer("\n", "").Replace(strings.Join(got, "")), "what came before is yielded")
			var e *Error
			require.ErrorAs(t, err, &e)
			assert.EqualValues(t, 4, e.OffsetBytes)
			require.ErrorIs(t, err, ErrLineTooLong)
			assert.EqualError(t, err, want)
		}
	}

	// The offset is that in the file.
	data := "a\nb\n" + line + "x\n"
	_, err := collect(LinesAt(t.Context(), strings.NewReader(data), int64(len(data)), Span{1, 4}, cfg))
	assert.EqualError(t, err, "chunk: line 2 at offset 4: line too long: no end within 100 bytes")
}

// TestSplitLongLines: pieces keep the terminators, so that together they are the
// input, and lines that fit are whole.
func TestSplitLongLines(t *testing.T) {
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		data := randomText(rng, 1+rng.IntN(300))
		const longest = 20
		cfg := Config{Account: newAccount(t, plenty), Sizer: Pin(1 + rng.Int64N(longest)), MaxLineBytes: longest, SplitLongLines: true}
		got, err := collect(Lines(t.Context(), strings.NewReader(data), cfg))
		require.NoError(t, err)
		require.Equal(t, data, strings.Join(got, ""))
		var whole []string
		for _, l := range oracle(data) {
			if len(strings.TrimSuffix(l, "\n")) <= longest {
				whole = append(whole, l)
			}
		}
		piece := false
		var kept []string
		for _, l := range got {
			require.LessOrEqual(t, len(l), longest+1)
			goesOn := !strings.HasSuffix(l, "\n")
			if last := strings.HasSuffix(data, l) && goesOn; !piece && (!goesOn || last && len(l) < longest) {
				kept = append(kept, l)
			}
			piece = goesOn
		}
		require.Subset(t, whole, kept)
		b, err := collect(LineBlocks(t.Context(), strings.NewReader(data), cfg))
		require.NoError(t, err)
		require.Equal(t, data, strings.Join(b, ""))
	}
}

// TestBreakReturnsEveryByte leaves each iterator at every index, by break and by
// panic.
func TestBreakReturnsEveryByte(t *testing.T) {
	data := strings.Repeat("some line\n", 40) + strings.Repeat("y", 50)
	size := int64(len(data))
	a := newAccount(t, plenty)
	cfg := Config{Account: a, Sizer: Pin(32), MaxLineBytes: 60}
	ctx := t.Context()
	for name, open := range map[string]func() iter.Seq2[[]byte, error]{
		"Read":   func() iter.Seq2[[]byte, error] { return Read(ctx, strings.NewReader(data), cfg) },
		"ReadAt": func() iter.Seq2[[]byte, error] { return ReadAt(ctx, strings.NewReader(data), Span{3, size - 3}, cfg) },
		"Lines":  func() iter.Seq2[[]byte, error] { return Lines(ctx, strings.NewReader(data), cfg) },
		"LinesAt": func() iter.Seq2[[]byte, error] {
			return LinesAt(ctx, strings.NewReader(data), size, Span{0, size}, cfg)
		},
		"LineBlocks": func() iter.Seq2[[]byte, error] { return LineBlocks(ctx, strings.NewReader(data), cfg) },
		"LineBlocksAt": func() iter.Seq2[[]byte, error] {
			return LineBlocksAt(ctx, strings.NewReader(data), size, Span{0, size}, cfg)
		},
	} {
		all, err := collect(open())
		require.NoError(t, err)
		require.Greater(t, len(all), 10, name)
		a.checkEmpty(t)
		for at := range len(all) {
			i := 0
			for range open() {
				require.Positive(t, a.size, "%s: the buffer is charged", name)
				if i++; i > at {
					break
				}
			}
			a.checkEmpty(t)
			i = 0
			require.Panics(t, func() {
				for range open() {
					if i++; i > at {
						panic("in the loop")
					}
				}
			})
			a.checkEmpty(t)
		}
	}
}

var errDisk = errors.New("disk on fire")

func TestReadErrors(t *testing.T) {
	broken := func() io.Reader {
		return io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(errDisk))
	}
	cfg := Config{Account: newAccount(t, plenty), Sizer: Pin(6), MaxLineBytes: 10}

	got, err := collect(Read(t.Context(), broken(), cfg))
	require.ErrorIs(t, err, errDisk)
	assert.EqualError(t, err, "chunk: at offset 11: disk on fire")
	assert.Equal(t, []string{"one\ntw", "o\nthr"}, got)

	got, err = collect(Lines(t.Context(), broken(), cfg))
	require.ErrorIs(t, err, errDisk)
	assert.EqualError(t, err, "chunk: line 3 at offset 11: disk on fire")
	assert.Equal(t, []string{"one", "two"}, got)

	_, err = collect(Lines(t.Context(), stuckReader{}, cfg))
	require.ErrorIs(t, err, io.ErrNoProgress)
	_, err = collect(Read(t.Context(), lyingReader{}, cfg))
	require.ErrorContains(t, err, "chunk.lyingReader returned an impossible count, 7 of 6 bytes")

	cfg.MaxLineBytes = -1
	_, err = collect(Read(t.Context(), broken(), cfg))
	require.EqualError(t, err, "chunk: Config.MaxLineBytes is -1, must not be negative")
}

type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }

type lyingReader struct{}

func (lyingReader) Read(p []byte) (int, error) { return len(p) + 1, nil }

// TestErrorsComeOnceAndLast goes on after the error, as a careless loop would.
func TestErrorsComeOnceAndLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := strings.NewReader("a\nb\n")
	cfg := Config{Account: newAccount(t, plenty)}
	bad := Span{2, 3}
	for name, seq := range map[string]iter.Seq2[[]byte, error]{
		"Read":         Read(ctx, data, cfg),
		"ReadAt":       ReadAt(ctx, data, Span{0, 4}, cfg),
		"Lines":        Lines(ctx, data, cfg),
		"LinesAt":      LinesAt(ctx, data, 4, Span{1, 2}, cfg),
		"LineBlocks":   LineBlocks(ctx, data, cfg),
		"LineBlocksAt": LineBlocksAt(t.Context(), data, 4, bad, cfg),
		"negative":     ReadAt(t.Context(), data, Span{-1, 3}, cfg),
		"broken":       Read(t.Context(), iotest.ErrReader(errDisk), cfg),
	} {
		n := 0
		for b, err := range seq {
			n++
			assert.Nil(t, b, name)
			assert.Error(t, err, name)
		}
		assert.Equal(t, 1, n, name)
	}
	_, err := collect(LinesAt(t.Context(), data, 4, bad, cfg))
	assert.EqualError(t, err, "chunk: at offset 2: a span of length 3 is not within [0, 4)")
}

// TestLinesWaitForTheAccount: a line that needs a larger buffer than the account
// grants waits, and its place is in the error.
func TestLinesWaitForTheAccount(t *testing.T) {
	const page = 4 << 10
	data := "a\n" + strings.Repeat("x", 3*page)
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, 2*page)
		cfg := Config{Account: a, Sizer: Pin(page), MaxLineBytes: 1 << 20}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := collect(Lines(ctx, strings.NewReader(data), cfg))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "chunk: line 2 at offset 2: buffer of 12288 bytes: context deadline exceeded")
		assert.Equal(t, []string{"a"}, got)

		time.AfterFunc(time.Second, func() { a.set(3*page+1, level.Normal) })
		time.AfterFunc(2*time.Second, func() { a.set(5*page, level.Normal) })
		got, err = collect(Lines(t.Context(), strings.NewReader(data), cfg))
		require.NoError(t, err)
		assert.Equal(t, bare(oracle(data)), got)
	})
}

// TestSmallAccount: where the size asked for is not to be had, a smaller one is
// taken, and only for the least one an iterator waits.
func TestSmallAccount(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 1<<20)
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t, 100<<10)
		chunks, err := collect(Read(t.Context(), bytes.NewReader(data), Config{Account: a}))
		require.NoError(t, err)
		assert.Len(t, chunks, 16)

		a.set(10<<10, level.Normal)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = collect(Read(ctx, bytes.NewReader(data), Config{Account: a}))
		assert.EqualError(t, err, "chunk: at offset 0: buffer of 65536 bytes: context deadline exceeded")

		time.AfterFunc(time.Second, func() { a.set(64<<10, level.Normal) })
		chunks, err = collect(Read(t.Context(), bytes.NewReader(data), Config{Account: a}))
		require.NoError(t, err)
		assert.Len(t, chunks, 16)
	})
}

// TestPressure: chunks become smaller at once, give their memory back, and become
// larger again when the pressure is gone.
func TestPressure(t *testing.T) {
	a := newAccount(t, 1<<30)
	data := bytes.Repeat([]byte("0123456\n"), 8<<20)
	var sizes []int64
	n := 0
	for b, err := range LineBlocks(t.Context(), bytes.NewReader(data), Config{Account: a}) {
		require.NoError(t, err)
		n += len(b)
		assert.LessOrEqual(t, int64(len(b)), a.size)
		sizes = append(sizes, a.size)
		switch len(sizes) {
		case 3:
			a.set(1<<30, level.High)
		case 5:
			a.set(1<<30, level.Critical)
		case 6:
			a.set(1<<30, level.Normal)
		}
	}
	assert.Equal(t, len(data), n)
	const k = 1 << 10
	assert.Equal(t, []int64{k * k, k * k, k * k, 512 * k, 512 * k, 64 * k, 64 * k}, sizes[:7])
	assert.EqualValues(t, k*k, sizes[len(sizes)-1])
}

func TestLongLineMemoryIsKeptUntilPressure(t *testing.T) {
	a := newAccount(t, 1<<30)
	line := strings.Repeat("x", 3<<20) + "\n"
	i := 0
	for l, err := range Lines(t.Context(), strings.NewReader(strings.Repeat(line, 5)), Config{Account: a, MaxLineBytes: 8 << 20}) {
		require.NoError(t, err)
		require.Len(t, l, 3<<20)
		assert.EqualValues(t, 4<<20, a.size)
		i++
	}
	assert.Equal(t, 5, i)

	r := strings.NewReader(line + strings.Repeat("y\n", 1<<20))
	a.set(1<<30, level.Normal)
	for l, err := range LineBlocks(t.Context(), r, Config{Account: a, MaxLineBytes: 8 << 20}) {
		require.NoError(t, err)
		if l[0] == 'y' && a.lvl == level.High {
			assert.LessOrEqual(t, a.size, int64(512<<10)+offheapPage)
			break
		}
		a.set(1<<30, level.High)
	}
}

const offheapPage = 4 << 10
