//go:build linux

package vm

import (
	"bytes"
	"fmt"
	"io"
)

// archive is a cpio archive in the form that the kernel unpacks as its first
// root ("newc", Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	bytes.Buffer
	inodes int
}

func (a *archive) dir(name string)               { a.entry(name, 0o40755, nil) }
func (a *archive) file(name string, data []byte) { a.entry(name, 0o100755, data) }

// end writes the entry that ends the archive.
func (a *archive) end() { a.entry("TRAILER!!!", 0, nil) }

func (a *archive) entry(name string, mode int, data []byte) {
	a.inodes++
	const links = 1
	fmt.Fprint(a, "070701")
	for _, field := range []int{a.inodes, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(a, "%08x", field)
	}
	io.WriteString(a, name+"\x00")
	a.align()
	a.Write(data)
	a.align()
}

// align fills up to a multiple of four bytes.
func (a *archive) align() { a.Write(make([]byte, -a.Len()&3)) }
