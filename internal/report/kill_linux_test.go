package report

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/kernellog"
	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

const (
	rankEnv = "REPORT_TEST_RANK"
	dirEnv  = "REPORT_TEST_DIR"
)

func TestMain(m *testing.M) {
	if rank, err := strconv.Atoi(os.Getenv(rankEnv)); err == nil {
		allocate(rank, os.Getenv(dirEnv))
		return
	}
	os.Exit(m.Run())
}

const (
	killRanks = 4
	killLimit = 96 << 20
)

// allocate is a rank that records itself, allocates until it is killed, and
// knows nothing of limits.
func allocate(rank int, dir string) {
	debug.SetGCPercent(-1)
	g, err := memgroup.Of(os.Getpid())
	if err != nil {
		panic(err)
	}
	boot, _ := procfs.BootID("")
	comm, _ := os.ReadFile("/proc/self/comm")
	h := blackbox.Header{Run: "real", Host: "here", BootID: boot, Program: strings.TrimSpace(string(comm)), Cgroup: g.Path(),
		Rank: rank, Size: killRanks, PID: os.Getpid(), Started: time.Now()}
	w, err := blackbox.Create(dir, h, 0, func(err error) { panic(err) })
	if err != nil {
		panic(err)
	}
	w.Limits(time.Now(), []blackbox.Limit{{Source: "memory limit", Path: g.Path(), Scope: blackbox.ScopeCgroup, ID: 1}})
	var held atomic.Int64
	go func() {
		rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
		var keep [][]byte
		for {
			b := make([]byte, 256<<10)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			keep = append(keep, b)
			held.Add(int64(len(b)))
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
	}()
	fmt.Println("ready")
	self := procfs.OpenSelf("", 0)
	for {
		at := time.Now()
		resident, shared, _ := self.Statm()
		used, _ := g.AnonBytes()
		kills, _ := g.Kills()
		w.Sample(&blackbox.Sample{At: at, AnonBytes: resident - shared, UnaccountedBytes: held.Load(), OOMKills: kills,
			Limits: [blackbox.MaxLimits]blackbox.LimitUse{{LimitBytes: killLimit, UsedBytes: used}}})
		time.Sleep(5 * time.Millisecond)
	}
}

// The kernel kills one of four ranks, a launcher the others a moment later. The
// report says which, where the log can be read, and otherwise nothing that is
// wrong.
func TestRealKills(t *testing.T) {
	jobs := 2
	if os.Getenv("MPIGUARD_LONG") != "" {
		jobs = 10
	}
	_, _, err := kernellog.Read()
	lab.Need(t, err == nil, "reading the kernel's log needs root")
	boot, _ := procfs.BootID("")
	var ages []time.Duration
	known := 0
	for i := range jobs {
		g := lab.NewGroup(t, lab.Limits{MaxBytes: killLimit})
		began := time.Now().Add(-time.Second)
		dir := t.TempDir()
		ranks := make([]*exec.Cmd, killRanks)
		ended := make(chan int, killRanks)
		for rank := range ranks {
			cmd := g.Command(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), rankEnv+"="+strconv.Itoa(rank), dirEnv+"="+dir)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			ranks[rank] = cmd
			go func() { _ = cmd.Wait(); ended <- rank }()
		}
		first := <-ended
		died := time.Now()
		// A launcher takes a while to notice, sometimes longer than a sample does.
		time.Sleep(time.Duration(i%2*30) * time.Millisecond)
		for _, cmd := range ranks {
			if err := cmd.Process.Kill(); err != nil {
				require.ErrorIs(t, err, os.ErrProcessDone)
			}
		}
		for range killRanks - 1 {
			<-ended
		}

		kills, since, err := kernellog.Read()
		require.NoError(t, err)
		// The kernel limits how often it logs the group, never the PID.
		var truth []int
		for _, k := range kills {
			rank := slices.IndexFunc(ranks, func(c *exec.Cmd) bool { return c.Process.Pid == k.PID })
			if rank >= 0 && k.At.After(began) {
				truth = append(truth, rank)
			}
		}
		slices.Sort(truth)
		require.Contains(t, truth, first)
		killed := func(e Evidence) (out []int, n *Node) {
			e.Now, e.BootID = time.Now(), boot
			var c Collection
			for f, err := range blackbox.Files(dir) {
				require.NoError(t, err)
				c.Add(f)
			}
			run := c.Runs(e)[0]
			t.Log(strings.Join(run.Story, "\n"))
			for _, r := range run.Nodes[0].with(OOMKilled) {
				out = append(out, r.Rank)
			}
			slices.Sort(out)
			return out, run.Nodes[0]
		}
		got, n := killed(Evidence{Logs: []Log{{BootID: boot, Since: since, Kills: kills}}})
		assert.Equal(t, truth, got)
		assert.Equal(t, g.Path(), n.Limit.Path)
		assert.Equal(t, int64(killLimit), n.Limit.LimitBytes)
		ages = append(ages, died.Sub(n.Ranks[first].Last.At))

		// Without the log: what is said is true, or nothing is said.
		got, n = killed(Evidence{})
		for _, r := range got {
			assert.Contains(t, truth, r)
		}
		if len(n.Suspects) > 0 {
			assert.Subset(t, n.Suspects, truth[:1])
		}
		known += len(got)
	}
	slices.Sort(ages)
	t.Logf("%d jobs: last sample before the end of the first rank: %v; killed rank told without the log: %d", jobs, ages, known)
}
