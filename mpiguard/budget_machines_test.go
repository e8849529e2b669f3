package mpiguard_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/mpiguard/mpiguard/mpiguard"
)

var updateMachines = flag.Bool("update", false, "rewrite the expected answers of the machines in testdata")

// answer is what is expected of a machine.
type answer struct {
	Budget *mpiguard.Budget `json:"budget"`
	Notes  []string         `json:"notes"`
}

// Each file is a machine: proc and sys as far as they decide, the variables of
// the process one a line in environ, and in expect the budget of the process.
// The text on top says what is right and why; -update rewrites expect alone.
func TestMachines(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../internal/cgroup/testdata/machines/*.txtar", "../internal/sched/testdata/*.txtar"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			machine, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			want := extract(t, machine, dir)

			b := mpiguard.DetectBudget(mpiguard.Machine{Root: dir})
			a := answer{Budget: b, Notes: b.Notes}
			for _, c := range b.Constraints {
				for _, n := range c.Notes {
					a.Notes = append(a.Notes, c.Source+": "+n)
				}
			}
			text, err := json.Marshal(a)
			require.NoError(t, err)
			got := indent(t, text)
			if *updateMachines {
				setFile(machine, "expect", got)
				require.NoError(t, os.WriteFile(file, txtar.Format(machine), 0o644))
				return
			}
			assert.Equal(t, string(want), string(got), "%s", machine.Comment)
		})
	}
}

// extract writes the tree of a machine below dir and returns the expected answer.
func extract(t *testing.T, machine *txtar.Archive, dir string) (expect []byte) {
	for _, f := range machine.Files {
		name := f.Name
		switch name {
		case "expect":
			expect = f.Data
			continue
		case "environ": // the kernel separates with NUL
			name = "proc/self/environ"
			f.Data = bytes.ReplaceAll(f.Data, []byte("\n"), []byte{0})
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, f.Data, 0o644))
	}
	return expect
}

func setFile(a *txtar.Archive, name string, data []byte) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = data
			return
		}
	}
	a.Files = append(a.Files, txtar.File{Name: name, Data: data})
}

// indent writes an answer with one constraint a line.
func indent(t *testing.T, text []byte) []byte {
	var v struct {
		Budget struct {
			BudgetBytes   json.RawMessage   `json:"budget_bytes"`
			HeadroomBytes json.RawMessage   `json:"headroom_bytes"`
			Binding       json.RawMessage   `json:"binding"`
			Constraints   []json.RawMessage `json:"constraints"`
		}
		Notes []json.RawMessage `json:"notes"`
	}
	require.NoError(t, json.Unmarshal(text, &v))
	var out bytes.Buffer
	out.WriteString("{\"budget\": {\"budget_bytes\": " + string(v.Budget.BudgetBytes) +
		", \"headroom_bytes\": " + string(v.Budget.HeadroomBytes) + ", \"binding\": " + string(v.Budget.Binding) +
		", \"constraints\": [\n")
	lines(&out, v.Budget.Constraints)
	out.WriteString("]}, \"notes\": [\n")
	lines(&out, v.Notes)
	out.WriteString("]}\n")
	require.True(t, json.Valid(out.Bytes()))
	return out.Bytes()
}

func lines(out *bytes.Buffer, values []json.RawMessage) {
	for i, v := range values {
		out.WriteString("  " + string(v))
		if i < len(values)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
}
