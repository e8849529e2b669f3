package cgroup

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// What holds of every machine, whatever its answer is.
func TestOpenMachines(t *testing.T) {
	machines, err := filepath.Glob("testdata/machines/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, machines)
	for _, file := range machines {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			machine, err := txtar.ParseFile(file)
			require.NoError(t, err)
			root := t.TempDir()
			for _, f := range machine.Files {
				name := filepath.Join(root, f.Name)
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
				require.NoError(t, os.WriteFile(name, f.Data, 0o644))
			}
			fsys := kernfs.New(root)
			defer fsys.Close()
			buf := make([]byte, 16<<10)
			membership, _ := fsys.Read("proc/self/cgroup", nil)
			h := Open(fsys, 0, membership, buf)
			defer h.Close()

			if len(h.Groups) == 0 {
				assert.Zero(t, h.Version)
				assert.Nil(t, h.Top())
				assert.NotEmpty(t, h.Notes, "it says why there are none")
				return
			}
			assert.Contains(t, []int{1, 2}, h.Version)
			for i, g := range h.Groups {
				_, there := fsys.IsDir(g.dir)
				assert.True(t, there, g.dir)
				if i > 0 {
					assert.Equal(t, path.Dir(h.Groups[i-1].dir), g.dir, "each group is inside the next")
					assert.Equal(t, path.Dir(h.Groups[i-1].Path), g.Path)
				}
				assert.Contains(t, g.Files(), g.dir+"/"+g.max)
				assert.Equal(t, g.dir+"/cgroup.procs", g.ProcsFile())
				assert.Equal(t, g.Absent, !exists(root, g.dir+"/"+g.max), g.Path)
				if g.Absent {
					assert.Equal(t, UnlimitedBytes, g.MaxBytes, "no file, no limit")
					continue
				}
				usage, err := g.Usage(buf)
				if err != nil {
					assert.Equal(t, unknownUsage, usage)
				} else {
					assert.Positive(t, usage.MemoryBytes)
					assert.GreaterOrEqual(t, usage.SwapBytes, int64(0))
					assert.Zero(t, testing.AllocsPerRun(5, func() { g.Usage(buf) }))
				}
				if ceiling, ok := g.Ceiling(buf); ok && err == nil {
					assert.GreaterOrEqual(t, ceiling.MemoryBytes, usage.MemoryBytes, g.Path)
				}
			}

			type limits struct{ max, second, hidden int64 }
			read := func() (all []limits) {
				for _, g := range h.Groups {
					all = append(all, limits{g.MaxBytes, g.SecondBytes, h.HiddenBytes})
				}
				return all
			}
			before := read()
			require.NoError(t, h.Refresh(buf))
			assert.Equal(t, before, read(), "nothing has changed")
		})
	}
}

func exists(root, name string) bool {
	_, err := os.Stat(filepath.Join(root, name))
	return err == nil
}

// The own group is found without reading the list of all mounts, and is the one
// that the list would have led to.
func TestStandardPlaceAgreesWithMountinfo(t *testing.T) {
	fsys := kernfs.New("")
	buf := make([]byte, 16<<10)
	membership, err := fsys.Read("proc/self/cgroup", nil)
	require.NoError(t, err)
	m := ParseMembership(membership)
	p := place{Mount{m.Version, "/", standard[m.Version]}, m.Path}
	if m.Version == 0 || m.Path == "/" || !isReal(fsys, p) {
		t.Skip("the group of this process is not in the standard place: ", m)
	}
	for _, mount := range visible(fsys, 0, m.Version, buf) {
		if below, sure := mount.below(m.Path); sure && mount.Point == standard[m.Version] {
			assert.Equal(t, p.dir(), place{mount, below}.dir())
			assert.True(t, lists(fsys, p.dir(), 0, buf), "it lists this process")
			return
		}
	}
	assert.Fail(t, "mountinfo does not show the standard place")
}

func TestLists(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	write("g/cgroup.procs", "5\n57\n570")
	write("proc/self/stat", "57 (a) R")
	fsys := kernfs.New(root)
	defer fsys.Close()
	buf := make([]byte, 64)
	for pid, want := range map[int]bool{0: true, 5: true, 570: true, 7: false, 0x39: true} {
		assert.Equal(t, want, lists(fsys, "g", pid, buf), pid)
	}
	assert.False(t, lists(fsys, "missing", 57, buf))
	require.NoError(t, os.Remove(filepath.Join(root, "proc/self/stat")))
	assert.False(t, lists(fsys, "g", 0, buf), "nobody knows the pid")
}
