//go:build linux

package hosts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/hosts"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

const mib = 1 << 20

// ranks builds the program of testdata.
func ranks(t *testing.T) string {
	lab.NeedMPI(t)
	program := filepath.Join(t.TempDir(), "ranks")
	out, err := exec.Command("mpicc", "-o", program, "testdata/ranks.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

func TestLabJobOverTwoHosts(t *testing.T) {
	program := ranks(t)
	c := lab.Hosts(t,
		hosts.Host{Name: "tight", Slots: 2, Limits: lab.Limits{MaxBytes: 96 * mib}},
		hosts.Host{Name: "wide", Slots: 2, Limits: lab.Limits{MaxBytes: 512 * mib}})

	r := lab.Mpirun(t, c.Spread(mpirun.Config{Ranks: 4}), program)
	assert.Zero(t, r.Exit, r.Stderr)
	assert.ElementsMatch(t, []string{
		"rank 0 on tight, sum 6", "rank 1 on tight, sum 6", "rank 2 on wide, sum 6", "rank 3 on wide, sum 6",
	}, strings.Split(strings.TrimSpace(r.Stdout), "\n"))

	r = lab.Mpirun(t, c.Spread(mpirun.Config{Ranks: 4}), program, "256")
	assert.Equal(t, 137, r.Exit, r.Stderr)
	for name, want := range map[string]int64{"tight": 1, "wide": 0} {
		kills, err := c.Group(name).Kills()
		require.NoError(t, err)
		assert.Equal(t, want, kills, name)
		peak, err := c.Group(name).PeakBytes()
		require.NoError(t, err)
		assert.Greater(t, peak, int64(mib), "%s: its ranks ran inside", name)
	}
}

// A host is a name, a network interface and a group; Down leaves none of them.
func TestLabHostsGoDown(t *testing.T) {
	lab.Need(t, os.Getuid() == 0, "hosts are made as root")
	t.Setenv("TMPDIR", t.TempDir())
	c, err := hosts.Up(hosts.Host{Name: "a", Slots: 1}, hosts.Host{Name: "b", Slots: 1})
	require.NoError(t, err)
	group := c.Group("a").Dir()
	assert.DirExists(t, group)
	require.NoError(t, c.Run("a", `[ "$(hostname)" = a ] && ip -brief addr show eth0 | grep -q 10.99.8.1/24`))
	require.NoError(t, c.Run("b", `[ "$(hostname)" = b ] && ip -brief addr show eth0 | grep -q 10.99.8.2/24`))
	made := namespaces(t, os.Getpid())
	assert.Len(t, made, 5, "a network each and one for mpirun, two host names")

	require.NoError(t, c.Down())
	assert.NoDirExists(t, group)
	for _, n := range namespaces(t, 0) {
		assert.NotContains(t, made, n)
	}
	left, err := filepath.Glob(os.TempDir() + "/*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestLabUpTakesBackWhatFails(t *testing.T) {
	lab.Need(t, os.Getuid() == 0, "hosts are made as root")
	t.Setenv("TMPDIR", t.TempDir())
	_, err := hosts.Up(hosts.Host{Name: "a", Slots: 1}, hosts.Host{Name: "a name of no host", Slots: 1})
	require.ErrorContains(t, err, "hostname")
	assert.Empty(t, namespaces(t, os.Getpid()))
	left, err := filepath.Glob(os.TempDir() + "/*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

// namespaces are the networks and host names, other than those of this process,
// that the children of a process are in; of 0: those that any process is in.
func namespaces(t *testing.T, parent int) []string {
	var found []string
	for _, kind := range []string{"net", "uts"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		require.NoError(t, err)
		links, err := filepath.Glob("/proc/[0-9]*/ns/" + kind)
		require.NoError(t, err)
		for _, l := range links {
			status, _ := os.ReadFile(filepath.Join(l, "../../status"))
			if parent != 0 && !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
				continue
			}
			if name, err := os.Readlink(l); err == nil && name != own {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
