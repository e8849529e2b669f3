package mpiguard

import (
	"context"
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGoLimitFor(t *testing.T) {
	const mib = int64(1) << 20
	for name, c := range map[string]struct {
		held, floor, margin, untouched, headroom int64
		processes                                int
		want                                     int64
	}{
		"what is held, promised and left":                  {100 * mib, 50 * mib, 6 * mib, 20 * mib, 80 * mib, 4, 140 * mib},
		"nothing left":                                     {100 * mib, 50 * mib, 6 * mib, 0, 0, 1, 100 * mib},
		"too much is used: give back":                      {100 * mib, 50 * mib, 6 * mib, 0, -30 * mib, 1, 70 * mib},
		"never below what is live and more":                {100 * mib, 90 * mib, 12 * mib, 0, -90 * mib, 1, 102 * mib},
		"a small heap has a margin too":                    {9 * mib, 8 * mib, mib, 0, -90 * mib, 1, 12 * mib},
		"no limit":                                         {100 * mib, 90 * mib, 12 * mib, 0, UnlimitedBytes, 1, math.MaxInt64},
		"ranks that are not counted are at least this one": {100 * mib, 50 * mib, 6 * mib, 0, 80 * mib, 0, 180 * mib},
	} {
		assert.Equal(t, c.want, goLimitFor(c.held, c.floor, c.margin, c.untouched, c.headroom, c.processes), name)
	}
}

func TestGoLimitIsRestored(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "") // restores it
	unsetenv(t, "GOMEMLIMIT")
	before := debug.SetMemoryLimit(3 << 30)
	defer debug.SetMemoryLimit(before)
	g, err := New(context.Background(), nil, Config{LimitBytes: 1 << 30})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return debug.SetMemoryLimit(-1) < 1<<30 }, waitLong, waitShort)
	require.NoError(t, g.Close())
	assert.Equal(t, int64(3<<30), debug.SetMemoryLimit(-1))

	for _, c := range []struct {
		cfg Config
		env string
	}{{Config{LimitBytes: 1 << 30, KeepGoLimit: true}, ""}, {Config{LimitBytes: 1 << 30}, "off"}, {Config{LimitBytes: 1 << 30}, "5GiB"}} {
		if c.env != "" {
			t.Setenv("GOMEMLIMIT", c.env)
		}
		g, err := New(context.Background(), nil, c.cfg)
		require.NoError(t, err)
		g.proc.mu.Lock()
		assert.Nil(t, g.proc.goLimit, "GOMEMLIMIT=%s", c.env)
		g.proc.mu.Unlock()
		require.NoError(t, g.Close())
		assert.Equal(t, int64(3<<30), debug.SetMemoryLimit(-1))
	}
}
