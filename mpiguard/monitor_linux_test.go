package mpiguard

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/lab/vm"
)

// sleeper starts a process in a group that does nothing, and returns its pid.
// The script runs before.
func sleeper(t testing.TB, g *memgroup.Group, script string) int {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := g.Command(ctx, "sh", "-c", script+"; echo ready; exec sleep 600")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd.Process.Pid
}

// hardLimit is the constraint of a group's hard limit.
func hardLimit(t testing.TB, b *Budget, path string) Constraint {
	for _, c := range b.Constraints {
		if c.Scope == ScopeCgroup && c.Kind == KindHard && c.Path == path && !strings.Contains(c.Source, "memsw") {
			return c
		}
	}
	require.Fail(t, "no such group", "%s in\n%s", path, b.Explain())
	return Constraint{}
}

func TestLimitTwoLevelsUp(t *testing.T) {
	const limit = 300 << 20
	g := lab.NewGroup(t, lab.Limits{MaxBytes: limit})
	child, err := g.Child("job", lab.Limits{})
	require.NoError(t, err)
	leaf, err := child.Child("rank", lab.Limits{})
	require.NoError(t, err)
	pid := sleeper(t, leaf, "true")

	b := DetectBudget(Machine{PID: pid})
	require.NotNil(t, b.Binding())
	assert.Equal(t, g.Path(), b.Binding().Path)
	assert.Equal(t, KindHard, b.Binding().Kind)
	assert.Equal(t, int64(limit), b.LimitBytes())
	assert.Contains(t, b.Explain(), g.Path()+" binds", "the sentence names the group")
	assert.Equal(t, UnlimitedBytes, hardLimit(t, b, child.Path()).LimitBytes)
	assert.Equal(t, leaf.Path(), b.Constraints[0].Path, "the own group comes first")
	used := hardLimit(t, b, g.Path()).UsedBytes
	assert.Positive(t, used)
	assert.Equal(t, limit-keptFreeBytes(limit, b.KeepFree, thisHost().cpus)-used, b.HeadroomBytes())
}

