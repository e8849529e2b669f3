package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/benchmarks"
	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// The job: examples/csvstats over a file that is larger than its memory.
const (
	jobInput      = "2GiB"
	jobLimitBytes = 512 << 20
	jobRanks      = 4
	jobGoalMiB    = 64 // of anonymous memory
)

// csvJob measures csvstats beside the same work streamed by hand, in whole runs,
// and says what memory they took.
func (o options) csvJob(ctx context.Context, dir string) (m benchmarks.Measured, memory string, err error) {
	for _, pkg := range []string{"./examples/csvstats", "./benchmarks/byhand"} {
		if err := build(ctx, dir, pkg); err != nil {
			return m, "", err
		}
	}
	input := filepath.Join(dir, "input")
	guarded, byHand := filepath.Join(dir, "csvstats"), filepath.Join(dir, "byhand")
	if r, err := mpirun.Run(ctx, mpirun.Config{Ranks: 1, Stderr: os.Stderr}, guarded, "-generate", jobInput, input); err != nil || r.Exit != 0 {
		return m, "", fmt.Errorf("csvstats -generate: exit %d, %w", r.Exit, err)
	}
	if err := readOnce(input); err != nil {
		return m, "", err
	}
	ours := job{ctx: ctx, program: guarded, args: []string{input}}
	bare := job{ctx: ctx, program: byHand, args: []string{input}}
	row := benchmarks.Row{
		Name:      fmt.Sprintf("%s of CSV, %d ranks, %d MiB", jobInput, jobRanks, jobLimitBytes>>20),
		Goal:      benchmarks.Goal{OfPrimitive: 1 / 1.05, Allocs: benchmarks.AnyAllocs},
		Ours:      pairs.Contender{Name: "csvstats", Run: ours.run},
		Primitive: pairs.Contender{Name: "streamed by hand", Run: bare.run},
	}
	m = row.Measure(pairs.Config{Rounds: o.job, Times: 1})
	if digest := strings.TrimSpace(bare.stdout); !strings.Contains(ours.stdout, digest) {
		return m, "", fmt.Errorf("by hand the digest of the answer is %s, csvstats said:\n%s", digest, ours.stdout)
	}
	memory = fmt.Sprintf("Peak of anonymous memory of the job over %d runs each, mpirun included: csvstats %d MiB, by hand %d MiB; the goal is %d MiB.",
		o.job, ours.peakBytes>>20, bare.peakBytes>>20, jobGoalMiB)
	return m, memory, nil
}

// job is a program that is run under the limit again and again.
type job struct {
	ctx       context.Context
	program   string
	args      []string
	stdout    string // of the last run
	peakBytes int64  // of all runs
}

func (j *job) run(int) pairs.Sample {
	seconds, err := j.once()
	must(err)
	return pairs.Sample{Nanoseconds: float64(seconds)}
}

func (j *job) once() (took time.Duration, err error) {
	g, err := memgroup.New("bench-job", memgroup.Limits{MaxBytes: jobLimitBytes})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Remove()) }()
	stop := g.Watch(5 * time.Millisecond)
	r, err := mpirun.Run(j.ctx, mpirun.Config{Ranks: jobRanks, Group: g}, j.program, j.args...)
	peak, watchErr := stop()
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("%s exited with %d:\n%s", j.program, r.Exit, r.Stderr)
	}
	j.stdout, j.peakBytes = r.Stdout, max(j.peakBytes, peak.AnonBytes)
	return r.Elapsed, errors.Join(err, watchErr)
}

// readOnce brings a file into the page cache.
func readOnce(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(struct{ io.Writer }{io.Discard}, f)
	return err
}
