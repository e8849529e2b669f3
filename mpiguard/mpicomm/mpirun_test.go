//go:build cgo

package mpicomm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// job is one run of this test binary under mpirun.
type job struct {
	ranks   int
	start   string   // how the ranks start MPI: single or multiple
	tests   string   // what they run, as for -test.run
	options []string // of mpirun
	env     []string
	limit   time.Duration // 0 is two minutes
	begun   func(*exec.Cmd)
}

// run runs the job and returns the exit code of mpirun and what was printed.
func (j job) run(t *testing.T) (int, string) {
	t.Helper()
	launcher := os.Getenv("MPIRUN")
	if launcher == "" {
		launcher = "mpirun"
	}
	path, err := exec.LookPath(launcher)
	need(t, err == nil, "no "+launcher)
	self, err := os.Executable()
	require.NoError(t, err)
	if j.limit == 0 {
		j.limit = 2 * time.Minute
	}

	args := []string{"-n", strconv.Itoa(j.ranks)}
	if openMPI() {
		args = append(args, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1")
	}
	args = append(append(args, j.options...), self, "-test.run", j.tests, "-test.timeout", j.limit.String())
	ctx, cancel := context.WithTimeout(t.Context(), j.limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(append(os.Environ(), rankVariable+"="+j.start,
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_btl_tcp_if_include=lo", "OMPI_MCA_oob_tcp_if_include=lo"), j.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(cmd.Process.Pid, syscall.SIGTERM) } // mpirun ends its ranks
	cmd.WaitDelay = 5 * time.Second
	require.NoError(t, cmd.Start())
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if j.begun != nil {
		j.begun(cmd)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		t.Errorf("%v after %v:\n%s", err, j.limit, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func openMPI() bool { return strings.HasPrefix(mpicomm.Library(), "Open MPI") }

// need skips a test that this machine cannot run, or fails it where all of the
// lab is required.
func need(t *testing.T, ok bool, reason string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("MPIGUARD_LAB") == "require":
		t.Fatal(reason)
	default:
		t.Skip(reason)
	}
}

func TestMpirun(t *testing.T) {
	transports := map[string][]string{"default": nil}
	if openMPI() {
		transports["tcp"] = []string{"--mca", "btl", "self,tcp"}
	}
	for name, options := range transports {
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/n=%d", name, n), func(t *testing.T) {
				code, out := job{ranks: n, start: multiple, tests: "^TestRank", options: options}.run(t)
				assert.Zero(t, code, out)
				assert.Equal(t, n, strings.Count(out, "PASS"), out)
				if testing.Verbose() {
					t.Log(out)
				}
			})
		}
	}
}
