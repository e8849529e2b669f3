package mpiguard_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// A rank that a launcher with a big footprint starts has a peak of its own, where
// ru_maxrss shows the launcher's.
func TestPeakIsNotThatOfTheLauncher(t *testing.T) {
	const launcher = 400 << 20
	if os.Getenv("MPIGUARD_TEST_PEAK") != "" {
		g, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
		require.NoError(t, err)
		defer g.Close()
		var r unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &r))
		resident(t, 64<<20)
		fmt.Println("peaks", g.Usage().PeakBytes, int64(r.Maxrss)<<10)
		return
	}
	resident(t, launcher)
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeakIsNotThatOfTheLauncher$")
	cmd.Env = append(os.Environ(), "MPIGUARD_TEST_PEAK=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var peak, maxrss int64
	_, err = fmt.Sscanf(string(out), "peaks %d %d", &peak, &maxrss)
	require.NoError(t, err, "%s", out)
	assert.GreaterOrEqual(t, maxrss, int64(launcher), "else this test shows nothing")
	assert.Greater(t, peak, int64(64<<20))
	assert.Less(t, peak, int64(launcher/2))
	t.Logf("peak %d MiB, ru_maxrss %d MiB", peak>>20, maxrss>>20)
}

// resident maps memory that is resident until the end of the test.
func resident(t *testing.T, bytes int) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
}
