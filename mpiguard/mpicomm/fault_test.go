//go:build cgo && unix

package mpicomm_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// faults are what can befall the last rank.
var faults = map[string]func(){
	"stop":  func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
	"exit":  func() { os.Exit(0) },
	"panic": func() { panic("a fault for the test") },
	"kill":  func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
}

const (
	faultVariable = "MPICOMM_TEST_FAULT"
	seen          = "the fault was seen by rank"
	faultExit     = 7
)

// TestFault: the others get the error of their ctx in time, can still talk to
// each other and end the job.
func TestFault(t *testing.T) {
	rank(t)
	signal.Ignore(syscall.SIGUSR1) // with which the launcher of MPICH tells of a rank that was killed
	w := mpicomm.World()
	require.NoError(t, w.Barrier(patient(t)))
	last := w.Size() - 1
	if w.Rank() == last {
		go faults[os.Getenv(faultVariable)]() // a panic that no test catches
		select {}
	}

	const limit = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	err := w.Allgather(ctx, make([]byte, w.Size()), make([]byte, 1))
	waited := time.Since(start)
	var broken *mpiguard.BrokenError
	if assert.ErrorAs(t, err, &broken) {
		assert.Equal(t, mpiguard.BrokenError{Call: "Allgather", Rank: w.Rank(), Cause: context.DeadlineExceeded}, *broken)
		assert.Less(t, waited, limit+time.Second)
		assert.Equal(t, err, w.Barrier(context.Background()), "the first cause, at once")
		fmt.Println(seen, w.Rank())
	}
	if w.Rank() != 0 {
		_, err = w.Isend(nil, 0, 1)
		require.NoError(t, err)
		select {} // until rank 0 ends the job
	}
	for range last - 1 {
		r, err := w.Irecv(nil, mpiguard.AnySource, 1)
		require.NoError(t, err)
		for done := false; !done; {
			_, done, err = r.Test()
			require.NoError(t, err)
		}
	}
	w.Abort(faultExit)
}

func TestMpirunFaults(t *testing.T) {
	leaveOthers := "--enable-recovery"
	if !openMPI() {
		leaveOthers = "-disable-auto-cleanup"
	}
	for name := range faults {
		t.Setenv(faultVariable, name)
		if name == "stop" { // of which the launcher sees nothing
			t.Run(name, func(t *testing.T) { assert.Equal(t, faultExit, runFault(t, true)) })
			continue
		}
		// Hydra, the launcher of MPICH, ends all ranks when one was killed, whatever it
		// was told, and its exit code is 0 after some of these ends.
		if openMPI() || name != "kill" {
			t.Run(name, func(t *testing.T) { runFault(t, true, leaveOthers) })
		}
		if openMPI() {
			t.Run(name+" and the launcher ends all", func(t *testing.T) { assert.NotZero(t, runFault(t, false)) })
		}
	}
}

// runFault returns the exit code of a job with a fault, which all other ranks
// must see if the launcher lets them.
func runFault(t *testing.T, all bool, flags ...string) int {
	const ranks = 3
	r := job(t, ranks, multiple, "^TestFault$", flags...)
	assert.Less(t, r.Elapsed, 20*time.Second)
	if all && !assert.Equal(t, ranks-1, strings.Count(r.Stdout, seen)) {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.Stdout, r.Stderr)
	}
	return r.Exit
}

// TestLate: World waits for a rank that is late only so long, and what comes
// after it for as long as its ctx says.
func TestLate(t *testing.T) {
	rank(t)
	absent := os.Getenv(faultVariable) == "absent"
	late := mpi.WorldRank() == mpi.WorldSize()-1
	if late && absent {
		select {}
	}
	if late {
		time.Sleep(1500 * time.Millisecond)
	}
	start := time.Now()
	w := mpicomm.World()
	assert.Less(t, time.Since(start), 1400*time.Millisecond)
	if !late {
		_, err := w.Isend(nil, 0, 0)
		assert.EqualError(t, err, "mpicomm: Isend before every rank has called World")
		_, _, err = w.Iprobe(0, 0)
		assert.EqualError(t, err, "mpicomm: Iprobe before every rank has called World")
	}
	if !absent {
		assert.Equal(t, allRanks(), gather(t, w, w.Rank()))
		return
	}
	const limit = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start = time.Now()
	err := w.Barrier(ctx)
	assert.Less(t, time.Since(start), limit+time.Second)
	assert.ErrorIs(t, err, mpiguard.ErrBroken)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = w.Irecv(nil, 0, 0)
	assert.Error(t, err)
	if !t.Failed() {
		fmt.Println(seen, w.Rank())
	}
	time.Sleep(100 * time.Millisecond) // the others print too
	w.Abort(faultExit)
}

func TestMpirunLate(t *testing.T) { passes(t, 3, multiple, "^TestLate$") }

func TestMpirunAbsent(t *testing.T) {
	t.Setenv(faultVariable, "absent")
	r := job(t, 3, multiple, "^TestLate$")
	assert.Equal(t, faultExit, r.Exit)
	if !assert.Equal(t, 2, strings.Count(r.Stdout, seen)) {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.Stdout, r.Stderr)
	}
}
