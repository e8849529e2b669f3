package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

const mib = 1 << 20

// recordRun leaves the records of a run of four ranks in a directory.
func recordRun(t *testing.T, dir, run string, inputBytes, peakBytes int64, closed bool) {
	t.Helper()
	start := time.Now().Add(-time.Hour)
	for rank := range 4 {
		w, err := blackbox.Create(dir, blackbox.Header{
			Run: run, Host: "n1", Program: "sim", Rank: rank, Size: 4, PID: 100 + rank, Started: start, InputBytes: inputBytes,
			ElevatedAt: 0.7, HighAt: 0.85, CriticalAt: 0.95,
		}, blackbox.MinSizeBytes, nil)
		require.NoError(t, err)
		w.Limits(start, []blackbox.Limit{
			{Source: "cgroup v2 memory.max", Path: "/job", Scope: blackbox.ScopeCgroup, ID: 1},
			{Source: "MemTotal", Path: "/proc/meminfo", Scope: blackbox.ScopeNode, ID: 2},
		})
		for i := range int64(10) {
			used := peakBytes * (i + 1) / 10
			w.Sample(&blackbox.Sample{
				At: start.Add(time.Duration(i) * time.Second), AnonBytes: used / 5, HighWaterBytes: used / 5,
				Limits: [blackbox.MaxLimits]blackbox.LimitUse{{LimitBytes: 4 * peakBytes, UsedBytes: used}, {LimitBytes: 1 << 30}},
			})
		}
		if closed {
			w.Close(start.Add(10*time.Second), "")
		}
	}
	if closed {
		return
	}
	// This process holds the records; nobody holds a copy.
	names, err := filepath.Glob(filepath.Join(dir, "*.mpiguard"))
	require.NoError(t, err)
	for _, name := range names {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.Remove(name))
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	recordRun(t, dir, "r1", 0, 100*mib, true)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken.mpiguard"), []byte("x"), 0o600))
	html, svg := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.svg")

	code, out, errs := command("report", dir, "-html", html, "-svg", svg)
	assert.Zero(t, code)
	assert.Contains(t, out, "all 4 ranks closed their guards")
	assert.Contains(t, errs, "broken.mpiguard", "told, and the rest is read")
	for _, name := range []string{html, svg} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Greater(t, info.Size(), int64(1000))
	}

	code, out, _ = command("report", "-json", dir)
	assert.Zero(t, code)
	var runs []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &runs))
	assert.Equal(t, "r1", runs[0]["run"])

	code, out, _ = command("report", "-follow", dir)
	assert.Zero(t, code, "it ends, as no rank runs")
	assert.Contains(t, out, "closed")

	for _, bad := range [][]string{
		{"report", t.TempDir()}, {"report", "/nonexistent"}, {"report", dir, "-html", "/nonexistent/x.html"},
		{"report", dir, "-kernel-log", "/nonexistent"},
	} {
		code, _, errs = command(bad...)
		assert.Equal(t, 1, code, bad)
		assert.Contains(t, errs, "mpiguard: ", bad)
	}
	code, _, _ = command("report")
	assert.Equal(t, 2, code)
}

// The log of another machine says which rank was killed.
func TestReportByKernelLog(t *testing.T) {
	dir := t.TempDir()
	recordRun(t, dir, "r1", 0, 100*mib, false)
	log := filepath.Join(dir, "dmesg")
	text := time.Now().Add(-time.Hour+9*time.Second).Format("2006-01-02T15:04:05,000000-07:00") + " Memory cgroup out of memory: Killed process 102 (sim) total-vm:1kB\n"
	require.NoError(t, os.WriteFile(log, []byte(text), 0o600))
	code, out, errs := command("report", dir, "-kernel-log", log)
	assert.Zero(t, code, errs)
	assert.Contains(t, out, "rank 2 on n1 was OOM-killed")
	assert.Contains(t, out, "ranks 0, 1, 3 on n1 ended without Close")
}

func TestRecommend(t *testing.T) {
	top := t.TempDir()
	var dirs []string
	for _, percent := range []int64{1, 2, 5} {
		dir := filepath.Join(top, fmt.Sprint(percent))
		recordRun(t, dir, fmt.Sprint("r", percent), percent*10*mib, (48+26*percent)*mib, true)
		dirs = append(dirs, dir)
	}
	code, out, errs := command(append([]string{"recommend", "-input", "1000MiB"}, dirs...)...)
	assert.Zero(t, code, errs)
	assert.Contains(t, out, "extrapolated ×20, steps not visible")
	assert.Contains(t, out, "a node of 4 ranks needs 2.6 GiB")
	assert.Contains(t, out, "#SBATCH --mem=3451M")
	assert.Contains(t, out, "memory: 3451Mi")

	code, out, _ = command("recommend", "-json", dirs[2], "-ranks", "2")
	assert.Zero(t, code)
	var a map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	assert.Equal(t, 2.0, a["ranks_per_node"])

	code, _, errs = command("recommend", "-input", "1GiB", dirs[0])
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "too few input sizes")

	// A directory may say its input.
	code, out, errs = command("recommend", "-input", "1000MiB", dirs[0]+"=10MiB", dirs[1]+"=20MiB", dirs[2]+"=50MiB")
	assert.Zero(t, code, errs)
	assert.Contains(t, out, "#SBATCH --mem=3451M")

	killed := filepath.Join(top, "killed")
	recordRun(t, killed, "k", 0, 100*mib, false)
	code, _, errs = command("recommend", killed)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "at least 100 MiB a node were needed")

	for _, bad := range [][]string{
		{"recommend"}, {"recommend", "-input", "lots", dirs[0]}, {"recommend", "-check", dirs[0]},
		{"recommend", "-ranks", "-1", dirs[0]}, {"recommend", dirs[0] + "=lots"}, {"recommend", "-tolerance", "-1", dirs[0]},
	} {
		code, _, _ := command(bad...)
		assert.Equal(t, 2, code, bad)
	}
}

func TestBaseline(t *testing.T) {
	top := t.TempDir()
	dir := func(name string, peak int64) string {
		d := filepath.Join(top, name)
		recordRun(t, d, name, 0, peak*mib, true)
		return d
	}
	file := filepath.Join(top, "baseline.json")
	first, same, larger := dir("first", 100), dir("same", 104), dir("larger", 130)
	code, _, _ := command("recommend", "-check", "-baseline", file, first)
	assert.Equal(t, 1, code, "there is none yet")
	code, _, errs := command("recommend", "-baseline", file, first)
	require.Zero(t, code, errs)
	code, out, _ := command("recommend", "-check", "-baseline", file, same)
	assert.Zero(t, code)
	assert.Contains(t, out, "within the baseline")
	code, _, errs = command("recommend", "-check", "-baseline", file, larger)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "the peak left the baseline: run larger needed 130 MiB a node, the baseline 100 to 100 MiB")
	code, _, _ = command("recommend", "-check", "-tolerance", "0.4", "-baseline", file, larger)
	assert.Zero(t, code)
}
