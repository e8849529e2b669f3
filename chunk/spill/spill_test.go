package spill

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

var (
	page       = offheap.PageBytes
	errRefused = errors.New("refused")
)

// account is an Account with a fixed budget. It never waits.
type account struct {
	mu        sync.Mutex
	budget    int64
	size      int64
	committed int64
	peak      int64
}

func newAccount(t testing.TB, budget int64) *account {
	a := &account{budget: budget}
	t.Cleanup(func() {
		assert.Zero(t, a.size, "bytes left in the account")
		assert.Zero(t, a.committed, "bytes left committed")
	})
	return a
}

func (a *account) Grow(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.TryGrow(n)
}

func (a *account) TryGrow(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > a.budget-a.size {
		return errRefused
	}
	a.size += n
	a.peak = max(a.peak, a.size)
	return nil
}

func (a *account) Shrink(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.size -= n; a.size < a.committed {
		panic("account shrunk below what is committed")
	}
}

func (a *account) Commit(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.committed += n; a.committed < 0 || a.committed > a.size {
		panic("committed more than reserved")
	}
}

// onDisk returns a directory that is not in memory.
func onDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if f, inMemory, err := openFile(dir); err == nil {
		f.Close()
		if inMemory {
			t.Skip("the directory for temporary files is in memory")
		}
	}
	return dir
}

// small returns a spool with small segments.
func small(t testing.TB, cfg Config) *Spool {
	t.Helper()
	s, err := newSpool(t.Context(), cfg, 2*page, page/4)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.NoError(t, s.Close())
	})
	return s
}

func random(rng *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

// same reads all of a spool in several ways.
func same(t testing.TB, want []byte, s *Spool) {
	t.Helper()
	require.EqualValues(t, len(want), s.SizeBytes())
	for _, size := range []int64{1 << 20, page, page/4 + 1} {
		var got []byte
		for b, err := range chunk.ReadAt(t.Context(), s, chunk.Span{Length: s.SizeBytes()}, chunk.Config{Sizer: chunk.Pin(size)}) {
			require.NoError(t, err)
			got = append(got, b...)
		}
		require.True(t, bytes.Equal(want, got))
	}
}

func TestSpool(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		a := newAccount(t, rng.Int64N(20)*page+2*page)
		s := small(t, Config{Account: a, MemoryBytes: rng.Int64N(20 * page), Dir: onDisk(t)})
		var want []byte
		for range 60 {
			switch rng.IntN(8) {
			case 0:
				before := s.Stats()
				freed := s.Trim(rng.Int64N(10 * page))
				require.Equal(t, before.MemoryBytes-freed, s.Stats().MemoryBytes)
			case 1, 2:
				off := rng.Int64N(int64(len(want)) + 10)
				p := make([]byte, rng.IntN(int(5*page)))
				n, err := s.ReadAt(p, off)
				if off+int64(len(p)) > int64(len(want)) {
					require.ErrorIs(t, err, io.EOF)
				} else {
					require.NoError(t, err)
					require.Equal(t, len(p), n)
				}
				require.True(t, n == 0 || bytes.Equal(want[off:off+int64(n)], p[:n]))
			default:
				p := random(rng, rng.IntN(int(3*page)))
				n, err := s.Write(p)
				require.NoError(t, err)
				require.Equal(t, len(p), n)
				want = append(want, p...)
			}
			st := s.Stats()
			require.Equal(t, st.MemoryBytes, a.size)
			require.LessOrEqual(t, st.MemoryBytes, max(s.cfg.MemoryBytes, 2*page))
			if offheap.Mapped {
				require.Equal(t, a.size, a.committed)
			}
		}
		same(t, want, s)
	}
}

