// Package kernfs reads the small text files by which a kernel talks to programs
// (/proc, /sys), those of the running system or of a tree of saved files, with
// bounded memory. Parsing is left to the packages that know the formats.
package kernfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// MaxBytes bounds what Read takes in. The longest files of interest, the
// mountinfo of a host with thousands of mounts and an environ, stay below it.
const MaxBytes = 4 << 20

// ErrTooLarge: the file is longer than MaxBytes, or than the buffer given.
var ErrTooLarge = errors.New("file too large")

// FS is a read-only view of a machine's files. Names are relative to its root,
// without a leading slash: "proc/self/statm". It is safe for concurrent use.
type FS struct {
	dir  string   // "" for the running system
	tree *os.Root // nil for the running system, or when the directory cannot be opened
	err  error    // why it cannot
}

// New returns a view of the machine whose root directory is dir. "" and "/" are
// the running system. A dir that cannot be opened gives a view in which every
// read fails with the reason.
func New(dir string) *FS {
	if dir == "" || filepath.Clean(dir) == "/" {
		return &FS{}
	}
	tree, err := os.OpenRoot(dir)
	return &FS{dir: dir, tree: tree, err: err}
}

// Live reports whether the view is of the running system.
func (f *FS) Live() bool { return f.dir == "" }

// Close releases the view. Files that are open stay so.
func (f *FS) Close() error {
	if f.tree == nil {
		return nil
	}
	return f.tree.Close()
}

// Open opens a file to be read again and again.
func (f *FS) Open(name string) (*File, error) {
	if f.Live() {
		return openLive(name)
	}
	if f.err != nil {
		return nil, f.err
	}
	// A tree comes from somebody else: os.Root keeps links inside it, and what is
	// no regular file (a pipe, a device) might block or never end.
	info, err := f.tree.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	file, err := f.tree.Open(name)
	if err != nil {
		return nil, err
	}
	return &File{name: name, src: file}, nil
}

// Read returns all of a file, in buf as far as that holds it. It allocates when
// the file is longer, up to MaxBytes.
func (f *FS) Read(name string, buf []byte) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.readAll(buf)
}

// Identity is what tells a directory from every other of a running system.
type Identity struct{ Dev, Ino uint64 }

// IsDir reports whether name is a directory, and which. In a tree, and where
// the system has no such numbers, the Identity is zero.
func (f *FS) IsDir(name string) (Identity, bool) {
	if f.Live() {
		return liveDir(name)
	}
	if f.tree == nil {
		return Identity{}, false
	}
	info, err := f.tree.Stat(filepath.Clean(name))
	return Identity{}, err == nil && info.IsDir()
}

// Type returns the number of the file system that name is on, as statfs(2) gives
// it. A tree has none.
func (f *FS) Type(name string) (int64, bool) {
	if !f.Live() {
		return 0, false
	}
	return liveType(name)
}

// File is a file held open. Its methods are not safe for concurrent use with Close.
type File struct {
	name string
	src  interface {
		io.ReaderAt
		io.Closer
	}
}

// Read returns what the file holds now, in buf, with a single pread: enough for
// a file that the kernel writes in one piece (all of a cgroup's, statm, status,
// meminfo, limits). A file that does not fit is ErrTooLarge. It does not allocate.
func (f *File) Read(buf []byte) ([]byte, error) {
	n, err := f.src.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n == len(buf) {
		return nil, ErrTooLarge
	}
	return buf[:n], nil
}

// readAll preads to the end: lists such as mountinfo come in several pieces.
func (f *File) readAll(buf []byte) ([]byte, error) {
	if len(buf) == 0 {
		buf = make([]byte, 4096)
	}
	for filled := 0; ; {
		n, err := f.src.ReadAt(buf[filled:], int64(filled))
		filled += n
		switch {
		case err == io.EOF || err == nil && n == 0:
			return buf[:filled], nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.name, err)
		case filled == len(buf) && filled >= MaxBytes:
			return nil, fmt.Errorf("%s: %w (above %d bytes)", f.name, ErrTooLarge, MaxBytes)
		case filled == len(buf):
			grown := make([]byte, min(2*len(buf), MaxBytes))
			copy(grown, buf)
			buf = grown
		}
	}
}

// Close closes the file. A nil File is closed already.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	return f.src.Close()
}
