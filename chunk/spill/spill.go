// Package spill keeps data that may not fit into memory: a spool holds what is
// written to it in memory up to a bound, and the rest in a file that has no name.
//
//	spool, err := spill.New(ctx, spill.Config{Account: r, MemoryBytes: 32 << 20, Dir: "/scratch"})
//	defer spool.Close()
//	_, err = spool.Write(data)
//	...
//	for block, err := range chunk.ReadAt(ctx, spool, chunk.Span{Length: spool.SizeBytes()}, cfg) { ... }
//
// The file vanishes with the process, however that ends. It is readable by its owner
// alone. What comes back from it is checked against checksums that stay in memory,
// so a disk or a file system that errs is noticed. These, and what says where the
// data are, take 150 bytes of the Go heap for each MiB in the file, and a read that
// is not of whole blocks 64 KiB for a moment; neither is charged.
package spill

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/mpiguard/mpiguard/internal/offheap"
)

// The errors that callers tell apart with errors.Is. A file system that is full, or
// a quota, is syscall.ENOSPC or syscall.EDQUOT.
var (
	// ErrFull: the spool holds as much as Config allows.
	ErrFull = errors.New("spool is full")
	// ErrTmpfs: Config.Dir is in memory.
	ErrTmpfs = errors.New("directory is in memory")
	// ErrCorrupt: the file does not hold what was written to it.
	ErrCorrupt = errors.New("file is corrupt")
	// ErrClosed: the spool was closed.
	ErrClosed = errors.New("spool is closed")
)

// Account is what the memory of a spool is charged to. *mpiguard.Reservation
// satisfies it.
type Account interface {
	// Grow adds n bytes and waits for them until ctx ends. On an error nothing
	// has changed.
	Grow(ctx context.Context, n int64) error
	// TryGrow adds n bytes or fails at once. On an error nothing has changed.
	TryGrow(n int64) error
	// Shrink gives n bytes back.
	Shrink(n int64)
	// Commit says that n bytes of the account are resident and outside the Go
	// heap; a negative n takes that back.
	Commit(n int64)
}

// Config says where a spool keeps its data.
type Config struct {
	// Account is charged for the memory; nil charges nobody. Where it refuses, the
	// file is used, also below MemoryBytes.
	Account Account
	// MemoryBytes is how much may be in memory, in units of 1 MiB and one at least.
	MemoryBytes int64
	// Dir is the directory of the file. Without one there is no file: what does not
	// fit into memory is refused with ErrFull.
	Dir string
	// MaxFileBytes bounds the file; 0 leaves that to the file system.
	MaxFileBytes int64
	// AllowTmpfs allows a Dir in memory (tmpfs, ramfs, hugetlbfs), which New refuses
	// otherwise with ErrTmpfs: files there are memory of the same cgroup. They are
	// charged to Account then.
	AllowTmpfs bool
}

