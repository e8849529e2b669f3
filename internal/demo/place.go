package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

const (
	ranks       = 4
	sampleEvery = 5 * time.Millisecond
	unknown     = -1
)

// measured is how a run ended and what its group took.
type measured struct {
	exit      int
	seconds   float64
	stderr    string
	peakBytes int64 // page cache included; unknown where the group is gone
	anon      memgroup.Peak
}

// place is where a run is limited and measured from outside.
type place interface {
	run(ctx context.Context, limitBytes int64, program string, args ...string) (measured, error)
}

// cgroup is a new memory cgroup for each run.
type cgroup struct{}

func (cgroup) run(ctx context.Context, limitBytes int64, program string, args ...string) (m measured, err error) {
	g, err := memgroup.New("demo", memgroup.Limits{MaxBytes: limitBytes})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, g.Remove()) }()
	stop := g.Watch(sampleEvery)
	r, runErr := mpirun.Run(ctx, mpirun.Config{Ranks: ranks, Group: g}, program, args...)
	peak, watchErr := stop()
	peakBytes, peakErr := g.PeakBytes()
	if peakErr != nil {
		peakBytes = unknown // cgroup v2 before Linux 5.19
	}
	return measured{r.Exit, r.Elapsed.Seconds(), r.Stderr, peakBytes, peak}, errors.Join(runErr, watchErr)
}

// scope is a new transient scope of the user's systemd for each run.
type scope struct{}

func scopeCommand(ctx context.Context, limitBytes int64, command ...string) *exec.Cmd {
	args := []string{"--user", "--scope", "--quiet", "-p", "MemoryMax=infinity"}
	if limitBytes > 0 {
		args = append(args[:len(args)-1], "MemoryMax="+strconv.FormatInt(limitBytes, 10), "-p", "MemorySwapMax=0")
	}
	cmd := exec.CommandContext(ctx, "systemd-run", append(append(args, "--"), command...)...)
	cmd.Env = append(os.Environ(), mpirun.Environ()...)
	return cmd
}

func probeScope(ctx context.Context) error {
	if out, err := scopeCommand(ctx, 64<<20, "true").CombinedOutput(); err != nil {
		return fmt.Errorf("systemd-run --user: %w %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (scope) run(ctx context.Context, limitBytes int64, program string, args ...string) (m measured, err error) {
	cmd := scopeCommand(ctx, limitBytes, append([]string{mpirun.Launcher(), "-n", strconv.Itoa(ranks), program}, args...)...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return m, err
	}
	ended := make(chan struct{})
	peak := make(chan memgroup.Peak)
	go func() { peak <- watchScope(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	close(ended)
	m = measured{cmd.ProcessState.ExitCode(), time.Since(begun).Seconds(), stderr.String(), unknown, <-peak}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	return m, err
}

// watchScope samples the group that a process enters, until the group is gone
// with its last process.
func watchScope(pid int, ended <-chan struct{}) (peak memgroup.Peak) {
	own, err := memgroup.Of(os.Getpid())
	if err != nil {
		return peak
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var g *memgroup.Group
	for {
		if g == nil {
			if of, err := memgroup.Of(pid); err == nil && of.Path() != own.Path() {
				g = of // systemd-run has moved itself, and becomes the command
			}
		} else if n, err := g.AnonBytes(); err == nil {
			peak.AnonBytes = max(peak.AnonBytes, n)
			peak.Samples++
		}
		select {
		case <-ended:
			return peak
		case <-tick.C:
		}
	}
}