func TestRefreshSeesChanges(t *testing.T) {
	const mib = 1 << 20
	a := lab.NewGroup(t, lab.Limits{MaxBytes: 256 * mib})
	pid := sleeper(t, a, "true")
	m := openMonitor(Machine{PID: pid}, defaultKeepFree, 0)
	defer m.close()

	b, changed := m.refresh()
	assert.True(t, changed, "the first one")
	id := hardLimit(t, b, a.Path()).id
	_, changed = m.refresh()
	assert.False(t, changed)

	for _, limit := range []int64{512 * mib, 64 * mib, 1024 * mib} {
		require.NoError(t, a.SetMaxBytes(limit))
		b, changed = m.refresh()
		assert.True(t, changed, "%d", limit)
		assert.Equal(t, limit, b.LimitBytes())
		assert.Equal(t, id, hardLimit(t, b, a.Path()).id, "still the same group")
		_, changed = m.refresh()
		assert.False(t, changed)
	}

	other := lab.NewGroup(t, lab.Limits{MaxBytes: 128 * mib})
	join := func(g *memgroup.Group) {
		require.NoError(t, os.WriteFile(filepath.Join(g.Dir(), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644))
	}
	join(other)
	b, changed = m.refresh()
	assert.True(t, changed, "the process was moved")
	assert.Equal(t, int64(128*mib), b.LimitBytes())
	assert.NotEqual(t, id, hardLimit(t, b, other.Path()).id)

	// A group of the same name is another group.
	parent := lab.NewGroup(t, lab.Limits{})
	inner, err := parent.Child("same", lab.Limits{MaxBytes: 32 * mib})
	require.NoError(t, err)
	join(inner)
	b, _ = m.refresh()
	first := hardLimit(t, b, inner.Path()).id
	join(other)
	require.NoError(t, os.Remove(inner.Dir()))
	inner, err = parent.Child("same", lab.Limits{MaxBytes: 48 * mib})
	require.NoError(t, err)
	join(inner)
	b, changed = m.refresh()
	assert.True(t, changed)
	assert.Equal(t, int64(48*mib), b.LimitBytes())
	assert.NotEqual(t, first, hardLimit(t, b, inner.Path()).id)
	join(a)
	require.NoError(t, os.Remove(inner.Dir()))
}

// A sample does not allocate, and what is cheap to read is never below what
// really counts.
func TestSampleAgreesWithRefresh(t *testing.T) {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: 512 << 20})
	file := filepath.Join(t.TempDir(), "cached")
	pid := sleeper(t, g, "dd if=/dev/zero of="+file+" bs=1M count=50 status=none")
	m := openMonitor(Machine{PID: pid}, defaultKeepFree, 0)
	defer m.close()
	b, _ := m.refresh()
	used := make([]int64, len(b.Constraints))

	m.sample(used, true)
	for i, c := range b.Constraints {
		switch {
		case c.LimitBytes == UnlimitedBytes:
			assert.Equal(t, UnknownBytes, used[i], c.label())
		case c.Scope == ScopeCgroup:
			assert.InDelta(t, c.UsedBytes, used[i], 1<<20, c.label())
			assert.Less(t, used[i], int64(40<<20), "page cache does not count")
		}
	}
	fresh := append([]int64(nil), used...)
	m.sample(used, false)
	for i, c := range b.Constraints {
		if c.Scope == ScopeCgroup && c.LimitBytes != UnlimitedBytes {
			assert.GreaterOrEqual(t, used[i], fresh[i]-(1<<20), c.label())
			assert.GreaterOrEqual(t, used[i], int64(50<<20), "an upper bound counts page cache")
		}
	}
	assert.Zero(t, testing.AllocsPerRun(20, func() { m.sample(used, true) }))
	assert.Zero(t, testing.AllocsPerRun(20, func() { m.sample(used, false) }))

	// Near the limit an upper bound would be an alarm.
	require.NoError(t, g.SetMaxBytes(60<<20))
	m.refresh()
	m.sample(used, false)
	for i, c := range m.last.Constraints {
		if c.Scope == ScopeCgroup && c.LimitBytes != UnlimitedBytes {
			assert.Less(t, used[i], int64(40<<20), c.label())
		}
	}
}

func TestKillsAreCounted(t *testing.T) {
	const limit = 32 << 20
	g := lab.NewGroup(t, lab.Limits{MaxBytes: limit})
	pid := sleeper(t, g, "true")
	m := openMonitor(Machine{PID: pid}, defaultKeepFree, 0)
	defer m.close()
	b, _ := m.refresh()
	before := hardLimit(t, b, g.Path()).Killed
	err := g.Command(context.Background(), "sh", "-c", "x=$(head -c 200000000 /dev/zero | tr '\\0' x)").Run()
	require.Error(t, err, "it passed the limit")
	b, changed := m.refresh()
	assert.False(t, changed)
	assert.Greater(t, hardLimit(t, b, g.Path()).Killed, before)
	assert.Contains(t, b.Explain(), "killed for memory")
}

// RLIMITs are those of the process, not ours; they are read again on refresh
// and never bind.
func TestLimitsOfAnotherProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "ulimit -v 1000000; echo ready; exec sleep 600")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	m := openMonitor(Machine{PID: cmd.Process.Pid}, defaultKeepFree, 0)
	defer m.close()
	b, _ := m.refresh()
	as := b.Constraints[len(b.Constraints)-3]
	require.Equal(t, "RLIMIT_AS", as.Source)
	assert.Equal(t, int64(1_000_000<<10), as.LimitBytes)
	assert.Positive(t, as.UsedBytes)
	assert.NotEqual(t, "RLIMIT_AS", b.Binding().Source)
	assert.Zero(t, as.id, "no other process shares it")

	require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: 512 << 20, Max: 1_000_000 << 10}, nil))
	b, changed := m.refresh()
	assert.True(t, changed)
	assert.Equal(t, int64(512<<20), b.Constraints[len(b.Constraints)-3].LimitBytes)
}

