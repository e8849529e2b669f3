//go:build cgo && linux

// Package examples_test holds the README against the library.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// The program in the README builds as it stands there, and runs.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	programs := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, programs, 1)

	lab.NeedMPI(t)
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte(programs[0][1]), 0o600))
	out, err := exec.CommandContext(t.Context(), "gofmt", "-l", source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Empty(t, string(out), "not formatted")
	for _, args := range [][]string{{"vet", source}, {"build", "-o", program, source}} {
		out, err = exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}

	input := filepath.Join(dir, "input.txt")
	require.NoError(t, os.WriteFile(input, []byte(strings.Repeat("a line\n", 1000)), 0o600))
	r := lab.Mpirun(t, mpirun.Config{Ranks: 4}, program, input)
	require.Equal(t, 0, r.Exit, r.Stderr)
	assert.Contains(t, r.Stdout, ": 4 ranks, ")
	for _, rank := range []string{"rank 0: 250 lines", "rank 1: 250 lines", "rank 2: 250 lines", "rank 3: 250 lines"} {
		assert.Contains(t, r.Stdout, rank+"\n")
	}
}
