package procfs

import (
	"fmt"
	"os"
	"strconv"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// Dir is the directory of a process below a machine's root: "proc/self" for pid 0.
func Dir(pid int) string {
	if pid == 0 {
		return "proc/self"
	}
	return "proc/" + strconv.Itoa(pid)
}

// Self reads the memory of one process again and again, through files that are
// held open. It is not safe for concurrent use.
type Self struct {
	statm, status       *kernfs.File
	statmErr, statusErr error
	buf                 [16 << 10]byte // a status file lists groups and CPUs too
}

// OpenSelf opens the files of process pid, 0 for this one, on the machine below
// root ("" for the running one). It never fails: what cannot be opened makes the
// method that reads it fail with the reason, which wraps errors.ErrUnsupported
// on a running system that is not Linux.
func OpenSelf(root string, pid int) *Self {
	fsys := kernfs.New(root)
	defer fsys.Close()
	s := &Self{}
	s.statm, s.statmErr = fsys.Open(Dir(pid) + "/statm")
	s.status, s.statusErr = fsys.Open(Dir(pid) + "/status")
	return s
}

// Close closes the files.
func (s *Self) Close() {
	s.statm.Close()
	s.status.Close()
	*s = Self{statmErr: os.ErrClosed, statusErr: os.ErrClosed}
}

// Statm returns the resident memory of the process and the part of it that is
// file pages and shared memory; the difference is anonymous. The kernel batches
// these counters per thread: they may be off by some hundred KiB.
// Source: proc_pid_statm(5). It does not allocate.
func (s *Self) Statm() (residentBytes, sharedBytes int64, err error) {
	if s.statmErr != nil {
		return 0, 0, s.statmErr
	}
	text, err := s.statm.Read(s.buf[:])
	if err != nil {
		return 0, 0, err
	}
	m, ok := ParseStatm(text)
	if !ok {
		return 0, 0, fmt.Errorf("statm: cannot parse %.60q", text)
	}
	return m.ResidentPages * pageBytes, m.SharedPages * pageBytes, nil
}

// Status returns the memory rows of the status file. Source: proc_pid_status(5).
// It does not allocate.
func (s *Self) Status() (Status, error) {
	if s.statusErr != nil {
		return unknownStatus, s.statusErr
	}
	text, err := s.status.Read(s.buf[:])
	if err != nil {
		return unknownStatus, err
	}
	return ParseStatus(text), nil
}

// MemsAllowed returns the NUMA nodes that the process may allocate on.
func (s *Self) MemsAllowed() ([]int, error) {
	if s.statusErr != nil {
		return nil, s.statusErr
	}
	text, err := s.status.Read(s.buf[:])
	if err != nil {
		return nil, err
	}
	return ParseList(memsAllowed(text)), nil
}

var pageBytes = int64(os.Getpagesize())

// BootID returns what tells this boot of a kernel from every other, the same in
// all containers on it. Source: proc_sys_kernel(5), random/boot_id.
func BootID(root string) (string, error) {
	text, err := readOnce(root, "proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	id := string(trim(text))
	if id == "" || len(id) > 64 {
		return "", fmt.Errorf("boot_id: cannot parse %.60q", text)
	}
	return id, nil
}

// StartTime returns when process pid (0: this one) started, in clock ticks since
// boot. With the pid it names a process for as long as the machine is up.
// Source: proc_pid_stat(5), field 22.
func StartTime(root string, pid int) (uint64, error) {
	text, err := readOnce(root, Dir(pid)+"/stat")
	if err != nil {
		return 0, err
	}
	ticks, ok := ParseStartTime(text)
	if !ok {
		return 0, fmt.Errorf("stat: cannot parse %.60q", text)
	}
	return ticks, nil
}

func readOnce(root, name string) ([]byte, error) {
	fsys := kernfs.New(root)
	defer fsys.Close()
	var buf [1024]byte
	return fsys.Read(name, buf[:])
}
