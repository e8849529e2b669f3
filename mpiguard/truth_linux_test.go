package mpiguard_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// The headroom that a rank saw last before the kernel killed it, with what is
// kept free added, is what the limit still had: nothing, within 2 % of the
// limit. Anything else would be a guard that says there is room where there is
// none, or that stops a job which has room.
func TestHeadroomIsTrueAtTheKill(t *testing.T) {
	const limit = 200 << 20
	for _, c := range []struct {
		memory string
		ranks  int
		cache  bool // the group is full of page cache
	}{
		{"go", 1, false}, {"go", 4, false}, {"go", 8, false},
		{"go", 1, true}, {"go", 4, true},
		{"mmap", 1, false}, {"mmap", 4, true},
		{"shared", 1, false}, {"shared", 4, false},
	} {
		t.Run(fmt.Sprintf("%s/%d/cache=%v", c.memory, c.ranks, c.cache), func(t *testing.T) {
			g := lab.NewGroup(t, lab.Limits{MaxBytes: limit})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if c.cache {
				file := filepath.Join(t.TempDir(), "cached")
				require.NoError(t, os.WriteFile(file, make([]byte, 2*limit), 0o600))
				dropCache(t, file)
				require.NoError(t, g.Command(ctx, "cat", file).Run())
				used, err := g.UsageBytes()
				require.NoError(t, err)
				require.Greater(t, used, int64(limit*9/10), "the group is full of page cache")
			}
			// With several ranks the kernel chooses the largest, which need not have
			// sampled last: what any of them saw before the first end counts.
			var seen least
			var ranks sync.WaitGroup
			for range c.ranks {
				cmd := g.Command(ctx, os.Args[0], "-test.run=^TestHeadroomIsTrueAtTheKill$")
				cmd.Env = append(os.Environ(), "MPIGUARD_TEST_ALLOCATE="+c.memory)
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				ranks.Go(func() {
					for s := bufio.NewScanner(out); s.Scan(); {
						if n, err := strconv.ParseInt(s.Text(), 10, 64); err == nil { // the last line may be torn
							seen.take(n)
						}
					}
					seen.end()
					cancel()
					assert.ErrorContains(t, cmd.Wait(), "signal: killed")
				})
			}
			ranks.Wait()
			left := seen.value
			kills, err := g.Kills()
			require.NoError(t, err)
			require.Positive(t, kills, "the kernel killed")
			assert.InDelta(t, 0, float64(left)/limit, 0.02)
			t.Logf("left at the kill: %.2f %% of the limit", 100*float64(left)/limit)
		})
	}
}

// least is the smallest number taken before the end.
type least struct {
	mu           sync.Mutex
	value        int64
	taken, ended bool
}

func (l *least) take(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended && (!l.taken || n < l.value) {
		l.value, l.taken = n, true
	}
}

func (l *least) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// dropCache makes the pages of the file clean and nobody's, so that who reads
// it next is charged for them.
func dropCache(t *testing.T, file string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

func TestMain(m *testing.M) {
	if kind := os.Getenv("MPIGUARD_TEST_ALLOCATE"); kind != "" {
		allocateUntilKilled(kind)
	}
	if os.Getenv("MPIGUARD_TEST_SURVIVE") != "" {
		os.Exit(survive())
	}
	if kind := os.Getenv("MPIGUARD_TEST_RANK"); kind != "" {
		os.Exit(rank(kind))
	}
	if kind := os.Getenv("MPIGUARD_TEST_GOLIMIT"); kind != "" {
		os.Exit(churn(kind))
	}
	os.Exit(m.Run())
}

// allocateUntilKilled touches more and more memory of a kind and prints, after
// each step, what the guard says is left of the limit.
func allocateUntilKilled(kind string) {
	const step = 64 << 10
	g, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
	if err != nil {
		panic(err)
	}
	var keep [][]byte
	for {
		var b []byte
		switch kind {
		case "go":
			b = make([]byte, step)
		case "mmap":
			b, err = unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		case "shared":
			b, err = unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_SHARED)
		}
		if err != nil {
			panic(err)
		}
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		keep = append(keep, b)
		s, err := g.Survey(context.Background())
		if err != nil {
			panic(err)
		}
		fmt.Println(s.Ranks[0].LimitBytes - s.Ranks[0].UsedBytes)
	}
}
