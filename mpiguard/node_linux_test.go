//go:build cgo

package mpiguard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
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
	err := map[string]func(*mpicomm.Comm, bool) error{
		"uneven": uneven, "chaos": chaos, "figures": figures, "limits": limits, "resized": resized, "faulty": faulty, "levels": levels,
	}[strings.TrimSuffix(kind, "-static")](mpicomm.World(), strings.HasSuffix(kind, "-static"))
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
	if invariants.Enabled {
		t.Skip("the race detector takes a multiple of the memory; the run without it is the one that counts")
	}
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

// What a survey says of the ranks agrees with /proc, and with what the kernel
// counts for the group: a segment that all ranks map counts once, and what is
// left is mpirun, its helpers and the kernel.
func TestSurveyAgreesWithTheKernel(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 512 << 20})
	segment := filepath.Join("/dev/shm", filepath.Base(t.TempDir())+t.Name())
	require.NoError(t, os.WriteFile(segment, nil, 0o600))
	defer os.Remove(segment)
	require.NoError(t, os.Truncate(segment, figuresSegment))
	r := runRanks(t, "figures", mpirun.Config{Ranks: 4, Group: g, Env: []string{"MPIGUARD_TEST_SEGMENT=" + segment}})
	require.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	t.Log(r.Stdout)
}

const (
	figuresNear    = 2 << 20
	figuresSegment = 64 << 20
)

func figures(c *mpicomm.Comm, _ bool) error {
	ctx := context.Background()
	g, err := mpiguard.New(ctx, c, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer g.Close()
	segment, err := os.OpenFile(os.Getenv("MPIGUARD_TEST_SEGMENT"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer segment.Close()
	shared, err := unix.Mmap(int(segment.Fd()), 0, figuresSegment, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	defer unmap(shared)
	hold := touched(int64(c.Rank()+1) * (10 << 20))
	defer unmap(hold)
	if err := c.Barrier(ctx); err != nil { // all hold what they are to hold
		return err
	}
	s, err := g.Survey(ctx)
	if err != nil {
		return err
	}
	own, err := rssAnon(os.Getpid())
	if err != nil {
		return err
	}
	if d := s.Ranks[c.Rank()].AnonBytes - own; max(d, -d) > figuresNear {
		err = fmt.Errorf("rank %d: the survey has %d bytes, /proc %d", c.Rank(), s.Ranks[c.Rank()].AnonBytes, own)
	}
	if len(s.Nodes) != 1 || s.Nodes[0].Ranks != 4 {
		err = errors.Join(err, fmt.Errorf("four ranks on one node are shown as %+v", s.Nodes))
	}
	if c.Rank() == 0 {
		err = errors.Join(err, figuresOfGroup(s))
	}
	return errors.Join(err, c.Barrier(ctx)) // nobody ends while rank 0 looks
}

// figuresOfGroup compares the survey with the counts of the kernel for the group
// and for the processes in it.
func figuresOfGroup(s *mpiguard.Survey) error {
	group, err := memgroup.Of(os.Getpid())
	if err != nil {
		return err
	}
	kernel, err := kernelBytes(group)
	if err != nil {
		return err
	}
	pids, err := group.Pids()
	if err != nil {
		return err
	}
	var others int64
	for _, pid := range pids {
		if slices.ContainsFunc(s.Ranks, func(r mpiguard.RankUsage) bool { return r.PID == pid }) {
			continue
		}
		n, err := rssAnon(pid)
		if err != nil {
			return err
		}
		others += n
	}
	n := s.Nodes[0]
	fmt.Printf("%d KiB others and kernel; mpirun and helpers have %d KiB, the kernel %d KiB\n%v", n.OthersBytes()>>10, others>>10, kernel>>10, s)
	if d := n.OthersBytes() - kernel - others; max(d, -d) > figuresNear {
		err = fmt.Errorf("the survey leaves %d bytes to others and the kernel, which have %d and %d", n.OthersBytes(), others, kernel)
	}
	if n.ShmemBytes < figuresSegment || n.ShmemBytes > figuresSegment+figuresNear {
		err = errors.Join(err, fmt.Errorf("one segment of %d bytes is shown as %d", figuresSegment, n.ShmemBytes))
	}
	return err
}

// kernelBytes is the kernel memory that counts for the group.
func kernelBytes(g *memgroup.Group) (int64, error) {
	if g.Version() == 1 {
		text, err := os.ReadFile(filepath.Join(g.Dir(), "memory.kmem.usage_in_bytes"))
		if errors.Is(err, os.ErrNotExist) {
			return 0, nil // a kernel that does not count it
		} else if err != nil {
			return 0, err
		}
		return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	text, err := os.ReadFile(filepath.Join(g.Dir(), "memory.stat"))
	if err != nil {
		return 0, err
	}
	var sum int64
	for line := range strings.Lines(string(text)) {
		var key string
		var n int64
		if _, err := fmt.Sscan(line, &key, &n); err != nil {
			return 0, err
		}
		switch key {
		case "kernel", "sock":
			sum += n
		case "slab_reclaimable":
			sum -= n
		}
	}
	return sum, nil
}

func rssAnon(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("no RssAnon in status")
}
