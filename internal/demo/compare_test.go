package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
)

// stage is a place where runs end as they are told to.
type stage struct{ digests map[string]string }

func (s stage) run(_ context.Context, limitBytes int64, _ string, args ...string) (measured, error) {
	mode, answer := args[1], args[3]
	if limitBytes == 0 {
		mode = "unlimited"
	}
	digest, ok := s.digests[mode]
	if !ok {
		return measured{exit: 137, seconds: 1, stderr: "exited on signal 9 (Killed)\n", peakBytes: limitBytes}, nil
	}
	m := measured{exit: 0, seconds: 2, peakBytes: unknown, anon: memgroup.Peak{AnonBytes: 64 << 20, Samples: 400}}
	return m, os.WriteFile(answer, []byte(`{"digest":"`+digest+`"}`), 0)
}

func staged(t *testing.T, digests map[string]string) *driver {
	dir := t.TempDir()
	d := &driver{place: stage{digests}, dir: dir, program: "csvstats", input: filepath.Join(dir, "input.csv")}
	require.NoError(t, os.WriteFile(d.input, []byte("a;1\n"), 0o600))
	return d
}

func lastLine(t *testing.T, out string, v any) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	decoder := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(v), out)
}

func TestCompare(t *testing.T) {
	d := staged(t, map[string]string{"guarded": "abc", "unlimited": "abc"})
	var out bytes.Buffer
	require.NoError(t, d.compare(t.Context(), 256<<20, &out))
	assert.Contains(t, out.String(), "  | exited on signal 9 (Killed)\n", "the launcher's own words")
	assert.Contains(t, out.String(), `
mode     limit     exit  seconds  peak of the group  peak anonymous  samples  digest
naive    256 MiB   137   1.00     256 MiB            0 B             0        -
guarded  256 MiB   0     2.00     unknown            64 MiB          400      abc
naive    no limit  0     2.00     unknown            64 MiB          400      abc
`)
	var c comparison
	lastLine(t, out.String(), &c)
	assert.Equal(t, 137, c.Naive.Exit)
	assert.Equal(t, outcome{Mode: "guarded", LimitBytes: 256 << 20, Seconds: 2, PeakBytes: unknown, PeakAnonBytes: 64 << 20, Samples: 400, Digest: "abc"}, c.Guarded)
	assert.True(t, c.SameAnswer)
	left, err := filepath.Glob(filepath.Join(d.dir, "answer-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestCompareFails(t *testing.T) {
	for name, digests := range map[string]map[string]string{
		"other answer":      {"guarded": "abc", "unlimited": "xyz"},
		"guarded is killed": {"unlimited": "abc"},
		"all are killed":    {},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.Error(t, staged(t, digests).compare(t.Context(), 256<<20, &out))
			var c comparison
			lastLine(t, out.String(), &c)
			assert.False(t, c.SameAnswer)
		})
	}
}

func TestPairs(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, staged(t, map[string]string{"guarded": "a", "unlimited": "a"}).pairs(t.Context(), 7, 256<<20, &out))
	var got timing
	lastLine(t, out.String(), &got)
	assert.Equal(t, timing{Pairs: 7, LimitBytes: 256 << 20, GuardedSeconds: 2, NaiveSeconds: 2, Ratio: 1, RatioLow: 1, RatioHigh: 1, Confidence: 0.984375}, got)

	err := staged(t, map[string]string{"unlimited": "a"}).pairs(t.Context(), 7, 256<<20, &out)
	assert.ErrorContains(t, err, "guarded run exited with 137")
}

func TestBadFlags(t *testing.T) {
	for _, flags := range [][2]string{{"lots", "1GiB"}, {"0", "1GiB"}, {"256MiB", "-1"}} {
		assert.Error(t, demo(t.Context(), t.TempDir(), flags[0], flags[1], 0, &bytes.Buffer{}))
	}
}

// A stand-in for systemd-run says what it was asked for.
func TestScope(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemd-run"), []byte("#!/bin/sh\necho \"$@\" >&2; exit 137\n"), 0o700))
	m, err := scope{}.run(t.Context(), 64<<20, "csvstats", "-mode", "naive")
	require.NoError(t, err)
	assert.Equal(t, 137, m.exit)
	assert.Equal(t, "--user --scope --quiet -p MemoryMax=67108864 -p MemorySwapMax=0 -- mpirun -n 4 csvstats -mode naive\n", m.stderr)
	m, err = scope{}.run(t.Context(), 0, "csvstats")
	require.NoError(t, err)
	assert.Equal(t, "--user --scope --quiet -p MemoryMax=infinity -- mpirun -n 4 csvstats\n", m.stderr)
	assert.ErrorContains(t, probeScope(t.Context()), "exit status 137")
}

// The whole demo, small: the kernel kills one run and not the other.
func TestDemo(t *testing.T) {
	lab.NeedMPI(t)
	probe, err := memgroup.New("probe", memgroup.Limits{MaxBytes: 64 << 20})
	lab.Need(t, !errors.Is(err, memgroup.ErrUnavailable), "no memory cgroup can be made")
	require.NoError(t, err)
	require.NoError(t, probe.Remove())

	var out bytes.Buffer
	require.NoError(t, demo(t.Context(), t.TempDir(), "96MiB", "192MiB", 0, &out), "%s", &out)
	t.Log(out.String())
	var c comparison
	lastLine(t, out.String(), &c)
	assert.Equal(t, 137, c.Naive.Exit)
	assert.Contains(t, out.String(), "  | mpirun noticed that process rank")
	assert.Equal(t, 0, c.Guarded.Exit)
	assert.Equal(t, 0, c.Unlimited.Exit)
	assert.True(t, c.SameAnswer)
	assert.LessOrEqual(t, c.Guarded.PeakAnonBytes, int64(96<<20))
	assert.Greater(t, c.Unlimited.PeakAnonBytes, int64(192<<20))
	assert.Greater(t, c.Guarded.Samples, 20)
}