func TestMemoryAlone(t *testing.T) {
	a := newAccount(t, 100*page)
	s := small(t, Config{Account: a, MemoryBytes: 8 * page})
	data := random(rand.New(rand.NewPCG(1, 1)), int(9*page))
	n, err := s.Write(data)
	require.ErrorIs(t, err, ErrFull)
	assert.EqualError(t, err, "spill: 32768 bytes are kept: spool is full: 32768 bytes in memory, 0 in the file")
	assert.EqualValues(t, 8*page, n)
	assert.Zero(t, s.Trim(page))
	same(t, data[:n], s)

	// The account refuses earlier.
	b := newAccount(t, 4*page)
	s = small(t, Config{Account: b, MemoryBytes: 8 * page})
	n, err = s.Write(data)
	require.ErrorIs(t, err, ErrFull)
	require.ErrorIs(t, err, errRefused)
	assert.EqualValues(t, 4*page, n)
	same(t, data[:n], s)
}

func TestFileCap(t *testing.T) {
	a := newAccount(t, 100*page)
	s := small(t, Config{Account: a, MemoryBytes: 4 * page, Dir: onDisk(t), MaxFileBytes: 7 * page})
	data := random(rand.New(rand.NewPCG(1, 2)), int(20*page))
	n, err := s.Write(data)
	require.ErrorIs(t, err, ErrFull)
	assert.EqualValues(t, 10*page, n, "two segments in memory and three in the file")
	assert.Equal(t, Stats{10 * page, 4 * page, 6 * page}, s.Stats())
	same(t, data[:n], s)
	n, err = s.Write(nil)
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestNewErrors(t *testing.T) {
	a := newAccount(t, 100*page)
	for want, cfg := range map[string]Config{
		"spill: Config.MemoryBytes is -1, must not be negative":  {MemoryBytes: -1},
		"spill: Config.MaxFileBytes is -2, must not be negative": {MaxFileBytes: -2},
	} {
		_, err := New(t.Context(), cfg)
		assert.EqualError(t, err, want)
	}
	_, err := New(t.Context(), Config{Account: a, Dir: "/does/not/exist"})
	require.ErrorIs(t, err, os.ErrNotExist)
	a.budget = 0
	_, err = New(t.Context(), Config{Account: a, Dir: onDisk(t)})
	require.ErrorIs(t, err, errRefused)
	assert.EqualError(t, err, "spill: 1048576 bytes of memory: refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = New(ctx, Config{Account: a})
	require.ErrorIs(t, err, context.Canceled)
}

func TestClosed(t *testing.T) {
	s := small(t, Config{Dir: onDisk(t)})
	_, err := s.Write(make([]byte, 5*page))
	require.NoError(t, err)
	_, err = s.ReadAt(make([]byte, 1), -1)
	require.EqualError(t, err, "spill: negative offset -1")
	require.NoError(t, s.Close())
	_, err = s.Write([]byte{1})
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, ErrClosed)
	assert.Zero(t, s.Trim(page))
	assert.Zero(t, s.Stats().MemoryBytes)
}

// flaky is a file that fails.
type flaky struct {
	file
	room  int64 // bytes that fit
	flip  int64 // the offset of a byte that comes back wrong, or -1
	short bool  // the file ends early
	bytes int64
}

func (f *flaky) WriteAt(p []byte, off int64) (int, error) {
	if left := f.room - off; left < int64(len(p)) {
		n, _ := f.file.WriteAt(p[:max(left, 0)], off)
		f.bytes = f.room
		return n, &os.PathError{Op: "write", Path: "spool", Err: syscall.ENOSPC}
	}
	f.bytes = off + int64(len(p))
	return f.file.WriteAt(p, off)
}

func (f *flaky) Truncate(n int64) error {
	f.bytes = n
	return f.file.Truncate(n)
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if f.short {
		return 0, io.EOF
	}
	n, err := f.file.ReadAt(p, off)
	if i := f.flip - off; f.flip >= 0 && i >= 0 && i < int64(n) {
		p[i] ^= 4
	}
	return n, err
}

// TestNoSpace: a file system that is full loses nothing, and goes on when it has
// room again.
func TestNoSpace(t *testing.T) {
	a := newAccount(t, 100*page)
	s := small(t, Config{Account: a, MemoryBytes: 4 * page, Dir: onDisk(t)})
	f := &flaky{file: s.file, room: 5 * page, flip: -1}
	s.file = f
	data := random(rand.New(rand.NewPCG(1, 3)), int(20*page))
	n, err := s.Write(data)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.EqualError(t, err, "spill: 32768 bytes are kept: write spool: no space left on device")
	assert.EqualValues(t, 8*page, n)
	assert.Equal(t, 4*page, f.bytes, "what was written in vain is given back")
	same(t, data[:n], s)
	assert.Zero(t, s.Trim(page))
	same(t, data[:n], s)

	more, err := s.Write(data[n:])
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Zero(t, more)
	f.room = 100 * page
	more, err = s.Write(data[n:])
	require.NoError(t, err)
	assert.Equal(t, len(data), n+more)
	same(t, data, s)
	assert.Positive(t, s.Trim(page))
	same(t, data, s)
}

// TestCorruption: a byte that comes back wrong, anywhere in the file, is noticed by
// whatever reads it.
func TestCorruption(t *testing.T) {
	s := small(t, Config{Dir: onDisk(t)})
	data := random(rand.New(rand.NewPCG(1, 4)), int(9*page))
	_, err := s.Write(data)
	require.NoError(t, err)
	f := &flaky{file: s.file, room: 100 * page}
	s.file = f
	require.Equal(t, 8*page, s.fileBytes)
	for f.flip = 0; f.flip < s.fileBytes; f.flip += 97 {
		_, err := s.ReadAt(make([]byte, len(data)), 0)
		require.ErrorIs(t, err, ErrCorrupt)
		p := make([]byte, 1)
		_, err = s.ReadAt(p, f.flip)
		require.ErrorIs(t, err, ErrCorrupt)
	}
	f.flip = -1
	same(t, data, s)
	f.short = true
	_, err = s.ReadAt(make([]byte, 10), 0)
	require.EqualError(t, err, "spill: at offset 0: file is corrupt: it is too short")
}

// TestConcurrentReads: readers do not disturb each other, nor a writer.
func TestConcurrentReads(t *testing.T) {
	s := small(t, Config{Account: newAccount(t, 100*page), MemoryBytes: 6 * page, Dir: onDisk(t)})
	data := random(rand.New(rand.NewPCG(1, 5)), int(60*page))
	_, err := s.Write(data[:30*page])
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 6))
			for range 200 {
				off := rng.Int64N(29 * page)
				p := make([]byte, rng.Int64N(30*page-off))
				_, err := s.ReadAt(p, off)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(data[off:off+int64(len(p))], p))
			}
		})
	}
	wg.Go(func() {
		for at := 30 * page; at < 60*page; at += page / 2 {
			_, err := s.Write(data[at : at+page/2])
			assert.NoError(t, err)
			s.Trim(page)
		}
	})
	wg.Wait()
	same(t, data, s)
}

