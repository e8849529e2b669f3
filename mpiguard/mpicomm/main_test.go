//go:build cgo

package mpicomm_test

import (
	"os"
	"runtime"
	"testing"

	mpi "github.com/sbromberger/gompi"
)

// A test binary is one of the ranks where rankVariable says how to start MPI;
// TestMpirun and its like make such ranks of it.
const (
	rankVariable = "MPICOMM_TEST_RANK"
	single       = "single"   // mpi.Start(false)
	multiple     = "multiple" // mpi.Start(true)
)

var (
	onMain  = make(chan func()) // for the thread that started MPI
	stopped bool                // a test called mpi.Stop
)

func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	how := os.Getenv(rankVariable)
	if how == "" {
		os.Exit(m.Run())
	}
	mpi.Start(how == multiple)
	code := make(chan int)
	go func() { code <- m.Run() }()
	for {
		select {
		case f := <-onMain:
			f()
		case c := <-code:
			if !stopped {
				mpi.Stop()
			}
			os.Exit(c)
		}
	}
}

// runOnMain runs f on the thread that started MPI.
func runOnMain[T any](f func() T) T {
	result := make(chan T)
	onMain <- func() { result <- f() }
	return <-result
}

// rank skips a test in a process that is no rank.
func rank(t *testing.T) {
	if os.Getenv(rankVariable) == "" {
		t.Skip("no rank: TestMpirun and its like run this under mpirun")
	}
}
