package chunk

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const benchBytes = 64 << 20

// benchFile writes lines of about the given length, and returns the open file.
func benchFile(b *testing.B, lineBytes int) *os.File {
	b.Helper()
	var buf bytes.Buffer
	for i := 0; buf.Len() < benchBytes; i++ {
		n := lineBytes/2 + i*7919%(lineBytes+1)
		for j := range n {
			buf.WriteByte('a' + byte(j%26))
		}
		buf.WriteByte('\n')
	}
	name := filepath.Join(b.TempDir(), "lines")
	if err := os.WriteFile(name, buf.Bytes()[:benchBytes], 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// measure runs fn over the whole file again and again.
func measure(b *testing.B, name string, f *os.File, fn func()) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(benchBytes)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				b.Fatal(err)
			}
			fn()
		}
	})
}

var sink int

func BenchmarkRead(b *testing.B) {
	f := benchFile(b, 100)
	buf := bytes.Repeat([]byte{1}, 1<<20)
	measure(b, "bare", f, func() {
		for {
			n, err := f.Read(buf)
			sink += n
			if err == io.EOF {
				return
			}
		}
	})
	measure(b, "Read", f, func() {
		for c, err := range Read(context.Background(), f, Config{}) {
			if err != nil {
				b.Fatal(err)
			}
			sink += len(c)
		}
	})
	measure(b, "ReadAt", f, func() {
		for c, err := range ReadAt(context.Background(), f, Span{0, benchBytes}, Config{}) {
			if err != nil {
				b.Fatal(err)
			}
			sink += len(c)
		}
	})
}

func BenchmarkLines(b *testing.B) {
	for _, n := range []int{14, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchLines(b, n) })
	}
}

func benchLines(b *testing.B, lineBytes int) {
	f := benchFile(b, lineBytes)
	buf := bytes.Repeat([]byte{1}, 1<<20)
	measure(b, "hand", f, func() {
		carry := 0
		for {
			n, err := f.Read(buf[carry:])
			if err == io.EOF {
				sink += carry
				return
			}
			rest := buf[:carry+n]
			for {
				i := bytes.IndexByte(rest, '\n')
				if i < 0 {
					break
				}
				line := rest[:i]
				if i > 0 && rest[i-1] == '\r' {
					line = rest[:i-1]
				}
				sink += len(line)
				rest = rest[i+1:]
			}
			carry = copy(buf, rest)
		}
	})
	measure(b, "Scanner", f, func() {
		s := bufio.NewScanner(f)
		s.Buffer(buf, 1<<20)
		for s.Scan() {
			sink += len(s.Bytes())
		}
	})
	measure(b, "Lines", f, func() {
		for l, err := range Lines(context.Background(), f, Config{}) {
			if err != nil {
				b.Fatal(err)
			}
			sink += len(l)
		}
	})
	measure(b, "LineBlocks", f, func() {
		for l, err := range LineBlocks(context.Background(), f, Config{}) {
			if err != nil {
				b.Fatal(err)
			}
			sink += len(l)
		}
	})
}

func sum(s []float64) float64 {
	var a, b, c, d float64
	for ; len(s) >= 4; s = s[4:] {
		a, b, c, d = a+s[0], b+s[1], c+s[2], d+s[3]
	}
	for _, x := range s {
		a += x
	}
	return a + b + c + d
}

func BenchmarkSlice(b *testing.B) {
	var total float64
	for _, n := range []int{1 << 10, 1 << 16, 1 << 20} {
		s := make([]float64, n)
		for i := range s {
			s[i] = float64(i)
		}
		run := func(name string, fn func()) {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(8 * n))
				b.ReportAllocs()
				for b.Loop() {
					fn()
				}
			})
		}
		run("plain", func() { total += sum(s) })
		run("slices.Chunk1024", func() {
			for c := range slices.Chunk(s, 1024) {
				total += sum(c)
			}
		})
		cfg := Config{Sizer: Pin(8 << 10)}
		run("pinned1024", func() {
			for c := range Slice(s, cfg) {
				total += sum(c)
			}
		})
		run("default", func() {
			for c := range Slice(s, Config{}) {
				total += sum(c)
			}
		})
	}
}
