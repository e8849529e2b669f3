package spill

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openFile opens a file in dir that never had a name (open(2), O_TMPFILE), or, on a
// file system that cannot do that, one whose name is taken away at once. inMemory
// says that the file system keeps its files in memory.
func openFile(dir string) (f file, inMemory bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil, false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		inMemory = true
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	switch err {
	case nil:
		return os.NewFile(uintptr(fd), filepath.Join(dir, "(unnamed)")), inMemory, nil
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL:
		f, err = createTemp(dir)
		return f, inMemory, err
	}
	return nil, false, &os.PathError{Op: "open an unnamed file in", Path: dir, Err: err}
}
