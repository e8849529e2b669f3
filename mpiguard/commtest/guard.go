package commtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// TestGuard checks a Guard on a communicator: what it says of the ranks, and
// that all ranks agree on every error. See TestComm for run.
func TestGuard(t *testing.T, run func(f func(mpiguard.Comm) error) error) {
	checkAll(t, guardChecks, run)
}

var guardChecks = []check[mpiguard.Comm]{
	{"survey", checkSurvey},
	{"pulse", checkPulse},
	{"any more", checkAnyMore},
	{"rank that cannot start", checkCannotStart},
	{"variable that is junk", checkJunkVariable},
	{"configurations that differ", checkMismatch},
	{"ctx that is done", checkGuardDoneContext},
	{"closed guard", checkClosedGuard},
}

// limit keeps the suite apart from the machine's own limits, and lets the ranks
// share one constraint.
const limit = 8 << 30

func guard(t *testing.T, c mpiguard.Comm, cfg mpiguard.Config) *mpiguard.Guard {
	g, err := mpiguard.New(patient(t), c, cfg)
	require.NoError(t, err)
	return g
}

func checkSurvey(t *testing.T, c mpiguard.Comm) {
	g := guard(t, c, mpiguard.Config{LimitBytes: limit})
	defer g.Close()
	want := int64(c.Rank()+1) << 20
	r, err := g.TryReserve("table", want)
	require.NoError(t, err)
	s, err := g.Survey(patient(t))
	require.NoError(t, err)
	require.Len(t, s.Ranks, c.Size())
	require.Len(t, s.Nodes, 1, "one host")
	assert.Equal(t, c.Size(), s.Nodes[0].Ranks)
	for i, row := range s.Ranks {
		assert.Equal(t, i, row.Rank)
		assert.Equal(t, int64(i+1)<<20, row.ReservedBytes)
		assert.Positive(t, row.AnonBytes)
		assert.Equal(t, mpiguard.Normal, row.Level)
	}
	assert.Equal(t, os.Getpid(), s.Ranks[c.Rank()].PID)
	_, together := c.(mpiguard.SharedProcess)
	assert.Equal(t, together || c.Size() == 1, s.Ranks[0].Process == s.Ranks[c.Size()-1].Process)
	assert.GreaterOrEqual(t, s.Imbalance(), 1.0)
	b := g.Budget()
	for _, k := range b.Constraints {
		if k.Scope == mpiguard.ScopeJob {
			assert.Equal(t, c.Size(), k.Ranks, "all ranks are under the limit of the job")
		}
	}
	assert.LessOrEqual(t, b.ShareBytes, int64(limit)/int64(c.Size()))
	r.Release()
}

func checkPulse(t *testing.T, c mpiguard.Comm) {
	g := guard(t, c, mpiguard.Config{LimitBytes: limit})
	defer g.Close()
	for range 100 {
		p, err := g.Pulse(patient(t))
		require.NoError(t, err)
		require.Equal(t, mpiguard.Normal, p.Level)
		require.Equal(t, 0, p.Rank, "of equals the lowest rank is named")
		require.Less(t, p.HeadroomBytes, int64(limit))
	}
}

func checkAnyMore(t *testing.T, c mpiguard.Comm) {
	g := guard(t, c, mpiguard.Config{})
	defer g.Close()
	last := c.Size() - 1
	for i := range 10 {
		more, err := g.AnyMore(patient(t), c.Rank() == last && i < 9)
		require.NoError(t, err)
		require.Equal(t, i < 9, more, "step %d", i)
	}
	ctx := patient(t)
	if c.Rank() == last {
		done, cancel := context.WithCancel(ctx)
		cancel()
		ctx = done
	}
	start := time.Now()
	more, err := g.AnyMore(ctx, true)
	agreed(t, c, start, err, last)
	require.ErrorIs(t, err, context.Canceled)
	assert.False(t, more)
}

