//go:build cgo

// Command byhand does the work of examples/csvstats as one would stream it
// without this library's help: a buffer of 1 MiB, no guard, no chunks. It is what
// csvstats is measured beside. Run it under mpirun with the file as argument;
// rank 0 prints the digest of the answer.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	mpi "github.com/sbromberger/gompi"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

const bufferBytes = 1 << 20

func init() { runtime.LockOSThread() }

func main() {
	mpi.Start(false)
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "byhand:", err)
		mpicomm.World().Abort(1)
	}
	mpi.Stop()
}

func run(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	world := mpicomm.World()
	rank, ranks := int64(world.Rank()), int64(world.Size())
	table := groupby.NewTable(nil)
	rows := &groupby.Rows{Layout: groupby.Layout{Key: 1, Value: 2, Separator: ';'}, Table: table, AtStart: rank == 0}
	ctx := context.Background()
	add := func(lines []byte) error { return rows.Add(ctx, lines) }
	if err := scan(f, info.Size()*rank/ranks, info.Size()*(rank+1)/ranks, add); err != nil {
		return err
	}
	if err := groupby.Merge(ctx, world, table); err != nil || rank != 0 {
		return err
	}
	groups, err := table.Sorted(ctx)
	if err != nil {
		return err
	}
	fmt.Println(groupby.Digest(groups))
	return nil
}

// scan calls add with the lines that start from begin on and before end, many at
// a time.
func scan(f *os.File, begin, end int64, add func(lines []byte) error) error {
	buf := make([]byte, bufferBytes)
	at, skip := begin, begin > 0 // a line that began before is another rank's
	if skip {
		at--
	}
	for carry := 0; ; {
		n, err := f.ReadAt(buf[carry:], at)
		if err != nil && err != io.EOF {
			return err
		}
		first := at - int64(carry) // of the buffer, in the file
		at += int64(n)
		lines, eof := buf[:carry+n], err == io.EOF
		if skip {
			next := bytes.IndexByte(lines, '\n') + 1
			if next == 0 {
				return fmt.Errorf("a line longer than %d bytes", bufferBytes)
			}
			lines, skip = lines[next:], false
			first += int64(next)
		}
		// The last line of the part is the one that has the byte before end.
		if k := end - 1 - first; k < 0 {
			return nil
		} else if k < int64(len(lines)) {
			if i := bytes.IndexByte(lines[k:], '\n'); i >= 0 {
				return add(lines[:k+int64(i)+1])
			}
		}
		if eof {
			return add(lines)
		}
		whole := bytes.LastIndexByte(lines, '\n') + 1
		if whole == 0 {
			return fmt.Errorf("a line longer than %d bytes", bufferBytes)
		}
		if err := add(lines[:whole]); err != nil {
			return err
		}
		carry = copy(buf, lines[whole:])
	}
}