// A limit file that was replaced by nothing keeps its last value, and a limit
// that changes in place is seen (in-place resize of a pod).
func TestLimitFileComesAndGoes(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("proc/self/cgroup", "0::/\n")
	write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50000000 kB\n")
	write("sys/fs/cgroup/memory.stat", "anon 1000000\nfile 0\nshmem 0\n")
	write("sys/fs/cgroup/memory.max", "536870912\n")
	m := openMonitor(Machine{Root: root}, defaultKeepFree, 0)
	defer m.close()
	for _, step := range []struct {
		text string
		want int64
	}{
		{"536870912", 512 << 20}, {"268435456", 256 << 20}, {"1073741824", 1 << 30}, {"max", UnlimitedBytes}, {"junk", UnlimitedBytes},
		{"268435456", 256 << 20},
	} {
		write("sys/fs/cgroup/memory.max", step.text)
		b, _ := m.refresh()
		assert.Equal(t, step.want, b.Constraints[0].LimitBytes, step.text)
	}
	require.NoError(t, os.Remove(filepath.Join(root, "sys/fs/cgroup/memory.max")))
	b, changed := m.refresh()
	assert.Equal(t, int64(256<<20), b.Constraints[0].LimitBytes)
	assert.False(t, changed)
	write("sys/fs/cgroup/memory.stat", "anon 300000000\nfile 0\nshmem 0\n")
	b, _ = m.refresh()
	assert.Zero(t, b.HeadroomBytes(), "more is used than the limit allows")
}

// Denied reads are unknown, one note each, and stop nothing.
func TestDeniedReads(t *testing.T) {
	if dir := os.Getenv("MPIGUARD_TEST_DENIED"); dir != "" {
		b := DetectBudget(Machine{Root: dir})
		fmt.Println(b.Constraints[0].LimitBytes, b.LimitBytes(), len(b.notes()))
		for _, n := range b.notes() {
			fmt.Println(n)
		}
		g, err := New(t.Context(), nil, Config{machine: Machine{Root: dir}})
		require.NoError(t, err, "a guard starts")
		require.NoError(t, g.Close())
		return
	}
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(root), 0o755))
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		require.NoError(t, os.Chmod(path, mode))
	}
	write("proc/self/cgroup", "0::/\n", 0o644)
	write("proc/self/environ", "", 0)
	write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 50000000 kB\n", 0o644)
	write("sys/fs/cgroup/memory.max", "536870912\n", 0)
	write("sys/fs/cgroup/memory.high", "268435456\n", 0o644)
	write("sys/fs/cgroup/memory.stat", "anon 1000000\n", 0)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeniedReads$")
	cmd.Env = append(os.Environ(), "MPIGUARD_TEST_DENIED="+root)
	if os.Getuid() == 0 { // root may read everything
		self := filepath.Join(root, "test")
		text, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(self, text, 0o755))
		cmd.Path, cmd.Dir = self, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	lines := strings.Split(string(out), "\n")
	assert.True(t, strings.HasPrefix(lines[0], fmt.Sprintf("%d %d ", UnknownBytes, 256<<20)), "%s", out)
	assert.Contains(t, string(out), "memory.max: permission denied")
	assert.Contains(t, string(out), "memory.stat: permission denied")
	assert.Equal(t, 1, strings.Count(string(out), "memory.max: permission denied"), "said once")
}

