package mpiguard_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/mpiguard/mpiguard/mpiguard"
)

var updateMachines = flag.Bool("update", false, "rewrite the expected answers of the machines in testdata")

// Each file is a machine: proc and sys as far as they decide, the variables of
// the process one a line in environ, and in expect what must be said of the
// process. The text on top says what is right and why.
func TestMachines(t *testing.T) {
	for _, file := range machineFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			machine, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			expect := extract(t, machine, dir)
			var want answer
			require.NoError(t, json.Unmarshal(expect.Data, &want))

			b := mpiguard.DetectBudget(mpiguard.Machine{Root: dir})
			got := answerOf(t, b)
			if *updateMachines {
				want.update(got)
				expect.Data = want.format(t)
				require.NoError(t, os.WriteFile(file, txtar.Format(machine), 0o644))
				return
			}
			want.check(t, got)
			if t.Failed() {
				t.Logf("%s\n%s", machine.Comment, b.Explain())
			}
		})
	}
}

// No machine keeps a program from starting, whatever its files say.
func TestGuardStartsOnEachMachine(t *testing.T) {
	for _, file := range machineFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			machine, err := txtar.ParseFile(file)
			require.NoError(t, err)
			dir := t.TempDir()
			extract(t, machine, dir)
			g, err := mpiguard.New(t.Context(), nil, mpiguard.Config{}.WithRoot(dir))
			require.NoError(t, err)
			_, err = g.Survey(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, mpiguard.DetectBudget(mpiguard.Machine{Root: dir}).LimitBytes(), g.Budget().LimitBytes())
			assert.NoError(t, g.Close())
		})
	}
}

// machineFiles are the recorded machines.
func machineFiles(t *testing.T) []string {
	var files []string
	for _, pattern := range []string{"../internal/cgroup/testdata/machines/*.txtar", "../internal/sched/testdata/*.txtar"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		files = append(files, found...)
	}
	return files
}

// extract writes the tree of a machine below dir and returns its file expect.
func extract(t *testing.T, machine *txtar.Archive, dir string) (expect *txtar.File) {
	for i := range machine.Files {
		f := &machine.Files[i]
		name, data := f.Name, f.Data
		switch name {
		case "expect":
			expect = f
			continue
		case "environ": // the kernel separates with NUL
			name, data = "proc/self/environ", bytes.ReplaceAll(data, []byte("\n"), []byte{0})
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, data, 0o644))
	}
	require.NotNil(t, expect, "no file expect")
	return expect
}

// answer is what is said of a machine, in the words of the JSON of a Budget. As
// an expectation it holds what matters: what is not in it may be anything, and
// an empty list of notes means that nothing was remarked.
type answer struct {
	BudgetBytes   json.RawMessage              `json:"budget_bytes"`
	HeadroomBytes json.RawMessage              `json:"headroom_bytes"`
	Binding       json.RawMessage              `json:"binding"`
	Constraints   []map[string]json.RawMessage `json:"constraints"`
	Notes         []string                     `json:"notes"`
}

func answerOf(t *testing.T, b *mpiguard.Budget) (a answer) {
	text, err := json.Marshal(b)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &a))
	a.Notes = append(a.Notes, b.Notes...)
	for _, c := range b.Constraints {
		label := strings.TrimSuffix(c.Source+" "+c.Path, " "+c.Source)
		for _, n := range c.Notes {
			a.Notes = append(a.Notes, label+": "+n)
		}
	}
	return a
}

// find is the constraint with the source and path of another.
func (a *answer) find(c map[string]json.RawMessage) map[string]json.RawMessage {
	for _, o := range a.Constraints {
		if bytes.Equal(o["source"], c["source"]) && bytes.Equal(o["path"], c["path"]) {
			return o
		}
	}
	return nil
}

func (want *answer) check(t *testing.T, got answer) {
	scalar := func(key string, want, got json.RawMessage) {
		if want != nil {
			assert.JSONEq(t, string(want), string(got), key)
		}
	}
	scalar("budget_bytes", want.BudgetBytes, got.BudgetBytes)
	scalar("headroom_bytes", want.HeadroomBytes, got.HeadroomBytes)
	scalar("binding", want.Binding, got.Binding)
	for _, c := range want.Constraints {
		o := got.find(c)
		if !assert.NotNil(t, o, "no constraint %s %s", c["source"], c["path"]) {
			continue
		}
		for key, value := range c {
			assert.JSONEq(t, string(value), string(o[key]), "%s of %s %s", key, c["source"], c["path"])
		}
	}
	for _, n := range want.Notes {
		assert.Contains(t, got.Notes, n)
	}
	if want.Notes != nil && len(want.Notes) == 0 {
		assert.Empty(t, got.Notes)
	}
}

// update takes the values of got for what a is about.
func (a *answer) update(got answer) {
	for _, v := range []struct{ want, got *json.RawMessage }{
		{&a.BudgetBytes, &got.BudgetBytes}, {&a.HeadroomBytes, &got.HeadroomBytes}, {&a.Binding, &got.Binding},
	} {
		if *v.want != nil {
			*v.want = *v.got
		}
	}
	a.Constraints = slices.DeleteFunc(a.Constraints, func(c map[string]json.RawMessage) bool { return got.find(c) == nil })
	for _, c := range a.Constraints {
		o := got.find(c)
		for key := range c {
			c[key] = o[key]
		}
	}
	a.Notes = slices.DeleteFunc(a.Notes, func(n string) bool { return !slices.Contains(got.Notes, n) })
}

// format writes one constraint, and one note, a line.
func (a *answer) format(t *testing.T) []byte {
	var parts []string
	add := func(key string, value json.RawMessage) {
		if value != nil {
			parts = append(parts, `"`+key+`": `+string(value))
		}
	}
	list := func(key string, given bool, items []string) {
		switch {
		case len(items) > 0:
			add(key, json.RawMessage("[\n  "+strings.Join(items, ",\n  ")+"\n]"))
		case given:
			add(key, json.RawMessage("[]"))
		}
	}
	add("budget_bytes", a.BudgetBytes)
	add("headroom_bytes", a.HeadroomBytes)
	add("binding", a.Binding)
	var constraints, notes []string
	for _, c := range a.Constraints {
		var fields []string
		for _, key := range []string{"source", "path", "scope", "kind", "limit_bytes", "used_bytes"} {
			if v := c[key]; v != nil {
				fields = append(fields, `"`+key+`": `+string(v))
			}
		}
		constraints = append(constraints, "{"+strings.Join(fields, ", ")+"}")
	}
	for _, n := range a.Notes {
		text, err := json.Marshal(n)
		require.NoError(t, err)
		notes = append(notes, string(text))
	}
	list("constraints", false, constraints)
	list("notes", a.Notes != nil, notes)
	out := "{" + strings.Join(parts, ", ") + "}\n"
	require.True(t, json.Valid([]byte(out)), out)
	return []byte(out)
}
