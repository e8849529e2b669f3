package benchmarks

import (
	"testing"

	"github.com/stretchr/testify/require"
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

// Every row can be measured, and does what it says in its name.
func TestRows(t *testing.T) {
	b := openBench(t)
	for _, r := range b.Rows {
		for _, c := range r.Contenders() {
			s := c.Run(1)
			require.Positive(t, s.Nanoseconds, "%s: %s", r.Name, c.Name)
		}
	}
	require.NotEmpty(t, b.Rows)
}
