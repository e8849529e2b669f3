//go:build cgo

package mpiguard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

const (
	resizedHolds = 100 << 20 // each rank
	resizedLast  = 1 << 30   // the limit at which the job ends
)

// Limits that are lowered and raised while a job runs, and a rank that is moved
// to another group: each rank that it concerns, and no other, has an event of it
// within a second.
func TestLimitsChangeWhileAJobRuns(t *testing.T) {
	const mib = 1 << 20
	lab.NeedMPI(t)
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 512 * mib})
	other := lab.NewGroup(t, lab.Limits{MaxBytes: 300 * mib})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, stdout := io.Pipe()
	j, err := mpirun.Start(ctx, mpirun.Config{Ranks: 2, Group: g, Stdout: stdout, Env: []string{rankVariable + "=resized"}},
		os.Args[0], "-test.run=^$")
	require.NoError(t, err)
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(said); s.Scan(); {
			lines <- s.Text()
		}
	}()
	defer func() {
		r, err := j.Wait()
		stdout.Close()
		require.NoError(t, err)
		assert.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
		for line := range lines {
			assert.Fail(t, "an event too many", line)
		}
	}()
	pids := [2]int{}
	for range pids {
		var rank, pid int
		_, err := fmt.Sscanf(<-lines, "rank %d is process %d", &rank, &pid)
		require.NoError(t, err)
		pids[rank] = pid
	}
	move := func(g *memgroup.Group) error {
		return os.WriteFile(filepath.Join(g.Dir(), "cgroup.procs"), fmt.Append(nil, pids[1]), 0o644)
	}
	resize := func(bytes int64) func() error { return func() error { return g.SetMaxBytes(bytes) } }
	held, err := g.AnonBytes()
	require.NoError(t, err)
	tight := (held + 10*mib) &^ (mib - 1) // 8 % of it are to be kept free

	for _, step := range []struct {
		name   string
		change func() error
		limit  int64
		ranks  int
	}{
		{"lowered", resize(400 * mib), 400 * mib, 2},
		{"lowered below what is used", resize(tight), tight, 2},
		{"raised", resize(512 * mib), 512 * mib, 2},
		{"moved", func() error { return move(other) }, 300 * mib, 1},
		{"moved back", func() error { return move(g) }, 512 * mib, 1},
		{"raised again", resize(resizedLast), resizedLast, 2},
	} {
		time.Sleep(1500 * time.Millisecond) // at a high level, which lasts, limits are read more often
		start := time.Now()
		require.NoError(t, step.change(), step.name)
		for range step.ranks {
			line, ok := <-lines
			require.True(t, ok, "%s: the job has ended", step.name)
			assert.Less(t, time.Since(start), time.Second, step.name)
			assert.Contains(t, line, fmt.Sprintf(": limit %d, level ", step.limit), step.name)
			if step.limit == tight {
				assert.Contains(t, line, "level critical", "at once")
			}
			t.Logf("%s, after %v: %s", step.name, time.Since(start).Round(time.Millisecond), line)
		}
	}
}

// resized says each change of the limits.
func resized(c *mpicomm.Comm, _ bool) error {
	g, err := mpiguard.New(context.Background(), c, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer g.Close()
	hold := touched(resizedHolds)
	defer unmap(hold)
	g.OnLevel(func(t mpiguard.Transition) {
		if strings.HasPrefix(t.Reason, "the limits changed") {
			fmt.Printf("rank %d: limit %d, level %v\n", c.Rank(), g.Budget().LimitBytes(), t.To)
		}
	})
	fmt.Printf("rank %d is process %d\n", c.Rank(), os.Getpid())
	for g.Budget().LimitBytes() != resizedLast {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // the callback is called by another goroutine
	return nil
}
