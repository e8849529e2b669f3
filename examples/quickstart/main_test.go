package main

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// output may be written to by several goroutines, like the standard output.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string { return o.b.String() }

// quickly is the ctx of main.
func quickly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

func TestQuickstart(t *testing.T) {
	t.Setenv("MPIGUARD_LIMIT", limit)
	var out output
	require.NoError(t, run(quickly(t), &out))
	text := out.String()
	assert.Contains(t, text, "MPIGUARD_LIMIT binds")
	assert.Contains(t, text, ": 4 ranks, normal")
	assert.Equal(t, 2, strings.Count(text, "2000000 lines in "), "all lines, with and without pressure")
	assert.Regexp(t, `level \w+ -> high`, text)
	assert.Contains(t, text, `refused, and nothing has happened: mpiguard: rank 0: "ballast" holds`)
	assert.Contains(t, text, "pulse: the worst level is high, on rank 0")
	assert.Contains(t, text, "\nthe level is normal\n")

	chunks := regexp.MustCompile(`lines in (\d+) chunks`).FindAllStringSubmatch(text, -1)
	require.Len(t, chunks, 2)
	assert.Less(t, len(chunks[0][1]), len(chunks[1][1]), "more and smaller chunks under pressure: %v", chunks)
}

// A far limit leaves the level where it is, and the machine alone.
func TestQuickstartWithoutPressure(t *testing.T) {
	t.Setenv("MPIGUARD_LIMIT", "1PiB")
	var out output
	require.NoError(t, run(quickly(t), &out))
	assert.Equal(t, 2, strings.Count(out.String(), "2000000 lines in "))
}

func TestLimitTooSmall(t *testing.T) {
	t.Setenv("MPIGUARD_LIMIT", "1MiB")
	var out output
	assert.ErrorContains(t, run(quickly(t), &out), "MPIGUARD_LIMIT")
}

// It needs neither MPI nor a C compiler.
func TestWithoutCgo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	deps, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", deps)
	assert.NotContains(t, string(deps), "gompi")

	cmd = exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "MPIGUARD_LIMIT=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "MPIGUARD_LIMIT is not set; this program sets it to 256MiB for itself.\n")
	assert.Contains(t, string(out), "the level is normal\n")
}
