package blackbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// store is where the records go: the mapping of a file, or the file itself.
type store struct {
	file *os.File
	mem  []byte // nil where the file is not mapped
}

// put writes b at the offset, which lies within the fixed size of the file. On a
// mapping that has lost its page it faults: see Writer.end.
func (s *store) put(off int64, b []byte) error {
	if s.mem != nil {
		copy(s.mem[off:], b)
		return nil
	}
	_, err := s.file.WriteAt(b, off)
	return err
}

func (s *store) close() error { return errors.Join(s.unmap(), s.file.Close()) }

// makeFile creates a file that was not there, readable by the user alone, in a
// directory that belongs to the user; the last element of dir is made if it is
// missing.
func makeFile(dir, name string) (_ *os.File, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	if !ownedByUser(info) {
		return nil, fmt.Errorf("%s belongs to another user: name a directory of your own, or one in it that is not there yet", dir)
	}
	// O_EXCL follows no link at the end of the name.
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), errors.Unwrap(err))
	}
	return f, nil
}
