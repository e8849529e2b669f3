// Package commtest checks that a communicator keeps the promises of
// mpiguard.Comm and mpiguard.Messenger. A suite runs once in each process of
// the job; processes that ranks are spread over must share a host's clock.
package commtest

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// patience is what any one call may take before the suite gives up on it.
const patience = 10 * time.Second

// TestComm checks a Comm. For each of its checks it calls run, which makes a
// new world of ranks, calls f with each rank that lives in this process, all at
// the same time, and returns their errors once they have returned: inproc.Run
// with a size is one.
func TestComm(t *testing.T, run func(f func(mpiguard.Comm) error) error) {
	checkAll(t, commChecks, run)
}

// TestMessenger checks a Messenger, also as the Comm that it is. See TestComm
// for run.
func TestMessenger(t *testing.T, run func(f func(mpiguard.Messenger) error) error) {
	TestComm(t, func(f func(mpiguard.Comm) error) error {
		return run(func(m mpiguard.Messenger) error { return f(m) })
	})
	checkAll(t, messengerChecks, run)
}

// check is a promise as code that every rank runs. The assertions may run on
// any goroutine; after one that failed the rank returns, and the world with it.
type check[C mpiguard.Comm] struct {
	name string
	run  func(t *testing.T, c C)
}

func checkAll[C mpiguard.Comm](t *testing.T, checks []check[C], run func(f func(C) error) error) {
	before := runtime.NumGoroutine()
	for _, ck := range checks {
		t.Run(ck.name, func(t *testing.T) {
			assert.NoError(t, run(func(c C) error {
				ck.run(t, c)
				return nil
			}))
		})
	}
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, // Eventually has one itself
		patience, 10*time.Millisecond, "goroutines are left")
}

// patient bounds the waits of a check.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
