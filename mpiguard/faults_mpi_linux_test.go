//go:build cgo

package mpiguard_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

const (
	faultExit     = 7
	faultVariable = "MPIGUARD_TEST_FAULT"
)

// faulty is what a rank of a job with a fault does.
func faulty(c *mpicomm.Comm, _ bool) error {
	f := faults[os.Getenv(faultVariable)]
	before := runtime.NumGoroutine()
	r := &faultyRank{comm: c}
	held := r.run(f)
	if now := goroutinesReturnTo(before); now > before {
		r.Errorf("%d goroutines, %d before", now, before)
	}
	if len(r.complaints) > 0 {
		fmt.Fprintf(os.Stderr, "rank %d: %s\n", c.Rank(), strings.Join(r.complaints, "\n"))
		os.Exit(3)
	}
	fmt.Println("told rank", c.Rank(), "held up for", held.Round(time.Millisecond))
	if f.again == nil && !f.gone && !slices.Contains(f.want, mpiguard.ErrBroken) || slices.Equal(f.again, closed) {
		return nil
	}
	os.Exit(faultExit) // the ranks cannot meet any more, not even to stop MPI
	return nil
}

func TestLabFaults(t *testing.T) {
	for name, f := range faults {
		if f.place == inProcess {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tell := faultRanks
			if f.gone {
				tell--
			}
			// The launcher must let the others live.
			r := runRanks(t, "faulty", mpirun.Config{Ranks: faultRanks, Flags: []string{"--enable-recovery"}, Env: []string{faultVariable + "=" + name}})
			var told []string
			for line := range strings.Lines(r.Stdout) {
				if s, ok := strings.CutPrefix(line, "told "); ok {
					told = append(told, strings.TrimSpace(s))
				}
			}
			t.Logf("exit %d after %v: %q", r.Exit, r.Elapsed.Round(time.Millisecond), told)
			assert.Len(t, told, tell, "%s%s", r.Stdout, r.Stderr)
		})
	}
}
