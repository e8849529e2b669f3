// Package mpirun runs MPI programs the way tests and the demo want it: more
// ranks than cores without busy waiting, no traffic that leaves the machine, a
// deadline, the output kept, and neither process nor file left behind however
// the job ends.
package mpirun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
)

// grace is how long mpirun has to end its ranks, once it was asked to.
const grace = 5 * time.Second

// Config describes a job.
type Config struct {
	Ranks int
	// Launcher is the command that starts the job, with the words that come
	// first; nil for mpirun, or $MPIGUARD_MPIRUN.
	Launcher []string
	Flags    []string        // more flags of the launcher
	Env      []string        // added to the environment, as "NAME=value"
	Dir      string          // the working directory; empty for the caller's
	Group    *memgroup.Group // what all of the job runs in; nil for the caller's
	// Stdout and Stderr, where not nil, get the output while it is written too.
	Stdout, Stderr io.Writer
}

// Result is how a job ended.
type Result struct {
	Exit           int // of mpirun itself; 128+n when signal n ended it
	Stdout, Stderr string
	Elapsed        time.Duration
}

// Job is a job that runs.
type Job struct {
	ctx            context.Context
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	start          time.Time
	scratch        []string
}

// Run starts a job and waits for its end. An exit code is no error; what kept
// the job from coming to its own end is, such as the end of ctx.
func Run(ctx context.Context, c Config, program string, args ...string) (Result, error) {
	j, err := Start(ctx, c, program, args...)
	if err != nil {
		return Result{}, err
	}
	return j.Wait()
}

// Start starts a job. Call Wait, once. The job ends with ctx.
func Start(ctx context.Context, c Config, program string, args ...string) (_ *Job, err error) {
	j := &Job{ctx: ctx}
	defer func() {
		if err != nil {
			_ = j.cleanUp()
		}
	}()
	launcher := c.Launcher
	if launcher == nil {
		launcher = []string{Launcher()}
	}
	argv := slices.Concat(launcher, []string{"-n", strconv.Itoa(c.Ranks)}, c.Flags, []string{program}, args)
	j.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	j.cmd.Dir = c.Dir
	j.cmd.Env = append(append(os.Environ(), Environ()...), c.Env...)
	if deadline, ok := ctx.Deadline(); ok {
		// mpirun's own clock, for the case that the caller dies first.
		s := int((time.Until(deadline) + 2*grace).Seconds())
		j.cmd.Env = append(j.cmd.Env, "MPIEXEC_TIMEOUT="+strconv.Itoa(s))
	}
	for base, variable := range map[string]string{
		os.TempDir(): "OMPI_MCA_orte_tmpdir_base",
		"/dev/shm":   "OMPI_MCA_btl_vader_backing_directory",
	} {
		dir, err := os.MkdirTemp(base, "mpiguard-job-*")
		if errors.Is(err, os.ErrNotExist) {
			continue // a system without /dev/shm
		} else if err != nil {
			return nil, err
		}
		j.scratch = append(j.scratch, dir)
		j.cmd.Env = append(j.cmd.Env, variable+"="+dir)
	}
	j.cmd.Stdout, j.cmd.Stderr = tee(&j.stdout, c.Stdout), tee(&j.stderr, c.Stderr)
	j.cmd.SysProcAttr = ownSession()
	j.cmd.Cancel = func() error { return j.cmd.Process.Signal(syscall.SIGTERM) }
	j.cmd.WaitDelay = grace
	if c.Group != nil {
		c.Group.Enclose(j.cmd)
	}
	j.start = time.Now()
	return j, j.cmd.Start()
}

// Wait waits for the end of the job, and ends what it left running.
func (j *Job) Wait() (Result, error) {
	err := j.cmd.Wait()
	r := Result{Elapsed: time.Since(j.start), Exit: exitCode(j.cmd.ProcessState)}
	cleanErr := j.cleanUp()
	r.Stdout, r.Stderr = j.stdout.String(), j.stderr.String()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case j.ctx.Err() != nil:
		err = fmt.Errorf("mpirun was ended after %v: %w", r.Elapsed.Round(time.Millisecond), context.Cause(j.ctx))
	case errors.As(err, &exit):
		err = nil
	}
	return r, errors.Join(err, cleanErr)
}

// cleanUp kills what is left of the session and removes the job's files.
func (j *Job) cleanUp() error {
	var err error
	if j.cmd != nil && j.cmd.Process != nil {
		err = killSession(j.cmd.Process.Pid)
	}
	for _, dir := range j.scratch {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Launcher is the command that starts jobs as a rule: mpirun, or $MPIGUARD_MPIRUN.
func Launcher() string {
	if l := os.Getenv("MPIGUARD_MPIRUN"); l != "" {
		return l
	}
	return "mpirun"
}

// Environ is what a launcher needs in its environment on one machine that other
// work shares. It stands in for flags, so that daemons and other launchers see
// it too.
func Environ() []string {
	return []string{
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1",     // --oversubscribe
		"OMPI_MCA_hwloc_base_binding_policy=none", // --bind-to none
		"OMPI_MCA_mpi_yield_when_idle=1",          // 4 ranks on 2 cores must not spin
		"OMPI_MCA_btl_tcp_if_include=lo",          // between ranks
		"OMPI_MCA_oob_tcp_if_include=lo",          // between daemons
		"HYDRA_IFACE=lo", "UCX_NET_DEVICES=lo",    // the same of MPICH
	}
}

func tee(keep *bytes.Buffer, also io.Writer) io.Writer {
	if also == nil {
		return keep
	}
	return io.MultiWriter(keep, also)
}
