package kernfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

func TestTree(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("0123456789", 2000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), []byte("42\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "long"), []byte(long), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o755))
	require.NoError(t, os.Symlink("short", filepath.Join(dir, "inside")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "outside")))
	fsys := kernfs.New(dir)
	defer fsys.Close()
	assert.False(t, fsys.Live())

	for name, want := range map[string]string{"short": "42\n", "inside": "42\n", "long": long, "empty": ""} {
		got, err := fsys.Read(name, make([]byte, 16))
		require.NoError(t, err, name)
		assert.Equal(t, want, string(got), name)
	}
	for _, name := range []string{"dir", "outside", "../" + filepath.Base(dir) + "/short", "missing", "short/below"} {
		_, err := fsys.Read(name, nil)
		assert.Error(t, err, name)
	}
	_, err := fsys.Read("missing", nil)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, isDir := fsys.IsDir("dir")
	assert.True(t, isDir)
	_, isDir = fsys.IsDir("short")
	assert.False(t, isDir)
	_, isDir = fsys.IsDir("/dir/")
	assert.False(t, isDir, "names are relative")

	f, err := fsys.Open("short")
	require.NoError(t, err)
	defer f.Close()
	buf := make([]byte, 16)
	got, err := f.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "42\n", string(got))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short"), []byte("43\n"), 0o644))
	got, err = f.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "43\n", string(got), "what it holds now")
	_, err = f.Read(buf[:3])
	assert.ErrorIs(t, err, kernfs.ErrTooLarge, "a full buffer may be a part only")
}

// A file of 100 MiB is an error and takes bounded memory.
func TestHugeFile(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "huge"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(100<<20))
	require.NoError(t, f.Close())
	fsys := kernfs.New(dir)
	defer fsys.Close()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = fsys.Read("huge", make([]byte, 4096))
	runtime.ReadMemStats(&after)
	assert.ErrorIs(t, err, kernfs.ErrTooLarge)
	assert.ErrorContains(t, err, "huge")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*kernfs.MaxBytes))
}

func TestFileOfExactlyTheBound(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), bytes.Repeat([]byte("x"), kernfs.MaxBytes-1), 0o644))
	fsys := kernfs.New(dir)
	defer fsys.Close()
	got, err := fsys.Read("f", nil)
	require.NoError(t, err)
	assert.Len(t, got, kernfs.MaxBytes-1)
}

func TestNoTree(t *testing.T) {
	fsys := kernfs.New(filepath.Join(t.TempDir(), "missing"))
	defer fsys.Close()
	assert.False(t, fsys.Live())
	_, err := fsys.Read("proc/self/statm", nil)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, isDir := fsys.IsDir("proc")
	assert.False(t, isDir)
}

func TestLive(t *testing.T) {
	for _, root := range []string{"", "/", "/proc/.."} {
		fsys := kernfs.New(root)
		require.True(t, fsys.Live(), root)
		got, err := fsys.Read("proc/self/cgroup", nil)
		if runtime.GOOS != "linux" {
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			continue
		}
		require.NoError(t, err)
		want, err := os.ReadFile("/proc/self/cgroup")
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))

		_, err = fsys.Read("proc/self/mountinfo", make([]byte, 1))
		assert.NoError(t, err, "it grows")
		_, err = fsys.Read("proc/self", nil)
		assert.ErrorIs(t, err, syscall.EISDIR)
		_, err = fsys.Open("proc/self/missing")
		assert.ErrorIs(t, err, fs.ErrNotExist)
		a, isDir := fsys.IsDir("proc")
		b, _ := fsys.IsDir("sys")
		assert.True(t, isDir)
		assert.NotEqual(t, a, b)

		f, err := fsys.Open("proc/self/statm")
		require.NoError(t, err)
		buf := make([]byte, 4096)
		assert.Zero(t, testing.AllocsPerRun(100, func() { f.Read(buf) }))
		assert.NoError(t, f.Close())
		assert.NoError(t, (*kernfs.File)(nil).Close())
	}
}

func BenchmarkReadHeld(b *testing.B) {
	f, err := kernfs.New("").Open("proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	buf := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		f.Read(buf)
	}
}
