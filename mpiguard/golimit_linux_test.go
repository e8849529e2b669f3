package mpiguard_test

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// A program with much memory outside the Go heap lives with the guard's limit
// for the Go heap where it is killed with 90 % of the cgroup's limit, which is
// what is recommended to those who cannot see that memory.
func TestGoLimitSeesMemoryOutsideTheHeap(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector takes a multiple of the memory; the run without it is the one that counts")
	}
	for _, c := range []struct{ limit, want string }{{"cgroup", "signal: killed"}, {"guard", ""}} {
		t.Run(c.limit, func(t *testing.T) {
			g := lab.NewGroup(t, lab.Limits{MaxBytes: churnLimit})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := g.Command(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), "MPIGUARD_TEST_GOLIMIT="+c.limit)
			out, err := cmd.CombinedOutput()
			if c.want == "" {
				require.NoError(t, err, "%s", out)
			} else {
				require.EqualError(t, err, c.want)
			}
			kills, err := g.Kills()
			require.NoError(t, err)
			assert.Equal(t, c.want != "", kills > 0)
			t.Logf("%s", out)
		})
	}
}

const churnLimit = 512 << 20

var live [][]byte // of a package, so that the compiler does not drop it

// churn holds 150 MiB outside the Go heap and 240 MiB in it, and makes garbage.
func churn(kind string) int {
	if kind == "cgroup" {
		debug.SetMemoryLimit(churnLimit * 9 / 10)
	} else {
		g, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer g.Close()
	}
	outside, err := unix.Mmap(-1, 0, 150<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for i := 0; i < len(outside); i += os.Getpagesize() {
		outside[i] = 1
	}
	live = make([][]byte, 240)
	start := time.Now()
	for i := range 3000 {
		b := make([]byte, 1<<20)
		for k := 0; k < len(b); k += os.Getpagesize() {
			b[k] = 1
		}
		live[i%len(live)] = b
	}
	fmt.Printf("finished in %v, Go limit %d MiB\n", time.Since(start).Round(time.Millisecond), debug.SetMemoryLimit(-1)>>20)
	return 0
}
