package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// command runs a command line in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, streams{&out, &err})
	return code, out.String(), err.String()
}

// answer is the JSON of explain.
type answer struct {
	BudgetBytes   any `json:"budget_bytes"`
	HeadroomBytes any `json:"headroom_bytes"`
	Binding       any `json:"binding"`
	Constraints   []map[string]any
}

func explainJSON(t *testing.T, args ...string) answer {
	code, out, stderr := command(append([]string{"explain", "-json"}, args...)...)
	require.Zero(t, code, stderr)
	var keys map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &keys))
	assert.ElementsMatch(t, []string{"budget_bytes", "headroom_bytes", "binding", "constraints"}, mapKeys(keys))
	var a answer
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	for _, c := range a.Constraints {
		assert.ElementsMatch(t, []string{"source", "path", "scope", "kind", "limit_bytes", "used_bytes"}, mapKeys(c))
	}
	return a
}

func mapKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestExplainThisProcess(t *testing.T) {
	code, out, stderr := command("explain")
	assert.Zero(t, code)
	assert.Empty(t, stderr)
	assert.Contains(t, out, "MemTotal")
	a := explainJSON(t)
	assert.NotEmpty(t, a.Constraints)
	if runtime.GOOS == "linux" {
		b := explainJSON(t, "-pid", strconv.Itoa(os.Getpid()))
		assert.Equal(t, a.BudgetBytes, b.BudgetBytes, "the same by its pid")
		assert.Equal(t, a.Binding, b.Binding)
	}
}

func TestWrongCommandLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{nil, 2, "expected"},
		{[]string{"unknown"}, 2, "unknown"},
		{[]string{"explain", "-pid", "x"}, 2, "x"},
		{[]string{"explain", "-pid", "-1"}, 2, "-1"},
		{[]string{"explain", "-pid=-1"}, 2, "-pid is -1"},
		{[]string{"explain", "-nonsense"}, 2, "nonsense"},
		{[]string{"explain", "-pid", "99999999"}, 1, "no process 99999999"},
		{[]string{"explain", "-root", file + "x"}, 1, "no such file"},
		{[]string{"explain", "-root", file}, 1, "not a directory"},
		{[]string{"explain", "-capture", filepath.Dir(file)}, 1, "not an empty directory"},
		{[]string{"explain", "-capture", file}, 1, "not a directory"},
		{[]string{"explain", "-capture", file + "x/y"}, 1, "no such file"},
	} {
		code, out, stderr := command(c.args...)
		assert.Equal(t, c.code, code, "%q", c.args)
		assert.Empty(t, out, "%q", c.args)
		assert.Contains(t, stderr, c.text, "%q", c.args)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
	}
	for _, args := range [][]string{{"-help"}, {"--help"}, {"explain", "-help"}} {
		code, out, _ := command(args...)
		assert.Zero(t, code)
		assert.Contains(t, out, "explain")
	}
}

func TestEmptyRoot(t *testing.T) {
	code, out, _ := command("explain", "-root", t.TempDir())
	assert.Zero(t, code)
	assert.Contains(t, out, "the budget is unknown")
	a := explainJSON(t, "-root", t.TempDir())
	assert.Nil(t, a.BudgetBytes)
	assert.Nil(t, a.Binding)
}

// A saved machine gives the same answer elsewhere, and holds nothing private.
func TestCapture(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc on " + runtime.GOOS)
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	for k, v := range map[string]string{
		"MPIGUARD_LIMIT": "3GiB", "SLURM_MEM_PER_CPU": "1000", "SLURM_CPUS_ON_NODE": "2", "SLURM_JOB_NODELIST": host,
		"SLURM_JOB_CPUS_PER_NODE": "2", "SLURM_JOB_USER": "topsecret", "AWS_SECRET_ACCESS_KEY": "topsecret", "GODEBUG": "topsecret=1,madvdontneed=0",
	} {
		t.Setenv(k, v)
	}
	for _, args := range [][]string{nil, {"-pid", strconv.Itoa(os.Getpid())}} {
		dir := filepath.Join(t.TempDir(), "saved")
		code, out, stderr := command(append([]string{"explain", "-capture", dir}, args...)...)
		require.Zero(t, code, stderr)
		assert.Contains(t, stderr, "files saved in "+dir)
		assert.Contains(t, out, "binds")

		live, saved := explainJSON(t, args...), explainJSON(t, "-root", dir)
		if args == nil { // the environment of a running process is that of its start
			assert.Equal(t, live.BudgetBytes, saved.BudgetBytes)
			assert.Equal(t, live.Binding, saved.Binding)
			require.Len(t, saved.Constraints, len(live.Constraints))
			for i, c := range saved.Constraints {
				l := live.Constraints[i]
				for _, key := range []string{"source", "scope", "kind", "limit_bytes", "path"} {
					if key == "path" && strings.HasPrefix(c["path"].(string), "/proc/") {
						continue
					}
					assert.Equal(t, l[key], c[key], "%s of %v", key, l["source"])
				}
				assert.Equal(t, l["used_bytes"] == nil, c["used_bytes"] == nil, "%v", l)
			}
		}
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			assert.Zero(t, info.Mode().Perm()&0o077, "%s is for its owner", path)
			if d.IsDir() {
				return nil
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.NotContains(t, string(text), "topsecret", path)
			if filepath.Base(path) == "environ" {
				assert.NotContains(t, string(text), host)
				assert.NotContains(t, string(text), "PATH=")
			}
			return nil
		}))
		code, _, stderr = command("explain", "-capture", dir)
		assert.Equal(t, 1, code, "what was saved is not written over")
		assert.Contains(t, stderr, "not an empty directory")

		// What was saved can be saved again.
		again := filepath.Join(t.TempDir(), "again")
		code, _, stderr = command("explain", "-root", dir, "-capture", again)
		require.Zero(t, code, stderr)
		assert.Equal(t, saved, explainJSON(t, "-root", again))
	}
}
