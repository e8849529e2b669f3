//go:build unix

package kernfs_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// A pipe in a tree that somebody sent must not make the reader wait.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	fsys := kernfs.New(dir)
	defer fsys.Close()
	_, err := fsys.Read("pipe", nil)
	assert.ErrorContains(t, err, "not a regular file")
}
