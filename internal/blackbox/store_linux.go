package blackbox

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openStore makes the file sizeBytes long and maps it. All of it is allocated
// first: a store into a page that the disk has no room for is a SIGBUS. Where
// that cannot be had (NFS before version 4.2, some FUSE), or the file cannot be
// mapped, each record is written with a system call.
func openStore(f *os.File, sizeBytes int64) (*store, error) {
	err := ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, sizeBytes) })
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	case err != nil:
		return &store{file: f}, f.Truncate(sizeBytes)
	}
	// Populated: later the memory may not be there to fault it in.
	mem, err := unix.Mmap(int(f.Fd()), 0, int(sizeBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return &store{file: f}, nil
	}
	return &store{f, mem}, nil
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s *store) unmap() error {
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return unix.Munmap(mem)
}

// lock takes a lock that belongs to the open file and is gone when the process
// has ended, however it ended. It reports whether the file system has such locks.
func lock(f *os.File) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l) == nil
}

// locked reports whether another process, or another open file, holds the lock.
func locked(f *os.File) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}
