//go:build linux

package memgroup_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
)

const mib = 1 << 20

// TestMain also is the process that tests put in a group: told so by its
// arguments, it holds memory of a kind until its standard input ends.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "hold" {
		n, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = hold(os.Args[2], n)
		}
		fmt.Println(err)
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func hold(kind string, n int) error {
	fd := -1
	switch kind {
	case "anon":
	case "shmem", "cache":
		var err error
		if kind == "shmem" {
			fd, err = unix.MemfdCreate("hold", 0)
		} else {
			fd, err = unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
		}
		if err != nil {
			return err
		}
		piece := make([]byte, 64<<10)
		for left := n; left > 0; left -= len(piece) {
			if _, err := unix.Write(fd, piece); err != nil {
				return err
			}
		}
	default:
		return errors.New("no such kind of memory: " + kind)
	}
	if kind == "anon" {
		b, err := unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < n; i += os.Getpagesize() {
			b[i] = 1
		}
	}
	fmt.Println("held")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// holder is a command that starts inside g and holds memory.
func holder(t *testing.T, g *memgroup.Group, kind string, n int) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := g.Command(t.Context(), self, "hold", kind, strconv.Itoa(n))
	cmd.Dir = t.TempDir()
	return cmd
}

// started waits until the holder has what it is to hold.
func started(t *testing.T, cmd *exec.Cmd) (end func()) {
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	require.Equal(t, "held\n", line)
	return func() {
		in.Close()
		_ = cmd.Wait()
	}
}

func TestKilledAtItsLimit(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 64 * mib})
	err := holder(t, g, "anon", 128*mib).Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())

	kills, err := g.Kills()
	require.NoError(t, err)
	assert.EqualValues(t, 1, kills)
	peak, err := g.PeakBytes()
	require.NoError(t, err)
	assert.LessOrEqual(t, peak, int64(65*mib)) // the kernel lets a few pages pass
	assert.Greater(t, peak, int64(60*mib))
}

func TestCountsWhatNothingGivesBack(t *testing.T) {
	for _, c := range []struct {
		kind   string
		counts bool
	}{{"anon", true}, {"shmem", true}, {"cache", false}} {
		t.Run(c.kind, func(t *testing.T) {
			if c.kind == "cache" && !onDisk(t) {
				t.Skip("temporary files are in memory or on an overlay here")
			}
			const n = 48 * mib
			g := lab.NewGroup(t, lab.Limits{})
			stop := g.Watch(5 * time.Millisecond)
			end := started(t, holder(t, g, c.kind, n))
			time.Sleep(50 * time.Millisecond)
			anon, err := g.AnonBytes()
			require.NoError(t, err)
			usage, err := g.UsageBytes()
			require.NoError(t, err)
			peak, err := stop()
			require.NoError(t, err)
			end()

			assert.GreaterOrEqual(t, usage, int64(n-mib))
			assert.GreaterOrEqual(t, peak.Samples, 5)
			if c.counts {
				// The holder itself has 2 MiB, and 15 under the race detector.
				for _, got := range []int64{anon, peak.AnonBytes} {
					assert.GreaterOrEqual(t, got, int64(n))
					assert.Less(t, got, int64(n+24*mib))
				}
			} else {
				assert.Less(t, peak.AnonBytes, int64(24*mib))
			}
			after, err := g.AnonBytes()
			require.NoError(t, err)
			assert.Less(t, after, int64(2*mib), "given back by the end of the process")
		})
	}
}

func onDisk(t *testing.T) bool {
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(t.TempDir(), &fs))
	return fs.Type != unix.OVERLAYFS_SUPER_MAGIC && fs.Type != unix.TMPFS_MAGIC
}

func TestChildUnderTheLimitOfItsParent(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 64 * mib})
	mid, err := g.Child("job", lab.Limits{})
	require.NoError(t, err)
	leaf, err := mid.Child("rank", lab.Limits{MaxBytes: 256 * mib})
	require.NoError(t, err)
	assert.Equal(t, g.Path()+"/job/rank", leaf.Path())

	cmd := holder(t, leaf, "anon", 16*mib)
	end := started(t, cmd)
	of, err := memgroup.Of(cmd.Process.Pid)
	require.NoError(t, err)
	assert.Equal(t, leaf, of)
	pids, err := g.Pids()
	require.NoError(t, err)
	assert.Equal(t, []int{cmd.Process.Pid}, pids)
	end()

	require.Error(t, holder(t, leaf, "anon", 128*mib).Run())
	for _, c := range []*memgroup.Group{g, mid, leaf} {
		kills, err := c.Kills()
		require.NoError(t, err)
		assert.EqualValues(t, 1, kills, c.Path())
	}
}

func TestLimitMoves(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 32 * mib})
	for _, n := range []int64{128 * mib, 24 * mib, 96 * mib} {
		require.NoError(t, g.SetMaxBytes(n))
		for _, file := range map[int][]string{
			1: {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
			2: {"memory.max"},
		}[g.Version()] {
			text, err := os.ReadFile(filepath.Join(g.Dir(), file))
			if errors.Is(err, os.ErrNotExist) && strings.Contains(file, "memsw") {
				continue // a kernel without swap accounting
			}
			require.NoError(t, err)
			assert.Equal(t, strconv.FormatInt(n, 10), strings.TrimSpace(string(text)), file)
		}
	}
	started(t, holder(t, g, "anon", 64*mib))()
}

func TestHighIsOfVersion2(t *testing.T) {
	whole := lab.NewGroup(t, lab.Limits{})
	g, err := whole.Child("high", lab.Limits{HighBytes: 32 * mib})
	if whole.Version() == 1 {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		assert.NoDirExists(t, filepath.Join(whole.Dir(), "high"))
		return
	}
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(g.Dir(), "memory.high"))
	require.NoError(t, err)
	assert.Equal(t, "33554432\n", string(text))
}

func TestRemoveEndsWhatIsLeft(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{})
	c, err := g.Child("job", lab.Limits{})
	require.NoError(t, err)
	cmd := holder(t, c, "anon", mib)
	started(t, cmd)
	go func() { _ = cmd.Wait() }()
	require.NoError(t, g.Remove())
	assert.NoDirExists(t, g.Dir())
	require.NoError(t, g.Remove(), "again")
}

func TestCommandIsTheCommand(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{})
	cmd := g.Command(t.Context(), "printf", "%s|", "a b", "$HOME", "'")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "a b|$HOME|'|", string(out))

	var exit *exec.ExitError
	require.ErrorAs(t, g.Command(t.Context(), "sh", "-c", "exit 7").Run(), &exit)
	assert.Equal(t, 7, exit.ExitCode())
	assert.ErrorIs(t, g.Command(t.Context(), "no-such-command").Run(), exec.ErrNotFound)
}
