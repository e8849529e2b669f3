package chunk

import (
	"context"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/offheap"
)

// mapping is a feed that maps a window of the file, so that of its pages only those
// of one chunk count as memory of the process.
type mapping struct {
	f       *os.File
	sizer   *Sizer
	unit    int64
	at, end int64  // what is not mapped yet
	mem     []byte // whole pages
}

// newMapping returns the feed for a span of a file.
func newMapping(src *source, sizer *Sizer, unit int64) (feed, bool) {
	r, ok := src.r.(*spanReader)
	if !ok {
		return nil, false
	}
	f, ok := r.ra.(*os.File)
	if !ok {
		return nil, false
	}
	return &mapping{f: f, sizer: sizer, unit: unit, at: r.at, end: r.end}, true
}

func (m *mapping) next(_ context.Context, tail []byte, grow int64) ([]byte, bool, error) {
	end, err := m.there()
	if err != nil {
		return nil, false, err
	}
	keep := int64(len(tail))
	from := m.at - keep
	n := min(max(m.sizer.Next(), grow, m.unit, keep+1), end-from)
	m.unmap()
	data, err := m.open(from, n)
	if err != nil {
		return nil, false, err
	}
	if m.at == m.end {
		return data, true, io.EOF
	}
	m.at = from + n
	return data, true, nil
}

// there returns where the file ends that was to reach to the end of the span. What
// was mapped of a file that is shorter than that by now may have been zeroes.
func (m *mapping) there() (int64, error) {
	info, err := m.f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	if size >= m.end {
		return m.end, nil
	}
	if size <= m.at {
		m.at = size
		return 0, fmt.Errorf("the input ends before offset %d: %w", m.end, io.ErrUnexpectedEOF)
	}
	return size, nil
}

// open maps n bytes of the file.
func (m *mapping) open(from, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	first := from / offheap.PageBytes * offheap.PageBytes
	size := from - first + n
	p, err := unix.MmapPtr(int(m.f.Fd()), first, nil, uintptr(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: m.f.Name(), Err: err}
	}
	m.mem = unsafe.Slice((*byte)(p), size)
	_ = unix.Madvise(m.mem, unix.MADV_POPULATE_READ) // else each page is a fault
	return m.mem[from-first:], nil
}

func (m *mapping) unmap() {
	if m.mem != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(m.mem)), uintptr(len(m.mem)))
		m.mem = nil
	}
}

func (m *mapping) ahead([]byte) {}

func (m *mapping) offset() int64 { return m.at }

func (m *mapping) close() { m.unmap() }
