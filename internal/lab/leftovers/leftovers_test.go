//go:build linux

package leftovers_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/leftovers"
)

// of runs a shell script and returns what it leaves that has to do with this
// test: others may be at work on the machine.
func of(t *testing.T, script string) []string {
	t.Setenv("TMPDIR", t.TempDir())
	left, err := leftovers.Run(exec.Command("sh", "-c", script, "sh", t.Name()))
	require.NoError(t, err)
	var ours []string
	for _, l := range left {
		if strings.Contains(l, t.Name()) || strings.HasPrefix(l, "process ") {
			ours = append(ours, l)
		}
	}
	return ours
}

func TestNothingLeft(t *testing.T) {
	assert.Empty(t, of(t, `mktemp -d | xargs rmdir; sleep 0.1 &`))
}

func TestDetachedProcess(t *testing.T) {
	left := of(t, `(setsid sleep 60 & echo $! >&3) 3>pid >/dev/null 2>&1`)
	t.Cleanup(func() { require.NoError(t, exec.Command("sh", "-c", "kill $(cat pid); rm pid").Run()) })
	require.Len(t, left, 1)
	assert.Contains(t, left[0], ": sleep 60")
}

func TestTemporaryFile(t *testing.T) {
	left := of(t, `mktemp -d`)
	require.Len(t, left, 1)
	assert.NoDirExists(t, strings.TrimPrefix(left[0], "file "), "removed with the folder")
}

func TestSharedMemory(t *testing.T) {
	file := "/dev/shm/" + t.Name()
	t.Cleanup(func() { _ = os.Remove(file) })
	assert.Equal(t, []string{"shared memory " + file}, of(t, `touch /dev/shm/$1`))
}

func TestCgroup(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{}) // so that there is a hierarchy to write to
	top := strings.TrimSuffix(g.Dir(), g.Path())
	t.Cleanup(func() { require.NoError(t, os.Remove(top+"/mpiguard-left-"+t.Name())) })
	assert.Equal(t, []string{"cgroup " + top + "/mpiguard-left-" + t.Name()}, of(t, "mkdir "+top+"/mpiguard-left-$1"))
}

func TestErrorIsThatOfTheCommand(t *testing.T) {
	_, err := leftovers.Run(exec.Command("sh", "-c", "exit 3"))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode())
}
