//go:build !linux

package blackbox

import "os"

func openStore(f *os.File, sizeBytes int64) (*store, error) {
	return &store{file: f}, f.Truncate(sizeBytes)
}

func (s *store) unmap() error { return nil }

func lock(*os.File) bool { return false }

func locked(*os.File) bool { return false }
