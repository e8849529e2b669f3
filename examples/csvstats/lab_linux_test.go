//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/hosts"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/internal/lab/vm"
)

// labFolder names the folder that a test shares with itself in a machine.
const labFolder = "CSVSTATS_LAB_FOLDER"

// A limit on the parent of the group that all ranks are in limits them, and is
// found, on both versions of cgroups.
func TestLabLimitOfParent(t *testing.T) {
	const inputBytes = 72 << 20
	if dir := os.Getenv(labFolder); dir != "" {
		limitOfParent(t, dir)
		return
	}
	dir := t.TempDir()
	for name, program := range map[string]string{
		"csvstats": built(t),
		"mpiguard": lab.Build(t, "github.com/mpiguard/mpiguard/mpiguard/cmd/mpiguard"),
	} {
		require.NoError(t, os.Rename(program, filepath.Join(dir, name)))
	}
	input := filepath.Join(dir, "input.csv")
	require.NoError(t, generate(options{file: input, generateBytes: inputBytes, seed: 1}))
	want := solve(t, 1, options{mode: modeNaive, file: input})
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "want.json"), text, 0o600))

	t.Run("here", func(t *testing.T) { limitOfParent(t, dir) })
	t.Run("v2", func(t *testing.T) {
		r := lab.VM(t, vm.Config{Share: dir, Env: []string{labFolder + "=" + dir}},
			os.Args[0], "-test.run=^TestLabLimitOfParent$", "-test.v")
		t.Logf("in the machine:\n%s%s", r.Stdout, r.Stderr)
		require.Zero(t, r.Exit)
		assert.Contains(t, r.Stdout, "--- PASS: TestLabLimitOfParent")
		assert.Contains(t, r.Stdout, "cgroup v2")
	})
}

func limitOfParent(t *testing.T, dir string) {
	in := func(name string) string { return filepath.Join(dir, name) }
	parent := lab.NewGroup(t, lab.Limits{MaxBytes: 64 << 20})
	ranks, err := parent.Child("ranks", lab.Limits{})
	require.NoError(t, err)
	t.Logf("cgroup v%d, limit in %s, ranks in %s", parent.Version(), parent.Path(), ranks.Path())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	explained, err := ranks.Command(ctx, in("mpiguard"), "explain").CombinedOutput()
	require.NoError(t, err, "%s", explained)
	t.Logf("%s", explained)
	assert.Regexp(t, `(?m)`+regexp.QuoteMeta(parent.Path())+` +hard +64 MiB .* binds$`, string(explained))
	assert.Regexp(t, `(?m)`+regexp.QuoteMeta(ranks.Path())+` +hard +unlimited`, string(explained))

	run := func(mode string) (r mpirun.Result, kills int64) {
		before, err := parent.Kills()
		require.NoError(t, err)
		r = lab.Mpirun(t, mpirun.Config{Ranks: 4, Group: ranks}, in("csvstats"), "-mode", mode, "-json", in(mode+".json"), in("input.csv"))
		after, err := parent.Kills()
		require.NoError(t, err)
		t.Logf("%s: exit %d, %d kills, %.1f s\n%s", mode, r.Exit, after-before, r.Elapsed.Seconds(), r.Stderr)
		return r, after - before
	}
	r, kills := run(modeNaive)
	assert.Equal(t, 137, r.Exit)
	assert.Positive(t, kills)
	r, kills = run(modeGuarded)
	require.Zero(t, r.Exit)
	assert.Zero(t, kills)
	var got, want decoded
	readJSON(t, in("guarded.json"), &got)
	readJSON(t, in("want.json"), &want)
	assert.Equal(t, want.Digest, got.Digest)
	assert.Equal(t, want.Lines, got.Lines)
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, v))
}

// On two hosts of which one is tight, each rank has the headroom of its own
// host, and the job that the tight one would kill finishes.
func TestLabTightHost(t *testing.T) {
	program := built(t)
	name := generatedFile(t, 128<<20)
	want := solve(t, 1, options{mode: modeNaive, file: name})
	c := lab.Hosts(t,
		hosts.Host{Name: "tight", Slots: 2, Limits: lab.Limits{MaxBytes: 48 << 20}},
		hosts.Host{Name: "wide", Slots: 2, Limits: lab.Limits{MaxBytes: 512 << 20}})
	run := func(mode string) (r mpirun.Result, kills [2]int64) {
		for i, host := range []string{"tight", "wide"} {
			n, err := c.Group(host).Kills()
			require.NoError(t, err)
			kills[i] = -n
		}
		r = lab.Mpirun(t, c.Spread(mpirun.Config{Ranks: 4}), program, "-mode", mode, "-json", name+"."+mode, name)
		for i, host := range []string{"tight", "wide"} {
			n, err := c.Group(host).Kills()
			require.NoError(t, err)
			kills[i] += n
		}
		t.Logf("%s: exit %d, kills %d, %.1f s\n%s%s", mode, r.Exit, kills, r.Elapsed.Seconds(), r.Stdout, r.Stderr)
		return r, kills
	}
	r, kills := run(modeNaive)
	assert.Equal(t, 137, r.Exit)
	assert.Positive(t, kills[0], "tight")
	assert.Zero(t, kills[1], "wide")
	r, kills = run(modeGuarded)
	require.Zero(t, r.Exit)
	assert.Zero(t, kills)
	var got decoded
	readJSON(t, name+"."+modeGuarded, &got)
	assert.Equal(t, want.Digest, got.Digest)
	assert.Equal(t, 4, got.Ranks)
	for host, left := range map[string]string{"tight": `\d\d`, "wide": `4\d\d`} { // of 48 and 512 MiB
		assert.Regexp(t, `(?m)^`+host+`: 2 ranks, .*; `+left+`(\.\d)? MiB left under .* `+regexp.QuoteMeta(c.Group(host).Path())+` `, r.Stdout)
	}
}
