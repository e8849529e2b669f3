package spill

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
)

// childVar makes the test binary a program that spills into a directory and waits.
const childVar = "SPILL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		s, err := newSpool(nil, Config{Dir: dir}, 2*page, page)
		if err == nil {
			_, err = s.Write(make([]byte, 100*page))
		}
		fmt.Println(err)
		select {}
	}
	os.Exit(m.Run())
}

// TestKilled: a process that is killed leaves no file, and one that runs shows none.
func TestKilled(t *testing.T) {
	dir := onDisk(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, _, err := bufio.NewReader(out).ReadLine()
	require.NoError(t, err)
	require.Equal(t, "<nil>", string(line))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, cmd.Wait())
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestPermissions(t *testing.T) {
	s := small(t, Config{Dir: onDisk(t)})
	info, err := s.file.(*os.File).Stat()
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	f, err := createTemp(t.TempDir())
	require.NoError(t, err)
	defer f.Close()
	info, err = f.(*os.File).Stat()
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	_, err = os.Stat(f.(*os.File).Name())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// mount mounts a file system of a size for the test.
func mount(t *testing.T, kind, options string) string {
	dir := t.TempDir()
	err := unix.Mount(kind, dir, kind, unix.MS_NOSUID|unix.MS_NODEV, options)
	lab.Need(t, err == nil, fmt.Sprintf("mounting a %s: %v", kind, err))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestTmpfs(t *testing.T) {
	dir := mount(t, "tmpfs", "size=1m")
	a := newAccount(t, 1<<40)
	_, err := New(t.Context(), Config{Account: a, Dir: dir})
	require.ErrorIs(t, err, ErrTmpfs)
	assert.EqualError(t, err, "spill: directory is in memory: "+dir)

	// Allowed, it is charged, and full in the end. Nothing is lost by that.
	s := small(t, Config{Account: a, Dir: dir, AllowTmpfs: true})
	data := random(rand.New(rand.NewPCG(1, 7)), 2<<20)
	n, err := s.Write(data)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.EqualValues(t, 1<<20+2*page, n)
	assert.EqualValues(t, n, a.size)
	assert.EqualValues(t, n, a.committed)
	assert.Zero(t, s.Trim(page), "that would free nothing")
	same(t, data[:n], s)

	// The account refuses before the file system does.
	b := newAccount(t, 20*page)
	s = small(t, Config{Account: b, Dir: dir, AllowTmpfs: true})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	n, err = s.Write(data)
	require.Error(t, err)
	same(t, data[:n], s)
}

// TestFullDisk: a real file system of a disk that is full gives the error and keeps
// what was written.
func TestFullDisk(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 8<<20))
	out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput()
	lab.Need(t, err == nil, fmt.Sprintf("mkfs.ext4: %v %s", err, out))
	dir := t.TempDir()
	out, err = exec.Command("mount", "-o", "loop,nosuid,nodev", image, dir).CombinedOutput()
	lab.Need(t, err == nil, fmt.Sprintf("mounting a loop device: %v %s", err, out))
	t.Cleanup(func() {
		out, err := exec.Command("umount", dir).CombinedOutput()
		assert.NoError(t, err, string(out))
	})
	a := newAccount(t, 1<<40)
	s := small(t, Config{Account: a, MemoryBytes: 10 * page, Dir: dir})
	data := random(rand.New(rand.NewPCG(1, 8)), 16<<20)
	n, err := s.Write(data)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Greater(t, n, 4<<20)
	same(t, data[:n], s)
	assert.NoError(t, s.Close(), "so that the file system can be unmounted")
}
