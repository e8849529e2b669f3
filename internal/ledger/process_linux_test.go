package ledger

import (
	"encoding/json"
	"os"
	"os/exec"

	"testing"

	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tallyFD is the descriptor of the tally in a role.
const tallyFD = 3

func newTally(t testing.TB) (*tally, *os.File) {
	fd, err := unix.MemfdCreate("tally", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, 4096))
	f := os.NewFile(uintptr(fd), "tally")
	t.Cleanup(func() { f.Close() })
	y, err := mapTally(fd)
	require.NoError(t, err)
	return y, f
}

func mapTally(fd int) (*tally, error) {
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*tally)(unsafe.Pointer(unsafe.SliceData(mem))), nil
}

// start starts a process in a role.
func start(t testing.TB, f *os.File, o order, more ...*os.File) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = append([]*os.File{f}, more...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func newPlayer(o order) (*player, error) {
	y, err := mapTally(tallyFD)
	if err != nil {
		return nil, err
	}
	y.slots[o.Slot].phase.Store(phaseStarted)
	l, err := Open(o.Handle)
	if err != nil {
		return nil, err
	}
	y.slots[o.Slot].phase.Store(phaseOpen)
	s, err := l.Join(o.Slot, y.member())
	if err != nil {
		return nil, err
	}
	y.slots[o.Slot].phase.Store(phaseJoined)
	return &player{s, y}, nil
}

func init() {
	roles["churn"] = func(o order) error {
		p, err := newPlayer(o)
		if err != nil {
			return err
		}
		p.churn(o.Seed, o.Steps, func() {})
		return p.ledger.Close()
	}
}

// TestProcesses: processes take and give at random. MPIGUARD_LONG=1: a million
// times each.
func TestProcesses(t *testing.T) {
	l := create(t, procs)
	defer l.Close()
	y, f := newTally(t)
	var cmds []*exec.Cmd
	for i := range procs {
		cmds = append(cmds, start(t, f, order{Role: "churn", Handle: l.Handle(), Slot: i, Seed: uint64(i), Steps: oftenOr(50_000, 1_000_000)}))
	}
	for _, cmd := range cmds {
		assert.NoError(t, cmd.Wait())
	}
	y.checkEnd(t)
	for i := range l.entries {
		assert.Zero(t, l.entries[i].digest.Load())
		assert.Zero(t, l.entries[i].untouched.Load())
	}
}
