//go:build cgo && linux

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mpi "github.com/sbromberger/gompi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/doctor"
	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// jobDeadline is above what ranks take that have to share the cores of a busy
// machine.
const jobDeadline = 6 * time.Second

// A test binary is a rank of mpidoctor where these variables say which rank stops,
// and where.
const (
	stopRankVariable = "MPIDOCTOR_TEST_STOP_RANK"
	stopAtVariable   = "MPIDOCTOR_TEST_STOP_AT"
)

func TestMain(m *testing.M) {
	rank, err := strconv.Atoi(os.Getenv(stopRankVariable))
	if err != nil {
		os.Exit(m.Run())
	}
	mpi.Start(false)
	s := &stopping{}
	if mpi.WorldRank() == rank {
		s.at = os.Getenv(stopAtVariable)
	}
	s.stop("start")
	s.Comm = mpicomm.World()
	os.Exit(options{Deadline: jobDeadline}.run(s))
}

// stopping stops this process at its first call of a kind.
type stopping struct {
	*mpicomm.Comm
	at string
}

func (s *stopping) stop(at string) {
	if s.at == at && at != "" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

func (s *stopping) Isend(buf []byte, dest, tag int) (mpiguard.Request, error) {
	s.stop(map[int]string{tagHere: "present", tagPong: "pong"}[tag])
	return s.Comm.Isend(buf, dest, tag)
}

func (s *stopping) Irecv(buf []byte, source, tag int) (mpiguard.Request, error) {
	s.stop(map[int]string{tagOrder: "order", tagHere: "roll call", tagPing: "ping"}[tag])
	return s.Comm.Irecv(buf, source, tag)
}

func (s *stopping) Allgather(ctx context.Context, dst, row []byte) error {
	s.stop("limits")
	return s.Comm.Allgather(ctx, dst, row)
}

// reported is the part of the JSON that tests look at.
type reported struct {
	Ranks    []doctor.Rank
	Nodes    []doctor.Node
	Links    []doctor.Link
	Network  []doctor.NodeNetwork
	Silent   []doctor.Silent
	Findings []struct {
		Severity string
		Hosts    []string
		Text     string
	}
}

// examineJob runs mpidoctor -json -strict, which must end in good order.
func examineJob(t *testing.T, c mpirun.Config, args ...string) reported {
	r := lab.Mpirun(t, c, program(t), append(args, "-json", "-strict")...)
	var back reported
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &back), "exit %d:\n%s\n%s", r.Exit, r.Stdout, r.Stderr)
	assert.Equal(t, min(len(back.Findings), 1), r.Exit, "%+v", back.Findings)
	assert.Empty(t, back.Silent)
	return back
}

func program(t *testing.T) string {
	lab.NeedMPI(t)
	return lab.Build(t, "github.com/mpiguard/mpiguard/mpiguard/cmd/mpidoctor")
}

func TestMpirun(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, ranks := range []int{1, 4} {
		r := examineJob(t, mpirun.Config{Ranks: ranks})
		require.Len(t, r.Nodes, 1)
		assert.Equal(t, host, r.Nodes[0].Host)
		assert.Positive(t, r.Nodes[0].Shm.SizeBytes)
		require.Len(t, r.Ranks, ranks)
		for i, k := range r.Ranks {
			assert.Equal(t, i, k.Rank)
			assert.Equal(t, ranks, k.SaidRanks)
			assert.Equal(t, "MPI_THREAD_SINGLE", k.ThreadLevel)
			assert.Equal(t, clip(mpicomm.Library(), maxLibraryBytes), k.Library)
			assert.Positive(t, k.ShareBytes)
		}
		assert.Empty(t, r.Links)
		for _, f := range r.Findings { // other jobs on this machine may have left something
			assert.Contains(t, f.Text, "left behind")
		}
	}
}

