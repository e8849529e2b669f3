package spill

import (
	"errors"
	"os"
)

// createTemp makes a file with a name that nobody can guess, for its owner alone,
// and takes the name away: at once where that can be done while the file is open.
func createTemp(dir string) (file, error) {
	f, err := os.CreateTemp(dir, "mpiguard-spill-")
	if err != nil {
		return nil, err
	}
	if os.Remove(f.Name()) != nil {
		return removedLater{f}, nil
	}
	return f, nil
}

// removedLater is a file that keeps its name while it is open, as on Windows.
type removedLater struct{ *os.File }

func (f removedLater) Close() error { return errors.Join(f.File.Close(), os.Remove(f.Name())) }
