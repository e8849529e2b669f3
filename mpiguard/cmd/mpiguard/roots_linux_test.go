package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
)

// Whatever there is in place of the files that a machine has, the command says
// that the budget is unknown, and needs no more memory for it than for a machine:
// it runs in a group that has no room for one of the large files.
func TestRootsThatAreNoMachines(t *testing.T) {
	const room = 48 << 20
	program := lab.Build(t, "github.com/mpiguard/mpiguard/mpiguard/cmd/mpiguard")
	saved := filepath.Join(t.TempDir(), "saved")
	code, _, stderr := command("explain", "-capture", saved)
	require.Zero(t, code, stderr)

	for name, replace := range map[string]func(file string) error{
		"empty directory": nil,
		"empty files":     func(file string) error { return os.Truncate(file, 0) },
		"directories": func(file string) error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Mkdir(file, 0o700)
		},
		"100 MiB": func(file string) error { return os.Truncate(file, 100<<20) },
		"100 MiB of nothing that is known": func(file string) error {
			if err := os.Truncate(file, 0); err != nil {
				return err
			}
			return os.Truncate(file, 100<<20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := 0
			if replace != nil {
				require.NoError(t, os.CopyFS(root, os.DirFS(saved)))
				require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
					if err == nil && !d.IsDir() {
						files++
						err = replace(path)
					}
					return err
				}))
				require.Greater(t, files, 10)
			}
			g := lab.NewGroup(t, lab.Limits{MaxBytes: room})
			out, err := g.Command(t.Context(), program, "explain", "-root", root).CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), "the budget is unknown")
			out, err = g.Command(t.Context(), program, "explain", "-json", "-root", root).CombinedOutput()
			require.NoError(t, err, "%s", out)
			var a answer
			require.NoError(t, json.Unmarshal(out, &a))
			assert.Nil(t, a.BudgetBytes)
			assert.Nil(t, a.Binding)
			kills, err := g.Kills()
			require.NoError(t, err)
			assert.Zero(t, kills)
		})
	}
}
