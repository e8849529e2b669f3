//go:build cgo

package mpiguard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

const rankVariable = "MPIGUARD_TEST_RANK"

func init() {
	if os.Getenv(rankVariable) != "" {
		runtime.LockOSThread() // MPI stays on the main thread
	}
}

// rank is what a test binary does as a rank of a job.
func rank(kind string) int {
	mpi.Start(false)
	defer mpi.Stop()
	err := map[string]func(*mpicomm.Comm, bool) error{"uneven": uneven, "chaos": chaos}[strings.TrimSuffix(kind, "-static")](
		mpicomm.World(), strings.HasSuffix(kind, "-static"))
	switch {
	case errors.Is(err, errChaosStopped):
		return chaosExit
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

func runRanks(t *testing.T, kind string, c mpirun.Config) mpirun.Result {
	c.Env = append(c.Env, rankVariable+"="+kind)
	return lab.Mpirun(t, c, os.Args[0], "-test.run=^$")
}

// Rank 0 needs much and the others little, under one limit that fits them all.
// One budget for the node lets the job finish; equal shares refuse rank 0.
func TestUnevenJob(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 448 << 20})
	r := runRanks(t, "uneven", mpirun.Config{Ranks: 4, Group: g})
	require.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	assert.Contains(t, r.Stdout, "finished")

	r = runRanks(t, "uneven-static", mpirun.Config{Ranks: 4, Group: g})
	require.Equal(t, 3, r.Exit, "%s%s", r.Stdout, r.Stderr)
	assert.Contains(t, r.Stderr, "1 of 4 ranks here with a share of")
	assert.Contains(t, r.Stderr, "more than could ever be granted")
	kills, err := g.Kills()
	require.NoError(t, err)
	assert.Zero(t, kills)
}

// Ranks that cannot see each other's processes use shares, and say so.
func TestRanksInPIDNamespaces(t *testing.T) {
	lab.Need(t, os.Geteuid() == 0, "PID namespaces need root here")
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 448 << 20})
	r := lab.Mpirun(t, mpirun.Config{Ranks: 2, Group: g,
		Flags: []string{"--mca", "btl", "self,tcp"}, // Open MPI's shared memory needs to see processes too
		Env:   []string{rankVariable + "=uneven", "MPIGUARD_LOG=info"}},
		"unshare", "--pid", "--fork", "--mount-proc", os.Args[0], "-test.run=^$")
	require.Equal(t, 3, r.Exit, "%s%s", r.Stdout, r.Stderr)
	assert.Contains(t, r.Stderr, "the ranks of this node share no ledger")
	assert.Contains(t, r.Stderr, "1 of 2 ranks here with a share of")
}

// uneven holds 220 MiB on rank 0 and 40 MiB on each other rank at once.
func uneven(c *mpicomm.Comm, static bool) error {
	ctx := context.Background()
	cfg := mpiguard.Config{}
	if static {
		cfg = cfg.WithoutLedger()
	}
	g, err := mpiguard.New(ctx, c, cfg)
	if err != nil {
		return err
	}
	defer g.Close()
	bytes := int64(40 << 20)
	if c.Rank() == 0 {
		bytes = 220 << 20
	}
	r, refused := g.TryReserveOffHeap("mesh", bytes)
	if refused == nil {
		defer r.Release()
		b, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		r.Commit(bytes)
	}
	if err := c.Barrier(ctx); err != nil {
		return errors.Join(refused, err)
	}
	time.Sleep(50 * time.Millisecond) // all hold what they need at one time
	if err := c.Barrier(ctx); err != nil {
		return errors.Join(refused, err)
	}
	if c.Rank() == 0 && refused == nil {
		fmt.Println("finished")
	}
	return refused
}
