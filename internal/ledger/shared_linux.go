package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	memfdName = "mpiguard-ledger"
	seals     = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

	futexWait = 0 // shared between processes: without FUTEX_PRIVATE_FLAG
	futexWake = 1
)

// Create makes a ledger in memory that other processes of this kernel, of the
// same user and PID namespace, can open. It has no name in any file system: it is
// gone when the last process that opened it has ended. Every error wraps
// errors.ErrUnsupported.
func Create(slots int) (*Ledger, error) {
	checkSlots(slots)
	fd, nonce, err := makeTable(slots)
	if err != nil {
		return nil, unsupported("create", err)
	}
	defer unix.Close(fd)
	// Opened as the others do: what fails for them fails here, and each process
	// has an open file description of its own, to which its locks belong.
	return Open(Handle{PID: os.Getpid(), FD: fd, Nonce: nonce})
}

// Open opens the ledger of another process. Every error wraps
// errors.ErrUnsupported.
func Open(h Handle) (*Ledger, error) {
	s, err := openShared(h)
	if err != nil {
		return nil, unsupported("open", err)
	}
	return newLedger(s.table, s), nil
}

func unsupported(what string, err error) error {
	return fmt.Errorf("ledger: %s: %w (%w)", what, err, errors.ErrUnsupported)
}

// makeTable returns a sealed memfd that holds an empty table.
func makeTable(slots int) (fd int, nonce uint64, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err = unix.MemfdCreate(memfdName, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(memfdName, flags)
	}
	if err != nil {
		return -1, 0, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	var random [8]byte
	_, _ = rand.Read(random[:]) // it does not fail
	nonce = binary.NativeEndian.Uint64(random[:])
	head := header{magic: magic, version: version, length: uint64(slots), nonce: nonce}
	if err := unix.Ftruncate(fd, int64(tableBytes(slots))); err != nil {
		return -1, 0, fmt.Errorf("ftruncate: %w", err)
	}
	if _, err := unix.Pwrite(fd, unsafe.Slice((*byte)(unsafe.Pointer(&head)), headerBytes), 0); err != nil {
		return -1, 0, fmt.Errorf("pwrite: %w", err)
	}
	// No one can shorten the memory under the feet of the others.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return -1, 0, fmt.Errorf("F_ADD_SEALS: %w", err)
	}
	return fd, nonce, nil
}

// shared is the backing of a ledger between processes.
type shared struct {
	*table
	claims
	fd    int
	mem   []byte
	heard []uint32 // value of each bell that listen saw last
}

func openShared(h Handle) (_ *shared, err error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", h.PID, h.FD)
	// In another PID namespace the path may lead to anything, even to what acts
	// when it is opened.
	if to, err := os.Readlink(path); err != nil {
		return nil, err
	} else if !strings.HasPrefix(to, "/memfd:"+memfdName) {
		return nil, fmt.Errorf("%s is %s", path, to)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &shared{fd: fd}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	slots, err := checkTable(fd, h.Nonce)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.mem, err = unix.Mmap(fd, 0, tableBytes(slots), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	s.table = view(unsafe.Pointer(unsafe.SliceData(s.mem)), slots)
	s.claims = newClaims(slots)
	s.heard = make([]uint32, slots)

	// What is needed later is tried now: where it is missing, ranks learn it while
	// they can still agree to do without.
	if err := futex(&s.entries[0].bell, futexWake, 0); err != nil {
		return nil, fmt.Errorf("futex: %w", err)
	}
	if err := s.lock(slots, unix.F_RDLCK); err != nil {
		return nil, fmt.Errorf("F_OFD_SETLK: %w", err)
	}
	return s, nil
}

// checkTable verifies that fd is the table with the nonce and returns its slots.
func checkTable(fd int, nonce uint64) (slots int, err error) {
	var head header
	n, err := unix.Pread(fd, unsafe.Slice((*byte)(unsafe.Pointer(&head)), headerBytes), 0)
	if err != nil {
		return 0, fmt.Errorf("pread: %w", err)
	}
	if n < int(headerBytes) || head.magic != magic || head.nonce != nonce {
		return 0, errors.New("is another ledger than the one announced")
	}
	if head.version != version {
		return 0, fmt.Errorf("is of layout %d, not %d", head.version, version)
	}
	if head.length < 1 || head.length > maxSlots {
		return 0, fmt.Errorf("has %d slots", head.length)
	}
	slots = int(head.length)
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("F_GET_SEALS: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("fstat: %w", err)
	}
	if got&seals != seals || st.Size != int64(tableBytes(slots)) {
		return 0, fmt.Errorf("has %d bytes and seals %#x", st.Size, got)
	}
	return slots, nil
}

// lock takes or drops the lock on the byte of a slot for our open file
// description.
func (s *shared) lock(slot int, kind int16) error {
	return unix.FcntlFlock(uintptr(s.fd), unix.F_OFD_SETLK, &unix.Flock_t{
		Type:  kind,
		Start: int64(slot),
		Len:   1,
	})
}

func (s *shared) claim(slot int) (bool, error) {
	if !s.claims.add(slot) {
		return false, nil
	}
	err := s.lock(slot, unix.F_WRLCK)
	if err == nil {
		return true, nil
	}
	s.claims.remove(slot)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = nil
	}
	return false, err
}

func (s *shared) release(slot int) {
	_ = s.lock(slot, unix.F_UNLCK) // fails for no lock that was granted
	s.claims.remove(slot)
}

func (s *shared) ring(slot int) {
	bell := &s.entries[slot].bell
	bell.Add(1)
	_ = futex(bell, futexWake, 1)
}

func (s *shared) listen(slot int) {
	bell := &s.entries[slot].bell
	now := bell.Load()
	if now == s.heard[slot] {
		_ = futex(bell, futexWait, now) // EAGAIN: it was rung meanwhile
		now = bell.Load()
	}
	s.heard[slot] = now
}

func (s *shared) handle() Handle { return Handle{PID: os.Getpid(), FD: s.fd, Nonce: s.nonce} }

func (s *shared) close() error {
	var err error
	if s.mem != nil {
		err = unix.Munmap(s.mem)
	}
	return errors.Join(err, unix.Close(s.fd))
}

func futex(word *atomic.Uint32, op int, value uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(value), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