// What is wrong with a rank's limits, and what shares its group, is seen.
func TestMpirunLimits(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 300 << 20})
	segment, err := os.CreateTemp("/dev/shm", "vader_segment.test.*")
	require.NoError(t, err)
	defer os.Remove(segment.Name())
	defer segment.Close()
	r := lab.Mpirun(t, mpirun.Config{Ranks: 2, Group: g}, "sh", "-c", `ulimit -l 64; ulimit -n 100; exec "$0" -json -strict`, program(t))
	assert.Equal(t, exitWarnings, r.Exit)
	var back reported
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &back), "%s\n%s", r.Stdout, r.Stderr)
	for _, k := range back.Ranks {
		assert.Equal(t, doctor.Bytes(64<<10), k.LockedBytes)
		assert.EqualValues(t, 100, k.OpenFiles)
		assert.Equal(t, doctor.Bytes(300<<20), k.LimitBytes)
		assert.Less(t, k.ShareBytes, doctor.Bytes(150<<20))
	}
	n := back.Nodes[0]
	assert.Equal(t, doctor.Bytes(300<<20), n.LimitBytes)
	assert.Contains(t, n.Helpers.Names, mpirun.Launcher())
	assert.LessOrEqual(t, n.Helpers.Count, 2, "MPICH has a process beside its launcher")
	assert.Greater(t, n.Helpers.AnonBytes, doctor.Bytes(1<<20))
	assert.Positive(t, n.Stale.Count)
	assert.FileExists(t, segment.Name(), "counted, not removed")
	var texts []string
	for _, f := range back.Findings {
		texts = append(texts, f.Text)
	}
	assert.Contains(t, strings.Join(texts, "\n"), "the limit on open files is 100: 2 ranks over TCP may need 258")
}

// A rank that is stopped is named within the deadline, and the job ends.
func TestMpirunStopped(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, c := range []struct{ rank, at, want string }{
		{"2", "start", "error: rank 2 did not answer within 6s at the start"},
		{"2", "limits", "error: " + host + ": rank 2 did not answer within 6s when the ranks told their limits"},
		{"2", "order", "error: " + host + ": rank 2 did not answer within 6s at the end"},
		{"2", "present", "error: " + host + ": rank 2 did not answer within 6s at the end"},
		{"0", "limits", "error: rank 0 did not answer within 6s when the ranks told their limits"},
		{"0", "roll call", "error: rank 0 did not answer within 6s when it was to give orders"},
	} {
		t.Run(c.rank+" "+c.at, func(t *testing.T) {
			t.Parallel()
			r := lab.Mpirun(t, mpirun.Config{Ranks: 3, Env: []string{stopRankVariable + "=" + c.rank, stopAtVariable + "=" + c.at}}, self)
			assert.Equal(t, exitErrors, r.Exit)
			assert.Less(t, r.Elapsed, 2*jobDeadline)
			assert.Contains(t, r.Stdout, c.want)
			assert.Equal(t, 1, strings.Count(r.Stdout, "did not answer"), "one says it, of one:\n%s", r.Stdout)
		})
	}
	t.Run("before MPI", func(t *testing.T) {
		t.Parallel()
		r := lab.Mpirun(t, mpirun.Config{Ranks: 3}, "sh", "-c", `[ $OMPI_COMM_WORLD_RANK$PMI_RANK != 2 ] || kill -STOP $$; exec "$0" -deadline 2s`, program(t))
		assert.Equal(t, exitErrors, r.Exit)
		for rank, want := range []bool{true, true, false} {
			assert.Equal(t, want, strings.Contains(r.Stderr, "mpidoctor: rank "+strconv.Itoa(rank)+" on "+host+" waits in MPI_Init since 6s"), r.Stderr)
		}
	})
}

func TestMpirunCommandLine(t *testing.T) {
	r := lab.Mpirun(t, mpirun.Config{Ranks: 3}, program(t), "-bad")
	assert.Equal(t, exitErrors, r.Exit)
	assert.Equal(t, 1, strings.Count(r.Stderr, "mpidoctor: unknown flag"), r.Stderr)
}

// Ranks that a launcher of another MPI starts do not find each other.
func TestLabOtherLauncher(t *testing.T) {
	_, err := exec.LookPath("mpiexec.mpich")
	lab.Need(t, err == nil && strings.HasPrefix(mpicomm.Library(), "Open MPI"), "no launcher of MPICH beside Open MPI")
	r := lab.Mpirun(t, mpirun.Config{Ranks: 2, Launcher: []string{"mpiexec.mpich"}}, program(t))
	assert.Equal(t, exitErrors, r.Exit)
	assert.Contains(t, r.Stdout, "MPI_LOCALNRANKS says 2 ranks, and each is alone: the launcher is not that of Open MPI")
}
