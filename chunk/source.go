package chunk

import (
	"fmt"
	"io"
	"math"
)

// source is a reader that knows where it is.
type source struct {
	r      io.Reader
	offset int64 // of the next byte
	left   int64 // bytes that can come, math.MaxInt64 when unknown
}

func newSource(r io.Reader) *source { return &source{r: r, left: math.MaxInt64} }

// newSpanSource reads a span of ra. The span is read as it stood: what is
// appended to the file later is not part of it.
func newSpanSource(ra io.ReaderAt, s Span) *source {
	return &source{r: &spanReader{ra, s.Offset, s.End()}, offset: s.Offset, left: s.Length}
}

// read reads once into p, which is not empty. It returns io.EOF only with no
// bytes, and reports a reader that makes no progress.
func (s *source) read(p []byte) (int, error) {
	for range 100 {
		n, err := s.r.Read(p)
		if n < 0 || n > len(p) {
			return 0, fmt.Errorf("%T returned an impossible count, %d of %d bytes", s.r, n, len(p))
		}
		s.offset += int64(n)
		if n > 0 && err == io.EOF {
			err = nil // it comes again
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// fill reads until p is full or an error, such as io.EOF, comes.
func (s *source) fill(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m, err := s.read(p[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// spanReader is an io.Reader of a part of a file that is known to be there.
type spanReader struct {
	ra      io.ReaderAt
	at, end int64
}

func (r *spanReader) Read(p []byte) (int, error) {
	if r.at == r.end {
		return 0, io.EOF
	}
	n, err := r.ra.ReadAt(p[:min(int64(len(p)), r.end-r.at)], r.at)
	r.at += int64(n)
	switch {
	case r.at == r.end:
		err = nil
	case err == io.EOF:
		err = fmt.Errorf("the input ends before offset %d: %w", r.end, io.ErrUnexpectedEOF)
	}
	return n, err
}
