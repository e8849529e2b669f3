//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
)

// In the memory that a job has asked Slurm for, the input fits when it is read
// in chunks and does not when it is read whole.
func TestLabSlurmMemory(t *testing.T) {
	c := lab.Slurm(t, 1)
	program := built(t)
	name := generatedFile(t, 256<<20)
	want := solve(t, 1, options{mode: modeNaive, file: name})
	answerFile := filepath.Join(t.TempDir(), "answer.json")
	run := func(mode string) (string, error) {
		out, err := c.Command(t.Context(), "srun", "--mem=160M", "-n4", program, "-mode", mode, "-json", answerFile, name).CombinedOutput()
		return string(out), err
	}

	out, err := run(modeNaive)
	require.Error(t, err, "it fits")
	assert.Contains(t, out, "Out Of Memory")
	assert.NoFileExists(t, answerFile)

	out, err = run(modeGuarded)
	require.NoError(t, err, out)
	assert.NotContains(t, out, "Out Of Memory")
	text, err := os.ReadFile(answerFile)
	require.NoError(t, err)
	var got decoded
	require.NoError(t, json.Unmarshal(text, &got))
	assert.Equal(t, want.Digest, got.Digest)
	assert.Equal(t, want.Lines, got.Lines)
	assert.Equal(t, 4, got.Ranks)
	t.Log(out)
}
