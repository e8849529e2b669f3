package spill

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/mpiguard/mpiguard/chunk"
)

// BenchmarkSpool writes 256 MiB through a spool with 32 MiB of memory and reads them
// again, beside a plain file.
func BenchmarkSpool(b *testing.B) {
	const size = 256 << 20
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i)
	}
	dir := onDisk(b)
	b.Run("file", func(b *testing.B) {
		b.SetBytes(2 * size)
		for b.Loop() {
			f, err := os.Create(filepath.Join(dir, "plain"))
			if err != nil {
				b.Fatal(err)
			}
			for range size / len(block) {
				if _, err := f.Write(block); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, len(block))
			for err == nil {
				_, err = f.Read(buf)
			}
			f.Close()
			os.Remove(f.Name())
		}
	})
	b.Run("spool", func(b *testing.B) {
		b.SetBytes(2 * size)
		for b.Loop() {
			s, err := New(b.Context(), Config{MemoryBytes: 32 << 20, Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			for range size / len(block) {
				if _, err := s.Write(block); err != nil {
					b.Fatal(err)
				}
			}
			for _, err := range chunk.ReadAt(b.Context(), s, chunk.Span{Length: size}, chunk.Config{}) {
				if err != nil {
					b.Fatal(err)
				}
			}
			s.Close()
		}
	})
}