const (
	segmentBytes = 1 << 20  // of memory, and of a write to the file
	blockBytes   = 64 << 10 // for which there is a checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Spool is data that was appended and can be read again, as often as wanted. It is
// an io.Writer and an io.ReaderAt. Its methods are safe for concurrent use.
//
// The data are segments, of which the last one is being filled, in memory. A full
// one stays in memory or goes to the file.
type Spool struct {
	cfg                      Config
	acct                     Account
	segmentBytes, blockBytes int64
	scratch                  sync.Pool // of blocks, for reads of less than one

	mu        sync.RWMutex
	segments  []segment
	memory    int64 // bytes of memory, in segments
	sizeBytes int64
	file      file // nil without one
	fileBytes int64
	inMemory  bool // the file is
	closed    bool
}

// segment is a part of the data.
type segment struct {
	mem  []byte   // nil when it is in the file
	at   int64    // where in the file
	sums []uint32 // of its blocks, when it is in the file
}

// file is what a Spool needs of an *os.File.
type file interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

// New returns an empty spool. It waits for the memory of the first segment, 1 MiB,
// until ctx ends, and opens the file, so that a directory that cannot be used is an
// error now and not later. The caller closes the spool.
func New(ctx context.Context, cfg Config) (*Spool, error) {
	return newSpool(ctx, cfg, segmentBytes, blockBytes)
}

func newSpool(ctx context.Context, cfg Config, segmentBytes, blockBytes int64) (*Spool, error) {
	for _, f := range []struct {
		name string
		v    int64
	}{{"MemoryBytes", cfg.MemoryBytes}, {"MaxFileBytes", cfg.MaxFileBytes}} {
		if f.v < 0 {
			return nil, fmt.Errorf("spill: Config.%s is %d, must not be negative", f.name, f.v)
		}
	}
	s := &Spool{cfg: cfg, acct: cfg.Account, segmentBytes: segmentBytes, blockBytes: blockBytes}
	if s.acct == nil {
		s.acct = offheap.Unaccounted{}
	}
	s.scratch.New = func() any {
		b := make([]byte, blockBytes)
		return &b
	}
	if cfg.Dir != "" {
		f, inMemory, err := openFile(cfg.Dir)
		if err != nil {
			return nil, fmt.Errorf("spill: %w", err)
		}
		s.file, s.inMemory = f, inMemory
		if inMemory && !cfg.AllowTmpfs {
			f.Close()
			return nil, fmt.Errorf("spill: %w: %s", ErrTmpfs, cfg.Dir)
		}
	}
	err := s.acct.Grow(ctx, segmentBytes)
	if err == nil {
		err = s.add()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("spill: %d bytes of memory: %w", segmentBytes, err)
	}
	return s, nil
}

// add appends an empty segment, for which the memory is charged already.
func (s *Spool) add() error {
	mem, err := offheap.Map(s.segmentBytes, false)
	if err == nil {
		if err = offheap.Populate(mem); err != nil {
			_ = offheap.Unmap(mem)
		}
	}
	if err != nil {
		s.acct.Shrink(s.segmentBytes)
		return err
	}
	offheap.Commit(s.acct, s.segmentBytes)
	s.segments = append(s.segments, segment{mem: mem})
	s.memory += s.segmentBytes
	return nil
}

// SizeBytes returns how much was written.
func (s *Spool) SizeBytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sizeBytes
}

// Stats are the figures of a spool at one moment.
type Stats struct {
	SizeBytes   int64 // written
	MemoryBytes int64 // of memory, charged
	FileBytes   int64 // of the file; charged too when that is in memory
}

// Stats returns the figures of now.
func (s *Spool) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Stats{s.sizeBytes, s.memory, s.fileBytes}
}

// Write appends p. It returns how much of it was kept, and an error if that is not
// all: ErrFull, or what the file system said. Nothing that was kept before is lost
// by that, and Write may be tried again when there is room.
func (s *Spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, fmt.Errorf("spill: %w", ErrClosed)
	}
	kept := 0
	for kept < len(p) {
		fill := s.sizeBytes - int64(len(s.segments)-1)*s.segmentBytes
		if fill == s.segmentBytes {
			if err := s.next(); err != nil {
				return kept, fmt.Errorf("spill: %d bytes are kept: %w", s.sizeBytes, err)
			}
			fill = 0
		}
		n := copy(s.segments[len(s.segments)-1].mem[fill:], p[kept:])
		s.sizeBytes += int64(n)
		kept += n
	}
	return kept, nil
}

// next begins another segment: in memory of its own where that is allowed, and else
// in that of the present one, which goes to the file.
func (s *Spool) next() error {
	var refused error
	if s.memory+s.segmentBytes <= s.cfg.MemoryBytes {
		if refused = s.acct.TryGrow(s.segmentBytes); refused == nil {
			refused = s.add()
		}
		if refused == nil {
			return nil
		}
	}
	last := len(s.segments) - 1
	mem := s.segments[last].mem
	if err := s.store(last); err != nil {
		if refused != nil {
			err = fmt.Errorf("%w; and no more memory: %w", err, refused)
		}
		return err
	}
	s.segments = append(s.segments, segment{mem: mem})
	return nil
}

// store writes a full segment to the file. Its memory is the caller's then. On an
// error nothing has changed.
func (s *Spool) store(i int) error {
	if s.file == nil || s.cfg.MaxFileBytes > 0 && s.fileBytes+s.segmentBytes > s.cfg.MaxFileBytes {
		return fmt.Errorf("%w: %d bytes in memory, %d in the file", ErrFull, s.memory, s.fileBytes)
	}
	if s.inMemory {
		if err := s.acct.TryGrow(s.segmentBytes); err != nil {
			return err
		}
	}
	seg := &s.segments[i]
	sums := make([]uint32, 0, s.segmentBytes/s.blockBytes)
	for at := int64(0); at < s.segmentBytes; at += s.blockBytes { // while it is in the cache
		sums = append(sums, crc32.Checksum(seg.mem[at:at+s.blockBytes], castagnoli))
	}
	if _, err := s.file.WriteAt(seg.mem, s.fileBytes); err != nil {
		_ = s.file.Truncate(s.fileBytes) // what was written in vain takes space
		if s.inMemory {
			s.acct.Shrink(s.segmentBytes)
		}
		return err
	}
	if s.inMemory {
		s.acct.Commit(s.segmentBytes)
	}
	seg.at, seg.sums, seg.mem = s.fileBytes, sums, nil
	s.fileBytes += s.segmentBytes
	return nil
}

