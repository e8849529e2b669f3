//go:build linux

package slurm_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/slurm"
)

func TestLabSlurm(t *testing.T) {
	lab.Need(t, slurm.Ready() == nil, "no Slurm here")
	tmp, err := os.MkdirTemp("", "t") // shorter than t.TempDir
	require.NoError(t, err)
	t.Setenv("TMPDIR", tmp)
	var nodes []string
	t.Cleanup(func() { // runs after that of lab.Slurm
		left, err := filepath.Glob(tmp + "/*")
		require.NoError(t, err)
		for _, n := range nodes {
			groups, err := filepath.Glob("/sys/fs/cgroup/*/slurm_" + n)
			require.NoError(t, err)
			left = append(left, groups...)
		}
		assert.Empty(t, left)
		require.NoError(t, os.RemoveAll(tmp))
	})
	c := lab.Slurm(t, 2)
	nodes = c.Nodes()

	out, err := c.Command(t.Context(), "srun", "-N2", "-n3", "--mem=200M", "sh", "-c",
		"echo $(hostname) $(sed -n s/.*:memory://p /proc/self/cgroup)").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.ElementsMatch(t, []string{
		nodes[0] + " /slurm_" + nodes[0] + "/uid_0/job_1/step_0/task_0",
		nodes[0] + " /slurm_" + nodes[0] + "/uid_0/job_1/step_0/task_1",
		nodes[1] + " /slurm_" + nodes[1] + "/uid_0/job_1/step_0/task_0",
	}, strings.Split(strings.TrimSpace(string(out)), "\n"))

	out, err = c.Command(t.Context(), "srun", "--mem=100M", "dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Contains(t, string(out), "Out Of Memory")
}

// Open MPI takes ranks, hosts and addresses from Slurm.
func TestLabSlurmStartsMPI(t *testing.T) {
	c := lab.Slurm(t, 2)
	lab.NeedMPI(t)
	dir := t.TempDir()
	program, log := filepath.Join(dir, "ranks"), filepath.Join(dir, "log")
	out, err := exec.CommandContext(t.Context(), "mpicc", "-o", program, "../hosts/testdata/ranks.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var want []string
	for rank, node := range []int{0, 0, 1, 1} {
		want = append(want, fmt.Sprintf("rank %d on %s, sum 6", rank, c.Nodes()[node]))
	}

	for _, argv := range [][]string{
		{"srun", "-N2", "--ntasks-per-node=2", "--output", log, program},
		{"sbatch", "--wait", "-N2", "--ntasks-per-node=2", "--output", log, "--wrap", "mpirun " + program},
	} {
		t.Run(argv[0], func(t *testing.T) {
			out, err := c.Command(t.Context(), argv[0], argv[1:]...).CombinedOutput()
			text, readErr := os.ReadFile(log)
			require.NoError(t, errors.Join(err, readErr), "%s%s", out, text)
			assert.ElementsMatch(t, want, strings.Split(strings.TrimSpace(string(text)), "\n"))
		})
	}
}
