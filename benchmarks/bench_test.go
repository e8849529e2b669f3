package benchmarks

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/chunk"
)

func openBench(tb testing.TB) *Bench {
	b, err := Open(tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, b.Close()) })
	return b
}

// BenchmarkRow is every contender of every row: Row/NAME/by=ours, by=bound and by=insteadN.
func BenchmarkRow(b *testing.B) {
	for _, r := range openBench(b).Rows {
		for i, c := range r.Contenders() {
			b.Run(benchName(r.Name, i), func(b *testing.B) {
				s := c.Run(b.N)
				b.ReportMetric(s.Nanoseconds, "ns/op")
				b.ReportMetric(s.Allocs, "allocs/op")
				if r.Bytes > 0 {
					b.ReportMetric(1e3*float64(r.Bytes)/s.Nanoseconds, "MB/s")
				}
			})
		}
	}
}

// Every contender of every row can be measured, and rows are told by their names.
func TestRows(t *testing.T) {
	names := map[string]bool{}
	for _, r := range openBench(t).Rows {
		require.False(t, names[r.Name], r.Name)
		names[r.Name] = true
		for _, c := range r.Contenders() {
			require.Positive(t, c.Run(1).Nanoseconds, "%s: %s", r.Name, c.Name)
		}
	}
	for _, name := range []string{GrowShrink, GrowShrinkParallel, PoolGetPut} {
		require.True(t, names[name], name)
	}
}

// By hand, and by the iterators, every line is seen.
func TestFileLoopsAgree(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lines")
	lines, err := writeLines(name)
	require.NoError(t, err)
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	for what, c := range map[string]struct {
		read func(*os.File) error
		want int
	}{
		"read loop":        {bareRead, fileBytes},
		"lines by hand":    {bareLines, fileBytes - lines},
		"Scanner":          {func(f *os.File) error { return scanLines(f, 0) }, fileBytes - lines},
		"ReadSlice":        {readSlice, fileBytes},
		"chunk.Lines":      {func(f *os.File) error { return drain(chunk.Lines(t.Context(), f, chunk.Config{})) }, fileBytes - lines},
		"chunk.LineBlocks": {func(f *os.File) error { return drain(chunk.LineBlocks(t.Context(), f, chunk.Config{})) }, fileBytes},
	} {
		_, err := f.Seek(0, io.SeekStart)
		require.NoError(t, err)
		sink = 0
		require.NoError(t, c.read(f))
		require.EqualValues(t, c.want, sink, what)
	}
}