// Trim moves data to the file until wantBytes or more of memory are given back, and
// returns how much that is. It fits RegisterReclaim of a guard. One segment stays,
// and all of them where there is no room in the file, where the file is in memory, or
// while the spool is in use.
func (s *Spool) Trim(wantBytes int64) (freedBytes int64) {
	if !s.mu.TryLock() {
		return 0
	}
	defer s.mu.Unlock()
	if s.closed || s.inMemory {
		return 0
	}
	for i := 0; i < len(s.segments)-1 && freedBytes < wantBytes; i++ {
		mem := s.segments[i].mem
		if mem == nil {
			continue
		}
		if s.store(i) != nil {
			break
		}
		s.free(mem)
		freedBytes += s.segmentBytes
	}
	return freedBytes
}

// free gives the memory of a segment back.
func (s *Spool) free(mem []byte) {
	_ = offheap.Unmap(mem) // fails for an address that is not ours alone
	s.memory -= s.segmentBytes
	offheap.Commit(s.acct, -s.segmentBytes)
	s.acct.Shrink(s.segmentBytes)
}

// ReadAt reads what was written at an offset. It returns io.EOF where that ends, and
// an error that wraps ErrCorrupt where the file does not hold what was written.
func (s *Spool) ReadAt(p []byte, off int64) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return 0, fmt.Errorf("spill: %w", ErrClosed)
	}
	if off < 0 {
		return 0, fmt.Errorf("spill: negative offset %d", off)
	}
	n := 0
	for n < len(p) && off < s.sizeBytes {
		i, at := off/s.segmentBytes, off%s.segmentBytes
		end := min(s.segmentBytes, s.sizeBytes-i*s.segmentBytes)
		part := p[n:min(int64(len(p)), int64(n)+end-at)]
		if seg := &s.segments[i]; seg.mem != nil {
			copy(part, seg.mem[at:])
		} else if err := s.load(part, seg, at); err != nil {
			return n, fmt.Errorf("spill: at offset %d: %w", off, err)
		}
		n += len(part)
		off += int64(len(part))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// load reads a part of a segment that is in the file: whole blocks into p itself,
// and parts of a block by way of a scratch.
func (s *Spool) load(p []byte, seg *segment, at int64) error {
	for len(p) > 0 {
		block, within := at/s.blockBytes, at%s.blockBytes
		n := int64(len(p)) / s.blockBytes * s.blockBytes
		if within > 0 || n == 0 {
			scratch := s.scratch.Get().(*[]byte)
			err := s.loadBlocks(*scratch, seg, block)
			n = int64(copy(p, (*scratch)[within:]))
			s.scratch.Put(scratch)
			if err != nil {
				return err
			}
		} else if err := s.loadBlocks(p[:n], seg, block); err != nil {
			return err
		}
		p = p[n:]
		at += n
	}
	return nil
}

// loadBlocks fills p with whole blocks and checks them.
func (s *Spool) loadBlocks(p []byte, seg *segment, block int64) error {
	if _, err := s.file.ReadAt(p, seg.at+block*s.blockBytes); err != nil {
		if err == io.EOF {
			return fmt.Errorf("%w: it is too short", ErrCorrupt)
		}
		return err
	}
	for ; len(p) > 0; p = p[s.blockBytes:] {
		if crc32.Checksum(p[:s.blockBytes], castagnoli) != seg.sums[block] {
			return fmt.Errorf("%w: wrong checksum", ErrCorrupt)
		}
		block++
	}
	return nil
}

// Close gives everything back. A second Close does nothing.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, seg := range s.segments {
		if seg.mem != nil {
			s.free(seg.mem)
		}
	}
	s.segments = nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if s.inMemory {
		s.acct.Commit(-s.fileBytes)
		s.acct.Shrink(s.fileBytes)
	}
	return err
}
