//go:build cgo

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// The floor is the smallest limit in which four ranks that only start MPI and a
// guard, and stop, always live. A little above it the job stops by itself if it
// cannot work; not much above it the job finishes.
func TestLabFloor(t *testing.T) {
	const (
		mib    = 1 << 20
		times  = 20
		stops  = 4  // MiB above the floor
		enough = 16 // MiB above the floor
	)
	program := built(t)
	input := generatedFile(t, 32*mib)
	want := solve(t, 1, options{mode: modeNaive, file: input})
	run := func(t *testing.T, limitMiB int64, args ...string) (r mpirun.Result, kills int64) {
		g := lab.NewGroup(t, lab.Limits{MaxBytes: limitMiB * mib})
		r = lab.Mpirun(t, mpirun.Config{Ranks: 4, Group: g}, program, args...)
		kills, err := g.Kills()
		require.NoError(t, err)
		require.NoError(t, g.Remove())
		return r, kills
	}
	// lives is how many runs there were to the first that did not live.
	lives := func(limitMiB int64) (runs int) {
		for runs < times {
			if r, kills := run(t, limitMiB, "-mode", modeNone); r.Exit != 0 || kills > 0 {
				break
			}
			runs++
		}
		t.Logf("%d MiB: starts and stops %d times", limitMiB, runs)
		return runs
	}
	below, floor := int64(8), int64(128)
	for floor-below > 1 {
		if middle := (below + floor) / 2; lives(middle) == times {
			floor = middle
		} else {
			below = middle
		}
	}
	require.Less(t, floor, int64(128))
	t.Logf("the floor is %d MiB", floor)

	for _, above := range []int64{stops, enough} {
		finished, stopped, said := 0, 0, ""
		for range times {
			answerFile := filepath.Join(t.TempDir(), "answer.json")
			r, kills := run(t, floor+above, "-json", answerFile, input)
			assert.Zero(t, kills, r.Stderr)
			switch r.Exit {
			case 0:
				finished++
				var got decoded
				readJSON(t, answerFile, &got)
				assert.Equal(t, want.Digest, got.Digest)
			case exitFailed, exitUsage:
				stopped++
				for line := range strings.Lines(r.Stderr) {
					if strings.HasPrefix(line, "csvstats: ") {
						said = line
					}
				}
				assert.Regexp(t, `rank \d: .* (holds|asked for) .* used of `, said, r.Stderr)
			default:
				t.Errorf("exit %d\n%s", r.Exit, r.Stderr)
			}
		}
		t.Logf("%d MiB, %d above: %d finished, %d stopped; %s", floor+above, above, finished, stopped, said)
		if above == enough {
			assert.Equal(t, times, finished)
		} else {
			assert.Equal(t, times, finished+stopped)
		}
	}
}
