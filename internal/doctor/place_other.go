//go:build !linux

package doctor

import "os"

func statfs(string) (size, free Bytes) { return UnknownBytes, UnknownBytes }

func (s *Segment) stat(os.FileInfo) bool { return false }

func ownUID() uint32 { return 0 }

// Limits returns that no limit is known.
func Limits() (locked Bytes, openFiles int64) { return UnknownBytes, int64(UnknownBytes) }
