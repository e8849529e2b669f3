package ledger

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOpen: what is announced is opened, and nothing else.
func TestOpen(t *testing.T) {
	files := openFiles(t)
	l := create(t, 3)
	good := l.Handle()
	require.Equal(t, os.Getpid(), good.PID)
	other, err := Open(good)
	require.NoError(t, err)
	assert.Equal(t, 3, other.Slots())
	assert.NotEqual(t, good.FD, other.Handle().FD)
	assert.Equal(t, good.Nonce, other.Handle().Nonce)

	// Two openings are as two processes.
	a := join(t, l, 0, 100)
	_, err = other.Join(0, Member{})
	require.EqualError(t, err, "ledger: slot 0 is taken")
	b := join(t, other, 1, 100)
	_, err = a.TryTake(70, 70)
	require.NoError(t, err)
	_, err = b.TryTake(31, 31)
	requireRefused(t, err, Refused{NeedBytes: 31, RoomBytes: 30})
	assert.Zero(t, l.Sweep())
	assert.Zero(t, other.Sweep())
	require.NoError(t, l.Close())
	_, err = b.TryTake(100, 100)
	require.NoError(t, err)

	pipe, w, err := os.Pipe()
	require.NoError(t, err)
	bad := 0
	makeBad := func(change func(h *header), seals int, size int64) int {
		fd, err := unix.MemfdCreate(memfdName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		require.NoError(t, err)
		h := header{magic: magic, version: version, length: 3, nonce: good.Nonce}
		change(&h)
		require.NoError(t, unix.Ftruncate(fd, size))
		_, err = unix.Pwrite(fd, unsafe.Slice((*byte)(unsafe.Pointer(&h)), headerBytes), 0)
		require.NoError(t, err)
		if seals != 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
			require.NoError(t, err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		bad++
		return fd
	}
	size := int64(tableBytes(3))
	same := func(*header) {}
	handle := func(fd int) Handle { return Handle{good.PID, fd, good.Nonce} }
	at := other.Handle()
	for name, c := range map[string]struct {
		h    Handle
		want string
	}{
		"no such process":    {Handle{1 << 30, at.FD, at.Nonce}, "no such file"},
		"no such descriptor": {Handle{at.PID, 1 << 20, at.Nonce}, "no such file"},
		"not a memfd":        {handle(int(pipe.Fd())), "is pipe:"},
		"another nonce":      {Handle{at.PID, at.FD, at.Nonce + 1}, "is another ledger"},
		"another magic":      {handle(makeBad(func(h *header) { h.magic++ }, seals, size)), "is another ledger"},
		"another layout":     {handle(makeBad(func(h *header) { h.version++ }, seals, size)), "is of layout 2, not 1"},
		"too many slots":     {handle(makeBad(func(h *header) { h.length = 1 << 40 }, seals, size)), "has 1099511627776 slots"},
		"not sealed":         {handle(makeBad(same, 0, size)), "and seals 0x0"},
		"too short":          {handle(makeBad(same, seals, size-1)), "bytes and seals"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(c.h)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, errors.ErrUnsupported)
		})
	}
	pipe.Close()
	w.Close()
	require.NoError(t, other.Close())
	assert.Equal(t, files+bad, openFiles(t), "a failed Open leaves a descriptor")
}

// TestSealed: nobody can shorten the memory that others have mapped.
func TestSealed(t *testing.T) {
	l := create(t, 1)
	defer l.Close()
	fd := l.backing.(*shared).fd
	assert.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	assert.ErrorIs(t, err, unix.EPERM)
}

// TestStopped: a process that is stopped at any point of the protocol holds up
// others for a moment only.
func TestStopped(t *testing.T) {
	l := create(t, procs)
	defer l.Close()
	y, f := newTally(t)
	me, err := l.Join(0, y.member())
	require.NoError(t, err)
	var cmds []*exec.Cmd
	for i := 1; i < procs; i++ {
		cmds = append(cmds, start(t, f, order{Role: "churn", Handle: l.Handle(), Slot: i, Seed: uint64(i), Steps: math.MaxInt}))
	}
	waitFor(t, "they churn", func() bool { return y.granted.Load() > 1000 })
	var longest time.Duration
	for i := range oftenOr(30, 1000) {
		cmd := cmds[i%len(cmds)]
		require.NoError(t, cmd.Process.Signal(unix.SIGSTOP))
		begin := time.Now()
		n, err := me.TryTake(1, budget)
		longest = max(longest, time.Since(begin))
		if err == nil {
			me.Give(n)
		}
		granted, refused := y.granted.Load(), y.refused.Load()
		waitFor(t, "the others go on", func() bool {
			if y.granted.Load() > granted {
				return true
			}
			// But for what the stopped one holds nothing is refused.
			slot := 1 + i%len(cmds)
			has := l.entries[slot].untouched.Load() + y.slots[slot].used.Load()
			return has > budget*9/10 && y.refused.Load() > refused+100
		})
		require.NoError(t, cmd.Process.Signal(unix.SIGCONT))
		time.Sleep(time.Millisecond)
	}
	t.Logf("longest TryTake beside a stopped process: %v", longest)
	assert.Less(t, longest, 500*time.Millisecond)
	y.stop.Store(true)
	for _, cmd := range cmds {
		require.NoError(t, cmd.Wait())
	}
	y.checkEnd(t)
}
