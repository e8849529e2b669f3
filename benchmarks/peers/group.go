package main

import (
	"context"
	"errors"
	"os"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
)

const (
	// limitBytes is far from what is used here.
	limitBytes = 4 << 30

	insideVariable = "MPIGUARD_BENCH_INSIDE" // set in the process that is in the group
)

// inGroup does the work in a memory group with a limit: in a process that it
// starts there, or in this one where no group can be made.
func inGroup(ctx context.Context, work func() error) (err error) {
	if os.Getenv(insideVariable) != "" {
		return work()
	}
	g, err := memgroup.New("bench", memgroup.Limits{MaxBytes: limitBytes})
	if errors.Is(err, memgroup.ErrUnavailable) {
		return work()
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Remove()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := g.Command(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
