//go:build !linux

package kernfs

import (
	"errors"
	"io/fs"
)

func openLive(name string) (*File, error) {
	return nil, &fs.PathError{Op: "open", Path: "/" + name, Err: errors.ErrUnsupported}
}

func liveDir(string) (Identity, bool) { return Identity{}, false }

func liveType(string) (int64, bool) { return 0, false }
