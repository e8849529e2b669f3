package benchmarks

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/chunk"
)

const (
	fileBytes  = 64 << 20
	chunkBytes = 1 << 20
	lineBytes  = 100 // on average, with the '\n'
)

// openFile adds what reads a file that is in the page cache.
func (b *Bench) openFile(dir string) error {
	name := filepath.Join(dir, "lines")
	lines, err := writeLines(name)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	b.onClose(f.Close)
	account, err := b.guard.TryReserveOffHeap("chunks", 0)
	if err != nil {
		return err
	}
	b.onClose(func() error { account.Release(); return nil })
	ctx, cfg := context.Background(), chunk.Config{Account: account}
	// pass works through the file n times.
	pass := func(name string, do func(f *os.File) error) pairs.Contender {
		return pairs.CPU(name, func(n int) {
			for range n {
				_, err := f.Seek(0, io.SeekStart)
				must(err)
				must(do(f))
			}
		})
	}
	readLoop := pass("read loop", bareRead)
	b.add(Row{
		Name: "chunks of a file", Bytes: fileBytes, Steps: fileBytes / chunkBytes,
		Goal:      Goal{OfPrimitive: 0.95},
		Ours:      pass("Read", func(f *os.File) error { return drain(chunk.Read(ctx, f, cfg)) }),
		Primitive: readLoop,
	}, Row{
		Name: "chunks of a part of a file", Bytes: fileBytes, Steps: fileBytes / chunkBytes,
		Goal: Goal{OfPrimitive: 0.95},
		Ours: pass("ReadAt", func(f *os.File) error {
			return drain(chunk.ReadAt(ctx, f, chunk.Span{Length: fileBytes}, cfg))
		}),
		Primitive: readLoop,
	}, Row{
		Name: "records of a file", Bytes: fileBytes, Steps: fileBytes / chunkBytes,
		Goal: Goal{OfPrimitive: 0.95},
		Ours: pass("Records", func(f *os.File) error {
			const each = 32
			return drain(chunk.Records[[each / 8]float64](ctx, f, chunk.Span{Length: fileBytes / each}, cfg))
		}),
		Primitive: readLoop,
	}, Row{
		Name: "lines of a file", Bytes: fileBytes, Steps: lines,
		Goal:      Goal{AtLeast: 4.5, OfPrimitive: 0.95, OfRival: 1.15},
		Ours:      pass("Lines", func(f *os.File) error { return drain(chunk.Lines(ctx, f, cfg)) }),
		Primitive: pass("loop by hand", bareLines),
		Rivals: []pairs.Contender{
			pass("Scanner, 1 MiB", func(f *os.File) error { return scanLines(f, chunkBytes) }),
			pass("Scanner", func(f *os.File) error { return scanLines(f, 0) }),
			pass("ReadSlice", readSlice),
		},
	}, Row{
		Name: "blocks of lines of a file", Bytes: fileBytes, Steps: fileBytes / chunkBytes,
		Goal:      Goal{},
		Ours:      pass("LineBlocks", func(f *os.File) error { return drain(chunk.LineBlocks(ctx, f, cfg)) }),
		Primitive: readLoop,
	})
	return nil
}

// writeLines writes a file of lines of many lengths, and returns how many.
func writeLines(name string) (lines int, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(f)
	text := bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz"), 1+3*lineBytes/2/26)
	for left := fileBytes; left > 0; lines++ {
		n := min(lineBytes/2+lines*7919%(lineBytes+1), left)
		w.Write(text[:n-1]) // Flush returns the first error
		w.WriteByte('\n')
		left -= n
	}
	return lines, errors.Join(w.Flush(), f.Close())
}

// drain goes through all that an iterator yields.
func drain[T any](all iter.Seq2[[]T, error]) error {
	sum := 0
	for x, err := range all {
		if err != nil {
			return err
		}
		sum += len(x)
	}
	sink += int64(sum)
	return nil
}

func bareRead(f *os.File) error {
	buf := make([]byte, chunkBytes)
	for {
		n, err := f.Read(buf)
		sink += int64(n)
		if err != nil {
			return ignoreEOF(err)
		}
	}
}

// bareLines is Lines written by hand, for a file whose lines are short.
func bareLines(f *os.File) error {
	buf := make([]byte, chunkBytes)
	sum := 0
	for carry := 0; ; {
		n, err := f.Read(buf[carry:])
		if err != nil {
			sink += int64(sum + carry)
			return ignoreEOF(err)
		}
		rest := buf[:carry+n]
		for {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			line := rest[:end]
			if end > 0 && line[end-1] == '\r' {
				line = line[:end-1]
			}
			sum += len(line)
			rest = rest[end+1:]
		}
		carry = copy(buf, rest)
	}
}

func scanLines(f *os.File, bufferBytes int) error {
	s := bufio.NewScanner(f)
	if bufferBytes > 0 {
		s.Buffer(make([]byte, bufferBytes), bufferBytes)
	}
	sum := 0
	for s.Scan() {
		sum += len(s.Bytes())
	}
	sink += int64(sum)
	return s.Err()
}

func readSlice(f *os.File) error {
	r := bufio.NewReaderSize(f, chunkBytes)
	for sum := 0; ; {
		line, err := r.ReadSlice('\n')
		sum += len(line)
		if err != nil {
			sink += int64(sum)
			return ignoreEOF(err)
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
