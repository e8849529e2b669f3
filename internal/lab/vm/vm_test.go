//go:build linux

package vm_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/vm"
)

// One machine shows it all: each costs seconds.
func TestLabMachine(t *testing.T) {
	share := t.TempDir()
	t.Setenv("TMPDIR", share) // not that of the machine
	const script = `
		echo "host $(hostname)"
		echo "word $WORD"
		echo "group $(cat /proc/self/cgroup)"
		grep some /proc/pressure/memory
		stat -f -c 'temporary files on %T' "$TMPDIR"
		echo "swap $(awk '/SwapTotal/ { print $2 }' /proc/meminfo)"
		cd /sys/fs/cgroup && mkdir job job/rank && echo +memory >job/cgroup.subtree_control
		echo 32M >job/memory.max && echo 0 >job/memory.swap.max
		sh -c 'echo $$ >job/rank/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=64M count=1'
		echo "killed $?, $(grep 'oom_kill ' job/memory.events)"
		echo kept >"$SHARE/kept"
		echo lost >"$PWD_OUTSIDE/lost"
		(sleep 0.1; sleep 0.1) & # an orphan, soon
		echo complaint >&2
		exit 7`
	outside := t.TempDir()
	r := lab.VM(t, vm.Config{
		SwapBytes: 64 << 20, Share: share,
		Env: []string{"WORD=a b", "SHARE=" + share, "PWD_OUTSIDE=" + outside},
	}, "sh", "-c", script)

	assert.Equal(t, 7, r.Exit)
	for _, want := range []string{
		"host vm\n", "word a b\n", "group 0::/init\n", "some avg10=", "temporary files on ext2/ext3\n", "swap 65532\n", "killed 137, oom_kill 1\n",
	} {
		assert.Contains(t, r.Stdout, want)
	}
	assert.True(t, strings.HasSuffix(r.Stderr, "complaint\n"), "stderr: %s", r.Stderr)
	kept, err := os.ReadFile(filepath.Join(share, "kept"))
	require.NoError(t, err)
	assert.Equal(t, "kept\n", string(kept))
	assert.NoFileExists(t, filepath.Join(outside, "lost"), "the root is read-only")
}

func TestUnfinishedIsAnError(t *testing.T) {
	lab.Need(t, vm.Ready() == nil, "no virtual machine here")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := vm.Run(ctx, vm.Config{}, "true")
	require.ErrorIs(t, err, vm.ErrUnfinished)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, err := filepath.Glob(os.TempDir() + "/*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestLabHangingCommandQuits(t *testing.T) {
	lab.Need(t, vm.Ready() == nil, "no virtual machine here")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	r, err := vm.Run(ctx, vm.Config{}, "sleep", "60")
	require.NoError(t, err)
	assert.Equal(t, 128+int(syscall.SIGQUIT), r.Exit)
}

func TestRunWithoutDeadlinePanics(t *testing.T) {
	assert.PanicsWithValue(t, "vm: Run without a deadline", func() {
		_, _ = vm.Run(context.Background(), vm.Config{}, "true")
	})
}
