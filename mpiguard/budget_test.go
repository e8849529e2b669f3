package mpiguard

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeptFreeBytes(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		limit int64
		cpus  int
		want  int64
	}{
		{0, 2, 8 * mib},
		{4 * mib, 2, 8 * mib},
		{64 * mib, 2, 8 * mib},
		{100 * mib, 2, 8 * mib},
		{200 * mib, 2, 16 * mib},
		{64 * mib, 64, 32 * mib},
		{200 * mib, 64, 32 * mib},
		{25 * gib, 2, 2 * gib},
		{1 << 60, 2, 2 * gib},
		{1 << 60, 8192, 4 * gib}, // what the kernel may not have counted yet is above the ceiling
	} {
		assert.Equal(t, c.want, keptFreeBytes(c.limit, 0.08, c.cpus), "%d, %d CPUs", c.limit, c.cpus)
	}
}

// Unknown, zero and unlimited are three values everywhere.
func TestConstraintHeadroom(t *testing.T) {
	const limit = 1 << 30
	for _, c := range []struct {
		name              string
		limit, used, want int64
	}{
		{"some left", limit, 1 << 20, limit - 85899345 - 1<<20},
		{"nothing used", limit, 0, limit - 85899345},
		{"passed", limit, limit + 1, 0},
		{"usage unknown", limit, UnknownBytes, UnknownBytes},
		{"limit unknown", UnknownBytes, 5, UnknownBytes},
		{"no limit", UnlimitedBytes, 5, UnlimitedBytes},
		{"no limit, usage unknown", UnlimitedBytes, UnknownBytes, UnlimitedBytes},
		{"a limit of zero", 0, 0, 0},
	} {
		assert.Equal(t, c.want, Constraint{LimitBytes: c.limit, UsedBytes: c.used}.HeadroomBytes(0.08), c.name)
	}
}

// For any constraints: the headroom is the least of those that count, the limit
// the smallest, an RLIMIT changes neither, and more constraints never raise them.
func TestBudgetIsTheMinimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() int64 {
		switch rng.IntN(4) {
		case 0:
			return UnlimitedBytes
		case 1:
			return UnknownBytes
		}
		return rng.Int64N(1 << 40)
	}
	for range 2000 {
		b := &Budget{KeepFree: 0.08}
		limit, headroom := b.LimitBytes(), b.HeadroomBytes()
		assert.Equal(t, UnknownBytes, limit)
		assert.Nil(t, b.Binding())
		for range rng.IntN(6) {
			c := Constraint{Scope: Scope(rng.IntN(4)), LimitBytes: value(), UsedBytes: value(), cpus: 2}
			if c.UsedBytes == UnlimitedBytes {
				c.UsedBytes = 0
			}
			b.Constraints = append(b.Constraints, c)
			newLimit, newHeadroom := b.LimitBytes(), b.HeadroomBytes()
			switch {
			case c.Scope == ScopeProcess:
				require.Equal(t, limit, newLimit)
				require.Equal(t, headroom, newHeadroom)
			case limit != UnknownBytes:
				require.LessOrEqual(t, newLimit, limit)
				if headroom != UnknownBytes { // the usage of what binds may be unknown
					require.LessOrEqual(t, newHeadroom, headroom)
				}
			}
			if bind := b.Binding(); bind != nil {
				for _, o := range b.Constraints {
					if o.Scope != ScopeProcess && o.limited() {
						require.LessOrEqual(t, bind.slackBytes(b.KeepFree), o.slackBytes(b.KeepFree))
					}
				}
			}
			limit, headroom = newLimit, newHeadroom
		}
	}
}

// Whatever a directory holds that is called a machine, the answer comes at once
// and in bounded memory.
func TestOddRoots(t *testing.T) {
	names := []string{
		"proc/self/cgroup", "proc/self/mountinfo", "proc/self/status", "proc/self/limits", "proc/self/environ", "proc/meminfo",
		"proc/sys/kernel/random/boot_id", "proc/sys/kernel/hostname", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.stat",
		"sys/fs/cgroup/cgroup.procs", "sys/devices/system/cpu/online", "sys/devices/system/node/has_memory",
	}
	for name, make := range map[string]func(path string) error{
		"empty":       func(string) error { return nil },
		"directories": func(path string) error { return os.Mkdir(path, 0o755) },
		"100 MiB": func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(100 << 20)
		},
		"binary": func(path string) error { return os.WriteFile(path, []byte("\x00\xff\n\n:::\x80- - -"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, n := range names {
				path := filepath.Join(root, n)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, make(path))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b := DetectBudget(Machine{Root: root})
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20))
			assert.Equal(t, UnknownBytes, b.LimitBytes())
			assert.Equal(t, UnknownBytes, b.HeadroomBytes())
			assert.Nil(t, b.Binding())
			assert.Contains(t, b.Explain(), "the budget is unknown")
			assert.NotEmpty(t, b.Notes)
			text, err := json.Marshal(b)
			require.NoError(t, err)
			assert.Contains(t, string(text), `"budget_bytes":null,"headroom_bytes":null,"binding":null`)
		})
	}
	b := DetectBudget(Machine{Root: filepath.Join(t.TempDir(), "missing")})
	assert.Equal(t, UnknownBytes, b.LimitBytes())
}

func TestDetectOwnBudget(t *testing.T) {
	b := DetectBudget(Machine{})
	if runtime.GOOS == "linux" {
		require.NotNil(t, b.Binding(), "\n%s", b.Explain())
		assert.Positive(t, b.LimitBytes())
		ram := b.Constraints[len(b.Constraints)-1]
		assert.Equal(t, "MemTotal", ram.Source)
		assert.Positive(t, ram.UsedBytes)
	}
	assert.Equal(t, UnknownBytes, b.ShareBytes)
}

func BenchmarkDetectBudget(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		DetectBudget(Machine{})
	}
}