// memory.high below memory.max, a threaded group, and a group to which memory
// was not handed down, which version 2 alone has.
func TestGroupsOfVersion2(t *testing.T) {
	const high, limit = 128 << 20, 256 << 20
	g := lab.NewGroup(t, lab.Limits{})
	if g.Version() != 2 {
		t.Skip("memory is on cgroup v1 here: TestLabMonitorOnVersion2 runs this in a virtual machine")
	}
	top, err := g.Child("job", lab.Limits{MaxBytes: limit, HighBytes: high})
	require.NoError(t, err)
	leaf, err := top.Child("rank", lab.Limits{})
	require.NoError(t, err)
	pid := sleeper(t, leaf, "head -c 200000000 /dev/zero > "+filepath.Join(t.TempDir(), "cached"))

	b := DetectBudget(Machine{PID: pid})
	require.NotNil(t, b.Binding())
	assert.Equal(t, "cgroup v2 memory.high", b.Binding().Source)
	assert.Equal(t, top.Path(), b.Binding().Path)
	assert.Equal(t, KindSoft, b.Binding().Kind)
	assert.Equal(t, int64(high), b.LimitBytes())
	assert.Equal(t, int64(limit), hardLimit(t, b, top.Path()).LimitBytes)
	assert.Positive(t, b.Binding().Throttled, "page cache passed the limit")
	assert.Zero(t, b.Binding().Killed)
	assert.Contains(t, b.Explain(), "throttled")
	assert.Less(t, b.Binding().UsedBytes, int64(high/2), "page cache does not count")

	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(leaf.Dir(), name), []byte(text), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(leaf.Dir(), "threads"), 0o755))
	write("threads/cgroup.type", "threaded")
	write("threads/cgroup.threads", strconv.Itoa(pid))
	b = DetectBudget(Machine{PID: pid})
	assert.Equal(t, leaf.Path(), b.Constraints[0].Path)
	assert.Equal(t, int64(high), b.LimitBytes())
	assert.Contains(t, strings.Join(b.Notes, "\n"), "threads is a threaded group")

	write("cgroup.threads", strconv.Itoa(pid))
	require.NoError(t, os.Remove(filepath.Join(leaf.Dir(), "threads")))

	plain, err := g.Child("plain", lab.Limits{MaxBytes: limit})
	require.NoError(t, err)
	sub := filepath.Join(plain.Dir(), "sub")
	require.NoError(t, os.Mkdir(sub, 0o755))
	other := sleeper(t, plain, "true")
	require.NoError(t, os.WriteFile(filepath.Join(sub, "cgroup.procs"), []byte(strconv.Itoa(other)), 0o644))
	b = DetectBudget(Machine{PID: other})
	assert.Equal(t, plain.Path(), b.Constraints[0].Path)
	assert.Equal(t, int64(limit), b.LimitBytes())
	assert.Contains(t, strings.Join(b.Notes, "\n"), "memory controller not available at "+plain.Path()+"/sub")
}

// The tests of real groups once more, with cgroup v2 alone.
func TestLabMonitorOnVersion2(t *testing.T) {
	r := lab.VM(t, vm.Config{}, os.Args[0], "-test.v",
		"-test.run=^(TestLimitTwoLevelsUp|TestRefreshSeesChanges|TestSampleAgreesWithRefresh|TestKillsAreCounted|TestGroupsOfVersion2)$")
	assert.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	assert.Equal(t, 5, strings.Count(r.Stdout, "--- PASS"), "%s%s", r.Stdout, r.Stderr)
}

// The cost of one limited level, beside the bare reads of what it needs.
func BenchmarkMonitor(b *testing.B) {
	g := lab.NewGroup(b, lab.Limits{MaxBytes: 4 << 30})
	pid := sleeper(b, g, "true")
	m := openMonitor(Machine{PID: pid}, defaultKeepFree, 0)
	defer m.close()
	m.refresh()
	used := make([]int64, len(m.last.Constraints))
	level := 0
	for level < len(m.rows) && m.rows[level].group == m.rows[0].group {
		level++
	}
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
	run("refresh", func() { m.refresh() })
	run("sample", func() { m.sample(used, false) })
	run("sample/full", func() { m.sample(used, true) })
	run("level", func() { m.sample(used[:level], false) })
	run("level/full", func() { m.sample(used[:level], true) })
	bare := func(name, file string) {
		f, err := os.Open(filepath.Join(g.Dir(), file))
		require.NoError(b, err)
		defer f.Close()
		run(name, func() { unix.Pread(int(f.Fd()), m.buf[:], 0) })
	}
	usage := "memory.current"
	if g.Version() == 1 {
		usage = "memory.usage_in_bytes"
	}
	bare("bare/usage", usage)
	bare("bare/stat", "memory.stat")
}