// agreed checks that all ranks got the same error, in good time.
func agreed(t *testing.T, c mpiguard.Comm, start time.Time, err error, culprit int) {
	require.Error(t, err)
	assert.Less(t, time.Since(start), time.Second)
	var ce *mpiguard.CollectiveError
	require.ErrorAs(t, err, &ce)
	assert.Equal(t, culprit, ce.Rank)
	text := make([]byte, 256)
	copy(text, err.Error())
	all := make([]byte, c.Size()*len(text))
	require.NoError(t, c.Allgather(patient(t), all, text))
	for i := range c.Size() {
		assert.Equal(t, string(text), string(all[i*len(text):][:len(text)]), "rank %d", i)
	}
}

func checkCannotStart(t *testing.T, c mpiguard.Comm) {
	last := c.Size() - 1
	var cfg mpiguard.Config
	if c.Rank() == last {
		cfg.KeepFree = 2
	}
	start := time.Now()
	_, err := mpiguard.New(patient(t), c, cfg)
	agreed(t, c, start, err, last)
	assert.ErrorContains(t, err, "Config.KeepFree is 2")
	guard(t, c, mpiguard.Config{}).Close() // nothing is in the way of the next try
}

func checkJunkVariable(t *testing.T, c mpiguard.Comm) {
	last := c.Size() - 1
	_, together := c.(mpiguard.SharedProcess)
	if together && c.Size() > 1 {
		t.Log("the environment belongs to all ranks of the process: see package mpiguard's own test")
		return
	}
	if c.Rank() == last {
		require.NoError(t, os.Setenv("MPIGUARD_LIMIT", "lots"))
		defer os.Unsetenv("MPIGUARD_LIMIT")
	}
	start := time.Now()
	_, err := mpiguard.New(patient(t), c, mpiguard.Config{})
	agreed(t, c, start, err, last)
	assert.ErrorContains(t, err, `MPIGUARD_LIMIT="lots"`)
}

func checkMismatch(t *testing.T, c mpiguard.Comm) {
	if c.Size() == 1 {
		return
	}
	last := c.Size() - 1
	var cfg mpiguard.Config
	if c.Rank() == last {
		cfg.KeepFree = 0.1
	}
	start := time.Now()
	_, err := mpiguard.New(patient(t), c, cfg)
	agreed(t, c, start, err, last)
	require.ErrorIs(t, err, mpiguard.ErrConfigMismatch)
	assert.ErrorContains(t, err, "Config.KeepFree is 0.1, on rank 0 it is 0.08")
}

// A ctx that is done on one rank is that rank's vote: all ranks return its
// error, and the communicator stays whole.
func checkGuardDoneContext(t *testing.T, c mpiguard.Comm) {
	last := c.Size() - 1
	ctx := patient(t)
	if c.Rank() == last {
		done, cancel := context.WithCancel(ctx)
		cancel()
		ctx = done
	}
	start := time.Now()
	_, err := mpiguard.New(ctx, c, mpiguard.Config{})
	agreed(t, c, start, err, last)
	require.ErrorIs(t, err, context.Canceled)

	g := guard(t, c, mpiguard.Config{})
	defer g.Close()
	start = time.Now()
	_, err = g.Survey(ctx)
	agreed(t, c, start, err, last)
	require.ErrorIs(t, err, context.Canceled)
	start = time.Now()
	_, err = g.Pulse(ctx)
	agreed(t, c, start, err, last)
	require.ErrorIs(t, err, context.Canceled)
	_, err = g.Survey(patient(t))
	require.NoError(t, err, "the communicator is whole")
}

func checkClosedGuard(t *testing.T, c mpiguard.Comm) {
	g := guard(t, c, mpiguard.Config{})
	last := c.Size() - 1
	if c.Rank() == last {
		require.NoError(t, g.Close())
	}
	start := time.Now()
	_, err := g.Survey(patient(t))
	agreed(t, c, start, err, last)
	require.ErrorIs(t, err, mpiguard.ErrClosed)
	require.NoError(t, g.Close())
}
