//go:build cgo

package mpicomm_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// job runs this test binary under mpirun, with the given tests as for -test.run
// and MPI started as rankVariable says.
func job(t *testing.T, ranks int, start, tests string, flags ...string) mpirun.Result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := mpirun.Config{Ranks: ranks, Flags: flags, Env: []string{rankVariable + "=" + start}}
	return lab.Mpirun(t, c, self, "-test.run", tests, "-test.timeout", time.Minute.String())
}

// passes runs a job of which every rank must pass at least one test.
func passes(t *testing.T, ranks int, start, tests string, flags ...string) {
	t.Helper()
	r := job(t, ranks, start, tests, flags...)
	if !assert.Zero(t, r.Exit) || !assert.Equal(t, ranks, strings.Count(r.Stdout, "PASS\n")) ||
		!assert.NotContains(t, r.Stderr, "no tests to run") {
		t.Logf("stdout:\n%s\nstderr:\n%s", r.Stdout, r.Stderr)
	}
}

func openMPI() bool { return strings.HasPrefix(mpicomm.Library(), "Open MPI") }

func TestMpirun(t *testing.T) {
	transports := map[string][]string{"default": nil}
	if openMPI() {
		transports["tcp"] = []string{"--mca", "btl", "self,tcp"}
	}
	for name, flags := range transports {
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/n=%d", name, n), func(t *testing.T) {
				passes(t, n, multiple, "^TestRank", flags...)
			})
		}
	}
}

func TestMpirunSingleThread(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) { passes(t, n, single, "^TestMain") })
	}
}

func TestMpirunStopped(t *testing.T) { passes(t, 2, single, "^TestStopped") }
