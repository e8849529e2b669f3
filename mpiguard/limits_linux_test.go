//go:build cgo

package mpiguard_test

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/hosts"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/internal/lab/vm"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// The command says of a rank that runs what the rank itself knows.
func TestExplainOfARank(t *testing.T) {
	const ranks, limit = 4, 300 << 20
	lab.NeedMPI(t)
	command := lab.Build(t, "./cmd/mpiguard")
	g := lab.NewGroup(t, lab.Limits{MaxBytes: limit})
	dir := t.TempDir()
	stay := filepath.Join(dir, "stay")
	require.NoError(t, os.WriteFile(stay, nil, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, stdout := io.Pipe()
	j, err := mpirun.Start(ctx, mpirun.Config{Ranks: ranks, Group: g, Stdout: stdout,
		Env: []string{rankVariable + "=limits", "MPIGUARD_TEST_DIR=" + dir}}, os.Args[0], "-test.run=^$")
	require.NoError(t, err)
	lines := bufio.NewScanner(said)
	for range ranks {
		require.True(t, lines.Scan())
	}
	defer func() {
		require.NoError(t, os.Remove(stay))
		r, err := j.Wait()
		require.NoError(t, err)
		assert.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	}()
	for rank := range ranks {
		own := readRankLimits(t, dir, rank)
		pid := strconv.Itoa(own.PID)
		out, err := exec.CommandContext(ctx, command, "explain", "-json", "-pid", pid).Output()
		require.NoError(t, err)
		var told struct {
			BudgetBytes   int64 `json:"budget_bytes"`
			HeadroomBytes int64 `json:"headroom_bytes"`
			Binding       string
		}
		require.NoError(t, json.Unmarshal(out, &told))
		assert.Equal(t, int64(limit), told.BudgetBytes)
		assert.Equal(t, own.LimitBytes, told.BudgetBytes)
		assert.Equal(t, own.Binding.Source+" "+g.Path(), told.Binding)
		assert.Equal(t, own.Binding.Path, g.Path())
		assert.InDelta(t, own.HeadroomBytes, told.HeadroomBytes, 8<<20, "the last rank was still starting")
		text, err := exec.CommandContext(ctx, command, "explain", "-pid", pid).Output()
		require.NoError(t, err)
		assert.Contains(t, string(text), g.Path()+" binds")
		t.Logf("rank %d, process %s: %d MiB, headroom %.1f MiB, itself %.1f MiB; %s", rank, pid, told.BudgetBytes>>20,
			float64(told.HeadroomBytes)/(1<<20), float64(own.HeadroomBytes)/(1<<20), told.Binding)
	}
}

// rankLimits is what a rank knows of its limits.
type rankLimits struct {
	PID                                   int
	Host                                  string
	LimitBytes, ShareBytes, HeadroomBytes int64
	Binding                               mpiguard.Constraint
	KeptFreeBytes                         int64 // of what binds
	Nodes                                 []mpiguard.NodeUsage
}

func rankLimitsFile(dir string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("rank-%d", rank))
}

func readRankLimits(t *testing.T, dir string, rank int) (r rankLimits) {
	f, err := os.Open(rankLimitsFile(dir, rank))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, gob.NewDecoder(f).Decode(&r))
	return r
}

// limits writes what each rank knows to a file, and stays while there is a file
// named stay.
func limits(c *mpicomm.Comm, _ bool) error {
	ctx := context.Background()
	g, err := mpiguard.New(ctx, c, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer g.Close()
	s, err := g.Survey(ctx)
	if err != nil {
		return err
	}
	b := g.Budget()
	binding := b.Binding()
	if binding == nil {
		return errors.New("nothing binds")
	}
	dir := os.Getenv("MPIGUARD_TEST_DIR")
	f, err := os.Create(rankLimitsFile(dir, c.Rank()))
	if err != nil {
		return err
	}
	err = errors.Join(gob.NewEncoder(f).Encode(rankLimits{
		os.Getpid(), s.Ranks[c.Rank()].Host, b.LimitBytes(), b.ShareBytes, b.HeadroomBytes(), *binding, binding.KeptFreeBytes(b.KeepFree), s.Nodes,
	}), f.Close())
	fmt.Println("written")
	for {
		if _, gone := os.Stat(filepath.Join(dir, "stay")); gone != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Ranks on two hosts with limits of their own: everybody sees both, and each has
// its share of its own host's.
func TestLabLimitsOfTwoHosts(t *testing.T) {
	const mib = 1 << 20
	of := []hosts.Host{
		{Name: "tight", Slots: 2, Limits: lab.Limits{MaxBytes: 200 * mib}},
		{Name: "wide", Slots: 3, Limits: lab.Limits{MaxBytes: 400 * mib}},
	}
	c := lab.Hosts(t, of...)
	dir := t.TempDir()
	r := runRanks(t, "limits", c.Spread(mpirun.Config{Ranks: 5, Env: []string{"MPIGUARD_TEST_DIR=" + dir}}))
	require.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	rank := 0
	for _, h := range of {
		for range h.Slots {
			own := readRankLimits(t, dir, rank)
			assert.Equal(t, h.Name, own.Host)
			assert.Equal(t, h.Limits.MaxBytes, own.LimitBytes)
			assert.Equal(t, c.Group(h.Name).Path(), own.Binding.Path)
			assert.Equal(t, h.Slots, own.Binding.Ranks)
			usable := own.LimitBytes - own.KeptFreeBytes
			assert.LessOrEqual(t, own.ShareBytes, usable/int64(h.Slots))
			assert.Greater(t, own.ShareBytes, (usable-32*mib)/int64(h.Slots), "but for the daemon")
			require.Len(t, own.Nodes, len(of))
			for i, n := range own.Nodes {
				assert.Equal(t, of[i].Name, n.Host)
				assert.Equal(t, of[i].Slots, n.Ranks)
				assert.Equal(t, of[i].Limits.MaxBytes, n.LimitBytes)
			}
			t.Logf("rank %d on %s: limit %d MiB, share %.1f MiB", rank, own.Host, own.LimitBytes/mib, float64(own.ShareBytes)/mib)
			rank++
		}
	}
}

// The figures of a job, and limits that change under it, with cgroup v2 alone.
func TestLabJobOnVersion2(t *testing.T) {
	r := lab.VM(t, vm.Config{}, os.Args[0], "-test.v", "-test.run=^(TestSurveyAgreesWithTheKernel|TestLimitsChangeWhileAJobRuns)$")
	t.Logf("%s", r.Stdout)
	assert.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	assert.Equal(t, 2, strings.Count(r.Stdout, "--- PASS"), "%s%s", r.Stdout, r.Stderr)
}
