package mpiguard_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// A survivor learns within a second or so that the kernel killed a neighbour in
// its cgroup; kills from before its time are none of its job's.
func TestSurvivorSeesKill(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 100 << 20})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before := g.Command(ctx, os.Args[0])
	before.Env = append(os.Environ(), "MPIGUARD_TEST_ALLOCATE=mmap")
	require.EqualError(t, before.Run(), "signal: killed")

	cmd := g.Command(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "MPIGUARD_TEST_SURVIVE=1", "MPIGUARD_LOG=warn")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "kills 0 then 1, level critical: the kernel killed a process of the cgroup for memory")
	assert.Contains(t, string(out), "the kernel killed processes for memory")
}

func survive() int {
	g, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer g.Close()
	kills := g.Stats().OOMKills
	reasons := make(chan string, 16)
	g.OnLevel(func(t mpiguard.Transition) {
		if t.To == mpiguard.Critical {
			reasons <- t.Reason
		}
	})
	hog := exec.Command(os.Args[0])
	hog.Env = append(os.Environ(), "MPIGUARD_TEST_SURVIVE=", "MPIGUARD_TEST_ALLOCATE=mmap")
	_ = hog.Run() // it is killed
	late := time.After(5 * time.Second)
	for { // it was critical for its use before
		select {
		case reason := <-reasons:
			if strings.Contains(reason, "killed") {
				fmt.Printf("kills %d then %d, level critical: %s\n", kills, g.Stats().OOMKills, reason)
				return 0
			}
		case <-late:
			return 1
		}
	}
}
