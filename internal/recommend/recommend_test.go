package recommend

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/report"
)

const mib = 1 << 20

// job is a run of 4 ranks on a node whose memory follows peak over the input.
func job(inputMiB int64, peak func(inputMiB float64) float64) Measurement {
	p := int64(peak(float64(inputMiB)) * mib)
	return Measurement{Run: fmt.Sprint("r", inputMiB), InputBytes: inputMiB * mib, RanksPerNode: 4, PeakBytes: p,
		RankBytes: (p - 10*mib) / 4, SharedBytes: 10 * mib}
}

func TestPredictsTheWholeInput(t *testing.T) {
	for name, peak := range map[string]func(float64) float64{
		"linear":   func(x float64) float64 { return 48 + 2.6*x },
		"constant": func(float64) float64 { return 44 },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				rng := rand.New(rand.NewPCG(seed, 1))
				noisy := func(x float64) float64 { return peak(x) * (1 + 0.01*(2*rng.Float64()-1)) }
				ms := []Measurement{job(10, noisy), job(20, noisy), job(51, noisy)}
				a, err := Advise(ms, Query{InputBytes: 1024 * mib})
				require.NoError(t, err)
				assert.InEpsilon(t, peak(1024), float64(a.PeakBytes)/mib, 0.2, "seed %d", seed)
				assert.Contains(t, a.Notes, "extrapolated ×20.1, steps not visible")
				assert.GreaterOrEqual(t, a.MemBytes, a.PeakBytes*13/10)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	line := func(x float64) float64 { return 48 + 2.6*x }
	for _, c := range []struct {
		name string
		ms   []Measurement
		want error
		says string
	}{
		{"nothing recorded", nil, ErrTooFewSizes, ""},
		{"one size", []Measurement{job(10, line)}, ErrTooFewSizes, "1, want at least 3"},
		{"two sizes", []Measurement{job(10, line), job(20, line), job(20, line)}, ErrTooFewSizes, "2, want at least 3"},
		{"a step between", []Measurement{job(10, line), job(20, line), job(51, func(x float64) float64 { return line(x) + 80 })}, ErrPoorFit, "step"},
		{"a small step between", []Measurement{job(10, line), job(20, line), job(51, func(x float64) float64 { return line(x) + 30 })}, ErrPoorFit, ""},
		{"a curve", []Measurement{job(10, func(x float64) float64 { return 48 + x*x/8 }), job(20, func(x float64) float64 { return 48 + x*x/8 }), job(51, func(x float64) float64 { return 48 + x*x/8 })}, ErrPoorFit, "curve"},
		{"falling", []Measurement{job(10, func(float64) float64 { return 300 }), job(20, func(float64) float64 { return 290 }), job(51, func(float64) float64 { return 270 })}, ErrPoorFit, "falls"},
		{"noise", []Measurement{job(10, func(float64) float64 { return 100 }), job(20, func(float64) float64 { return 140 }), job(51, func(float64) float64 { return 110 })}, ErrPoorFit, ""},
		{"killed", []Measurement{{Run: "k", PeakBytes: 200 * mib, CutShort: "rank 3 did not close its guard (OOM-killed)"}}, ErrCutShort, "at least 200 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Advise(c.ms, Query{InputBytes: 1024 * mib})
			assert.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestMargins(t *testing.T) {
	flat := func(x float64) float64 { return 100 }
	one := job(10, flat)
	a, err := Advise([]Measurement{one}, Query{})
	require.NoError(t, err)
	assert.Equal(t, 0.30, a.Margin, "one run")
	assert.Equal(t, int64(138*mib), a.MemBytes, "and what a guard keeps free")
	assert.Contains(t, a.Notes[0], "one run only")

	one.MissedBytes = 15 * mib
	a, _ = Advise([]Measurement{one}, Query{})
	assert.InDelta(t, 0.45, a.Margin, 1e-9, "with the sampling error")
	one.MissedBytes = 80 * mib
	a, _ = Advise([]Measurement{one}, Query{})
	assert.Equal(t, 0.50, a.Margin, "at most")

	a, _ = Advise([]Measurement{job(10, flat), job(10, flat), job(10, flat)}, Query{})
	assert.Equal(t, 0.10, a.Margin, "equal runs")
	a, _ = Advise([]Measurement{job(10, flat), job(10, func(float64) float64 { return 110 }), job(10, flat)}, Query{})
	assert.InDelta(t, 0.10+2*(10.0/110)/1.41421356, a.Margin, 1e-6, "runs that differ")
	assert.Equal(t, int64(110*mib), a.PeakBytes, "the largest counts")
}

func TestRanksPerNode(t *testing.T) {
	m := job(10, func(float64) float64 { return 210 }) // 50 MiB a rank and 10 shared
	m.NodeBytes = 1 << 30
	a, err := Advise([]Measurement{m}, Query{RanksPerNode: 8})
	require.NoError(t, err)
	assert.Equal(t, int64(410*mib), a.PeakBytes)
	assert.Equal(t, int64(50*mib), a.RankBytes)
	// (1024 - 82 - 8) / 1.3 = 718 MiB; 10 are shared; 50 a rank.
	assert.Equal(t, 14, a.MaxRanks)
	assert.Contains(t, strings.Join(a.Notes, "\n"), "measured with 4 ranks a node")
	b, _ := Advise([]Measurement{m}, Query{RanksPerNode: a.MaxRanks})
	assert.LessOrEqual(t, b.MemBytes, int64(1<<30)*92/100, "what is said to fit fits")
	b, _ = Advise([]Measurement{m}, Query{RanksPerNode: a.MaxRanks + 1})
	assert.Greater(t, b.MemBytes, int64(1<<30)*92/100)
}

func TestPrinted(t *testing.T) {
	a := Advice{RanksPerNode: 4, MemBytes: 273 * mib}
	assert.Equal(t, "#SBATCH --ntasks-per-node=4\n#SBATCH --mem=273M\n", a.Slurm())
	assert.Equal(t, "resources:\n  requests:\n    memory: 273Mi\n  limits:\n    memory: 273Mi\n", a.Kubernetes())
}

func TestBaseline(t *testing.T) {
	at := func(run string, peak int64) Measurement {
		return Measurement{Run: run, InputBytes: 1, RanksPerNode: 4, PeakBytes: peak * mib}
	}
	var b Baseline
	assert.Error(t, b.Check(at("a", 100), 0.1), "nothing to compare with")
	require.NoError(t, b.Add(at("a", 100)))
	require.NoError(t, b.Add(at("b", 110)))
	require.NoError(t, b.Add(at("b", 112)))
	require.Len(t, b.Runs, 2, "a run stands once")
	cut := at("c", 90)
	cut.CutShort = "rank 0 did not close its guard"
	assert.ErrorIs(t, b.Add(cut), ErrCutShort)
	assert.ErrorIs(t, b.Check(cut, 0.1), ErrCutShort)

	var text bytes.Buffer
	require.NoError(t, b.Write(&text))
	read, err := ReadBaseline(&text)
	require.NoError(t, err)
	assert.Equal(t, &b, read)
	for peak, ok := range map[int64]bool{89: false, 91: true, 105: true, 123: true, 124: false} {
		err := read.Check(at("new", peak), 0.1)
		if ok {
			assert.NoError(t, err, peak)
		} else {
			assert.ErrorIs(t, err, ErrLeftBaseline, peak)
		}
	}
	other := at("new", 100)
	other.InputBytes = 2
	assert.ErrorContains(t, read.Check(other, 0.1), "no run with an input of 2 bytes")
	for range 2 * keptRuns {
		require.NoError(t, b.Add(at(fmt.Sprint(len(b.Runs), time.Now().UnixNano()), 100)))
	}
	assert.Len(t, b.Runs, keptRuns)
	for _, bad := range []string{"", "{", `{"version":2}`, `[]`} {
		_, err := ReadBaseline(strings.NewReader(bad))
		assert.Error(t, err, bad)
	}
}

// What a record says, from the file to the advice.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	start := time.Unix(1_700_000_000, 0)
	for rank := range 4 {
		w, err := blackbox.Create(dir, blackbox.Header{Run: "r", Host: "n1", Rank: rank, Size: 4, PID: 10 + rank, Started: start, InputBytes: 5}, blackbox.MinSizeBytes, nil)
		require.NoError(t, err)
		w.Limits(start, []blackbox.Limit{
			{Source: "cgroup v1 limit_in_bytes", Path: "/job", Scope: blackbox.ScopeCgroup, ID: 1},
			{Source: "MemTotal", Scope: blackbox.ScopeNode, ID: 2},
		})
		for i := range 10 {
			w.Sample(&blackbox.Sample{At: start.Add(time.Duration(i) * time.Second), AnonBytes: int64(40+rank) * mib, ShmemBytes: 4 * mib, FileBytes: mib,
				HighWaterBytes: int64(45+rank+2) * mib,
				Limits:         [blackbox.MaxLimits]blackbox.LimitUse{{LimitBytes: 400 * mib, UsedBytes: 180 * mib}, {LimitBytes: 1 << 34}}})
		}
		w.Close(start.Add(10*time.Second), "")
	}
	var files []*blackbox.File
	for f, err := range blackbox.Files(dir) {
		require.NoError(t, err)
		files = append(files, f)
	}
	var c report.Collection
	for _, f := range files {
		c.Add(f)
	}
	m := Measure(c.Runs(report.Evidence{Now: start.Add(time.Hour)})[0])
	assert.Equal(t, Measurement{Run: "r", Start: start, InputBytes: 5, RanksPerNode: 4, PeakBytes: 180 * mib, RankBytes: 43 * mib,
		SharedBytes: (180 - 166) * mib, MissedBytes: 8 * mib, NodeBytes: 1 << 34}, m)

	files[2].Close = nil
	var open report.Collection
	open.Add(files[2])
	m = Measure(open.Runs(report.Evidence{Now: start.Add(time.Hour)})[0])
	assert.Contains(t, m.CutShort, "no record of 3 of its 4 ranks")
}
