package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
)

// quickstart runs the program under a limit, in a process of its own since what a
// process has held once is not all given back. It is built without cgo.
func quickstart(t *testing.T, limit string) (output string, err error) {
	t.Helper()
	t.Setenv("CGO_ENABLED", "0")
	cmd := exec.CommandContext(t.Context(), lab.Build(t, "github.com/mpiguard/mpiguard/examples/quickstart"))
	cmd.Env = append(cmd.Environ(), "MPIGUARD_LIMIT="+limit)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	assert.Less(t, time.Since(begun), timeout)
	return string(out), err
}

func TestQuickstart(t *testing.T) {
	text, err := quickstart(t, "")
	require.NoError(t, err, text)
	assert.Contains(t, text, "MPIGUARD_LIMIT is not set; this program sets it to 256MiB for itself.\n")
	assert.Contains(t, text, "MPIGUARD_LIMIT binds")
	assert.Contains(t, text, ": 4 ranks, normal")
	assert.Equal(t, 2, strings.Count(text, "2000000 lines in "), "all lines, with and without pressure")
	assert.Regexp(t, `level \w+ -> high`, text)
	assert.Contains(t, text, `refused, and nothing has happened: mpiguard: rank 0: "ballast" holds`)
	assert.Regexp(t, "pulse: the worst level is (high|critical), on rank 0", text)
	assert.Contains(t, text, "\nthe level is normal\n")

	chunks := regexp.MustCompile(`lines in (\d+) chunks`).FindAllStringSubmatch(text, -1)
	require.Len(t, chunks, 2)
	without, err := strconv.Atoi(chunks[0][1])
	require.NoError(t, err)
	with, err := strconv.Atoi(chunks[1][1])
	require.NoError(t, err)
	assert.Greater(t, with, without*3/2, "more and smaller chunks under pressure")
}

// A limit that is set is kept. A far one leaves the level where it is, and the
// machine alone.
func TestFarLimit(t *testing.T) {
	text, err := quickstart(t, "1PiB")
	require.NoError(t, err, text)
	assert.NotContains(t, text, "is not set")
	assert.Equal(t, 2, strings.Count(text, "2000000 lines in "))
}

func TestLimitTooSmall(t *testing.T) {
	text, err := quickstart(t, "1MiB")
	require.Error(t, err)
	assert.Contains(t, text, "quickstart: ")
	assert.Contains(t, text, "MPIGUARD_LIMIT")
}
