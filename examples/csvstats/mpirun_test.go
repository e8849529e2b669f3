//go:build cgo && linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// soon bounds a job that has nothing to do but to say what is wrong; two
// seconds are the start of MPI on a machine with other work.
const soon = 10 * time.Second

func built(t *testing.T) string {
	lab.NeedMPI(t)
	return lab.Build(t, "github.com/mpiguard/mpiguard/examples/csvstats")
}

func generatedFile(t *testing.T, sizeBytes int64) string {
	name := filepath.Join(t.TempDir(), "input.csv")
	require.NoError(t, generate(options{file: name, generateBytes: sizeBytes, seed: 1}))
	return name
}

func TestMpirun(t *testing.T) {
	program := built(t)
	name := generatedFile(t, 16<<20)
	want := solve(t, 1, options{mode: modeNaive, file: name})
	for _, mode := range modes {
		for _, ranks := range []int{1, 2, 4} {
			answerFile := filepath.Join(t.TempDir(), "answer.json")
			r := lab.Mpirun(t, mpirun.Config{Ranks: ranks}, program, "-mode", mode, "-json", answerFile, name)
			require.Equal(t, 0, r.Exit, r.Stderr)
			assert.Empty(t, r.Stderr)
			text, err := os.ReadFile(answerFile)
			require.NoError(t, err)
			var got decoded
			require.NoError(t, json.Unmarshal(text, &got))
			assert.Equal(t, want.Digest, got.Digest, "%s, %d ranks", mode, ranks)
			assert.Equal(t, want.Lines, got.Lines)
			assert.Equal(t, want.List, got.List)
			assert.Equal(t, ranks, got.Ranks)
			assert.Equal(t, 2, strings.Count(r.Stdout, "rank  host"), "two surveys:\n%s", r.Stdout)
			assert.Equal(t, 2, strings.Count(r.Stdout, mpirunRanks(ranks)), "all ranks on one node:\n%s", r.Stdout)
		}
	}
}

func mpirunRanks(n int) string {
	return map[int]string{1: ": 1 rank, ", 2: ": 2 ranks, ", 4: ": 4 ranks, "}[n]
}

// Whatever is wrong, one rank says it in one line, all ranks end, and soon.
func TestMpirunBadInput(t *testing.T) {
	program := built(t)
	two := file(t, "a;1\nb;2\n")
	late := file(t, strings.Repeat("a;1\n", 5000)+"a;one\n"+strings.Repeat("a;1\n", 5000))
	secret := file(t, "a;1\n")
	require.NoError(t, os.Chmod(secret, 0))
	dir := t.TempDir()
	for name, test := range map[string]struct {
		args []string
		env  string
		exit int
		want string
	}{
		"unreadable file":   {[]string{secret}, "", 1, "open " + secret + ": permission denied"},
		"missing file":      {[]string{dir + "/missing"}, "", 1, "no such file or directory"},
		"directory":         {[]string{dir}, "", 1, dir + " is not a regular file"},
		"key 9":             {[]string{"-key", "9", two}, "", 1, two + ": line 1: no column 9 in a row of 2"},
		"junk value":        {[]string{late}, "", 1, late + `: line 5001: column 2: "one" is not a number`},
		"limit of lots":     {[]string{two}, "MPIGUARD_LIMIT=lots", 1, `MPIGUARD_LIMIT="lots"`},
		"limit below used":  {[]string{two}, "MPIGUARD_LIMIT=1MiB", 1, "MPIGUARD_LIMIT"},
		"limit nearly used": {[]string{two}, "MPIGUARD_LIMIT=12MiB", 1, "MPIGUARD_LIMIT"},
		"bad mode":          {[]string{"-mode", "fast", two}, "", 2, `-mode "fast"`},
		"no file":           {nil, "", 2, "no file given"},
		"answer in vain":    {[]string{"-json", dir + "/missing/x", two}, "", 1, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			c := mpirun.Config{Ranks: 4}
			if test.env != "" {
				c.Env = []string{test.env}
			}
			run, args := program, test.args
			if os.Geteuid() == 0 { // root reads everything unless it gives that up
				run, args = "setpriv", append([]string{"--bounding-set", "-dac_override,-dac_read_search", program}, args...)
			}
			r := lab.Mpirun(t, c, run, args...)
			stopped(t, r, test.exit, test.want)
		})
	}
}

// stopped checks the end of a job that has failed in order.
func stopped(t *testing.T, r mpirun.Result, exit int, want string) {
	t.Helper()
	assert.Equal(t, exit, r.Exit, r.Stderr)
	assert.Less(t, r.Elapsed, soon)
	var told []string
	for line := range strings.Lines(r.Stderr) {
		if strings.HasPrefix(line, "csvstats: ") {
			told = append(told, line)
		}
	}
	if assert.Len(t, told, 1, r.Stderr) {
		assert.Contains(t, told[0], want)
	}
	// What else there is, the launcher says: that ranks exited with that code.
	assert.NotContains(t, r.Stderr, "MPI_ABORT")
	assert.NotContains(t, r.Stderr, "goroutine")
	assert.NotContains(t, r.Stderr, "signal")
}

// when calls f once, as soon as a text is written to it.
type when struct {
	text string
	f    func()
	seen bytes.Buffer
}

func (w *when) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if w.f != nil && strings.Contains(w.seen.String(), w.text) {
		w.f()
		w.f = nil
	}
	return len(p), nil
}

func TestMpirunFileShrinks(t *testing.T) {
	program := built(t)
	name := generatedFile(t, 256<<20)
	shrink := &when{text: "before:", f: func() { assert.NoError(t, os.Truncate(name, 1<<20)) }}
	r := lab.Mpirun(t, mpirun.Config{Ranks: 4, Stdout: shrink}, program, name)
	stopped(t, r, 1, name+": the file became shorter while it was read")
}

func TestMpirunHelp(t *testing.T) {
	r := lab.Mpirun(t, mpirun.Config{Ranks: 2}, built(t), "-h")
	assert.Equal(t, 0, r.Exit)
	assert.Equal(t, usage(), r.Stdout, "one rank explains")
	assert.Empty(t, r.Stderr)
}

func TestMpirunModeNone(t *testing.T) {
	r := lab.Mpirun(t, mpirun.Config{Ranks: 4}, built(t), "-mode", "none")
	assert.Equal(t, 0, r.Exit)
	assert.Empty(t, r.Stdout+r.Stderr)
}