// FuzzSpool compares with a plain slice.
func FuzzSpool(f *testing.F) {
	f.Add([]byte{1, 200, 3, 17, 250, 9, 80, 81, 82, 255, 255, 255}, uint8(3))
	f.Fuzz(func(t *testing.T, ops []byte, memory uint8) {
		a := newAccount(t, 12*page)
		s := small(t, Config{Account: a, MemoryBytes: int64(memory) * page / 8, Dir: onDisk(t), MaxFileBytes: 16 * page})
		var want []byte
		for i, op := range ops[:min(len(ops), 100)] {
			x := int64(op >> 2)
			switch op & 3 {
			case 0, 1:
				p := bytes.Repeat([]byte{byte(i)}, int(x*page/20))
				n, err := s.Write(p)
				if err != nil {
					require.ErrorIs(t, err, ErrFull)
				} else {
					require.Equal(t, len(p), n)
				}
				want = append(want, p[:n]...)
			case 2:
				off := x * int64(len(want)) / 64
				p := make([]byte, x*page/8)
				n, err := s.ReadAt(p, off)
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
				}
				require.EqualValues(t, min(int64(len(p)), int64(len(want))-off), n)
				require.True(t, bytes.Equal(want[off:off+int64(n)], p[:n]))
			case 3:
				s.Trim(x * page / 4)
			}
			require.Equal(t, s.Stats().MemoryBytes, a.size)
		}
		same(t, want, s)
	})
}
