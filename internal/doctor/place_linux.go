package doctor

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// statfs is the size of a file system and what is free of it. Source: statfs(2).
func statfs(path string) (size, free Bytes) {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return UnknownBytes, UnknownBytes
	}
	return Bytes(int64(s.Blocks) * int64(s.Bsize)), Bytes(int64(s.Bavail) * int64(s.Bsize))
}

// stat fills in what a file's inode says.
func (s *Segment) stat(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	dev := uint64(st.Dev)
	s.ID = FileID{unix.Major(dev), unix.Minor(dev), st.Ino}
	s.UID = st.Uid
	s.HeldBytes = int64(st.Blocks) * 512
	return true
}

func ownUID() uint32 { return uint32(os.Geteuid()) }

// Limits returns the soft limits of this process on locked memory and on open
// files. The second is what Go has made of it: it raises it to the hard limit
// when a program starts. Source: getrlimit(2).
func Limits() (locked Bytes, openFiles int64) {
	return limit(unix.RLIMIT_MEMLOCK), int64(limit(unix.RLIMIT_NOFILE))
}

func limit(resource int) Bytes {
	var l unix.Rlimit
	if unix.Prlimit(0, resource, nil, &l) != nil {
		return UnknownBytes
	}
	return Bytes(min(l.Cur, uint64(UnlimitedBytes)))
}
