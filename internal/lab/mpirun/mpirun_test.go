//go:build linux

package mpirun_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// run runs a shell script as each of three ranks and checks that all ran and
// that neither a process nor a file is left.
func run(t *testing.T, ctx context.Context, c mpirun.Config, script string) (mpirun.Result, error) {
	lab.NeedMPI(t)
	t.Setenv("TMPDIR", t.TempDir())
	notes := t.TempDir()
	c.Ranks, c.Dir = 3, notes
	r, err := mpirun.Run(ctx, c, "sh", "-c", "echo $OMPI_MCA_btl_vader_backing_directory >$$; "+script)

	files, readErr := os.ReadDir(notes)
	require.NoError(t, readErr)
	assert.Len(t, files, 3, "each rank ran: %s", r.Stderr)
	for _, f := range files {
		pid, err := strconv.Atoi(f.Name())
		require.NoError(t, err)
		assert.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH },
			5*time.Second, time.Millisecond, "a rank is left") // dead at once, but init has to wait for it
		shm, err := os.ReadFile(filepath.Join(notes, f.Name()))
		require.NoError(t, err)
		require.Contains(t, string(shm), "mpiguard-job-")
		assert.NoDirExists(t, strings.TrimSpace(string(shm)))
	}
	left, globErr := filepath.Glob(os.TempDir() + "/*")
	require.NoError(t, globErr)
	assert.Empty(t, left, "a file is left")
	return r, err
}

func TestOutput(t *testing.T) {
	var live bytes.Buffer
	r, err := run(t, t.Context(), mpirun.Config{Env: []string{"WORD=a b"}, Stdout: &live},
		`echo "$WORD" $OMPI_COMM_WORLD_RANK; echo e >&2`)
	require.NoError(t, err)
	assert.Equal(t, 0, r.Exit)
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	assert.ElementsMatch(t, []string{"a b 0", "a b 1", "a b 2"}, lines)
	assert.Equal(t, "e\ne\ne\n", r.Stderr)
	assert.Equal(t, r.Stdout, live.String())
}

func TestExitOfOneRankIsNoError(t *testing.T) {
	r, err := run(t, t.Context(), mpirun.Config{}, `[ $OMPI_COMM_WORLD_RANK != 1 ] || { sleep .2; exit 7; }; sleep 60`)
	require.NoError(t, err)
	assert.Equal(t, 7, r.Exit)
	assert.Less(t, r.Elapsed, 30*time.Second, "the others are ended")
}

func TestKilledRankIs137(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 64 << 20})
	r, err := run(t, t.Context(), mpirun.Config{Group: g},
		`[ $OMPI_COMM_WORLD_RANK != 1 ] || exec dd if=/dev/zero of=/dev/null bs=200M; exec sleep 60`)
	require.NoError(t, err)
	assert.Equal(t, 137, r.Exit)
	assert.Contains(t, r.Stderr, "signal 9 (Killed)")
	kills, err := g.Kills()
	require.NoError(t, err)
	assert.EqualValues(t, 1, kills)
}

// countdown calls zero at the end of so many lines.
type countdown struct {
	lines int
	zero  func()
}

func (c *countdown) Write(p []byte) (int, error) {
	if c.lines -= bytes.Count(p, []byte("\n")); c.lines == 0 {
		c.zero()
	}
	return len(p), nil
}

func TestEndOfContextEndsStoppedRanks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := run(t, ctx, mpirun.Config{Stdout: &countdown{3, cancel}}, `echo up; kill -STOP $$`)
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, r.Elapsed, 30*time.Second)
}

func TestDeathOfMpirunLeavesNoRank(t *testing.T) {
	r, err := run(t, t.Context(), mpirun.Config{}, `sleep .5; kill -9 $PPID; exec sleep 60`)
	require.NoError(t, err)
	assert.Equal(t, 137, r.Exit)
}
