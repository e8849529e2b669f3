package procfs

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStatm(t *testing.T) {
	m, ok := ParseStatm([]byte("315 47 43 5 0 90 0\n"))
	assert.True(t, ok)
	assert.Equal(t, Statm{315, 47, 43}, m)
	for _, text := range []string{"", "1 2", "1 2 x", "-1 2 3", "99999999999999999999 1 1", "9999999999999999 1 1"} {
		_, ok := ParseStatm([]byte(text))
		assert.False(t, ok, text)
	}
}

func TestParseStatus(t *testing.T) {
	text := "Name:\tRssAnon: 5 kB\nVmSize:\t    3060 kB\nVmHWM:\t    1788 kB\nRssAnon:\t     116 kB\nRssFile:\t    1672 kB\nRssShmem:\t       0 kB\nVmData:\t     360 kB\nVmData:\t     999 kB\nMems_allowed:\t1\nMems_allowed_list:\t0-1,3\n"
	assert.Equal(t, Status{116 << 10, 1672 << 10, 0, 1788 << 10, 3060 << 10, 360 << 10}, ParseStatus([]byte(text)))
	assert.Equal(t, "0-1,3", string(memsAllowed([]byte(text))))

	// Sandboxes show a part, and some lines are none of ours.
	s := ParseStatus([]byte(":\n\nVmSize:\t 12 kB\nRssAnon: x kB\nRssFile: 5\nRssShmem: 99999999999999999999 kB\n"))
	assert.Equal(t, Status{-1, -1, -1, -1, 12 << 10, -1}, s)
	assert.Equal(t, unknownStatus, ParseStatus(nil))
	assert.Nil(t, memsAllowed(nil))
}

func TestParseStartTime(t *testing.T) {
	for _, name := range []string{"cat", "a b", "a) R 9 (b"} {
		ticks, ok := ParseStartTime([]byte("57 (" + name + ") R 1 57 57 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0\n"))
		assert.True(t, ok)
		assert.Equal(t, uint64(4242), ticks, name)
	}
	for _, text := range []string{"", "57 (cat) R 1", "57 cat R 1 57 57 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242"} {
		_, ok := ParseStartTime([]byte(text))
		assert.False(t, ok, text)
	}
}

func TestMeminfo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Memory
		ok         bool
	}{
		{"available", "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 60 kB\n", Memory{100 << 10, 40 << 10, 0}, true},
		{"pools of all sizes", "MemTotal: 100 kB\nMemAvailable: 60 kB\nHugePages_Total: 1\nHugepagesize: 2 kB\nHugetlb: 30 kB\n", Memory{70 << 10, 10 << 10, 30 << 10}, true},
		{"the pool of the default size", "MemTotal: 100 kB\nMemAvailable: 60 kB\nHugePages_Total: 10\nHugepagesize: 2 kB\n", Memory{80 << 10, 20 << 10, 20 << 10}, true},
		{"before MemAvailable", "MemTotal: 100 kB\nMemFree: 10 kB\nActive(file): 20 kB\nInactive(file): 5 kB\nSReclaimable: 8 kB\n", Memory{100 << 10, 61 << 10, 0}, true},
		{"more available than there is", "MemTotal: 100 kB\nMemAvailable: 160 kB\n", Memory{100 << 10, 0, 0}, true},
		{"a NUMA node", "Node 12 MemTotal: 100 kB\nNode 12 MemFree: 10 kB\nNode 12 Active(file): 20 kB\nNode 12 Inactive(file): 5 kB\n", Memory{100 << 10, 65 << 10, 0}, true},
		{"a pool larger than all", "MemTotal: 100 kB\nMemAvailable: 60 kB\nHugetlb: 300 kB\n", Memory{-1, -1, -1}, false},
		{"a pool that overflows", "MemTotal: 100 kB\nMemAvailable: 60 kB\nHugePages_Total: 1000000000000000\nHugepagesize: 1000000000000000 kB\n", Memory{100 << 10, 40 << 10, 0}, true},
		{"nothing available", "MemTotal: 100 kB\nMemFree: 10 kB\n", Memory{-1, -1, -1}, false},
		{"no total", "MemAvailable: 100 kB\n", Memory{-1, -1, -1}, false},
		{"empty", "", Memory{-1, -1, -1}, false},
	} {
		info := ParseMeminfo([]byte(c.text))
		got, ok := info.Memory(info.HugePageBytes)
		assert.Equal(t, c.want, got, c.name)
		assert.Equal(t, c.ok, ok, c.name)
	}
}

func TestParseLimits(t *testing.T) {
	head := "Limit                     Soft Limit           Hard Limit           Units     \n"
	l := ParseLimits([]byte(head + "Max data size             1048576              unlimited            bytes     \nMax address space         unlimited            unlimited            bytes     \n"))
	assert.Equal(t, Limits{AddressSpaceBytes: UnlimitedBytes, DataBytes: 1 << 20}, l)
	assert.Equal(t, Limits{UnknownBytes, UnknownBytes}, ParseLimits(nil))
	assert.Equal(t, Limits{UnknownBytes, 0}, ParseLimits([]byte("Max data size 0\nMax address space x\n")))
}

func TestParseList(t *testing.T) {
	for text, want := range map[string][]int{
		"0\n": {0}, "0-3,8": {0, 1, 2, 3, 8}, "8,0-1,1": {0, 1, 8}, "": nil, "x": nil, "3-1": nil, "-1": nil, "1-": nil, "0-99999999": nil, "0,,1": nil,
	} {
		assert.Equal(t, want, ParseList([]byte(text)), text)
	}
}

func TestSelf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc on " + runtime.GOOS)
	}
	s := OpenSelf("", 0)
	defer s.Close()
	b := make([]byte, 32<<20)
	for i := range b {
		b[i] = 1
	}
	resident, shared, err := s.Statm()
	require.NoError(t, err)
	status, err := s.Status()
	require.NoError(t, err)
	assert.Greater(t, resident-shared, int64(32<<20))
	assert.InDelta(t, resident, status.RssAnonBytes+status.RssFileBytes+status.RssShmemBytes, 4<<20)
	assert.GreaterOrEqual(t, status.HWMBytes, status.RssAnonBytes)
	assert.Greater(t, status.VmSizeBytes, status.VmDataBytes)
	assert.Greater(t, status.VmDataBytes, int64(32<<20))
	runtime.KeepAlive(b)
	mems, err := s.MemsAllowed()
	require.NoError(t, err)
	assert.NotEmpty(t, mems)
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Statm() }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { s.Status() }))

	boot, err := BootID("")
	require.NoError(t, err)
	assert.Len(t, boot, 36)
	self, err := StartTime("", 0)
	require.NoError(t, err)
	again, err := StartTime("", os.Getpid())
	require.NoError(t, err)
	assert.Equal(t, self, again)
	assert.NotZero(t, self)

	limits, err := os.ReadFile("/proc/self/limits")
	require.NoError(t, err)
	assert.Equal(t, ParseLimits(limits), OwnLimits(), "the kernel says the same in both ways")

	total, free := RAM()
	meminfo, err := os.ReadFile("/proc/meminfo")
	require.NoError(t, err)
	info := ParseMeminfo(meminfo)
	assert.Equal(t, info.TotalBytes, total)
	assert.Less(t, free, total)
}

func TestSelfOfTree(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "proc/57"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/57/statm"), []byte("315 47 43 5 0 90 0\n"), 0o644))
	s := OpenSelf(dir, 57)
	resident, shared, err := s.Statm()
	require.NoError(t, err)
	assert.Equal(t, int64(47*os.Getpagesize()), resident)
	assert.Equal(t, int64(43*os.Getpagesize()), shared)
	status, err := s.Status()
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, unknownStatus, status)
	_, err = BootID(dir)
	assert.Error(t, err)
	_, err = StartTime(dir, 57)
	assert.Error(t, err)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/57/statm"), []byte("junk"), 0o644))
	_, _, err = s.Statm()
	assert.ErrorContains(t, err, "junk")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "proc/57/statm"), []byte(strings.Repeat("1 ", 1<<20)), 0o644))
	_, _, err = s.Statm()
	assert.Error(t, err)
	s.Close()
	_, _, err = s.Statm()
	assert.ErrorIs(t, err, os.ErrClosed)
	s.Close()
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"/proc/self/status", "/proc/self/statm", "/proc/self/stat", "/proc/self/limits", "/proc/meminfo"} {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("Node 0 MemTotal: 100 kB\nNode 0 MemFree: 10 kB\n"))
	f.Add([]byte("0-3,8"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := ParseStatus(text)
		for _, n := range []int64{s.RssAnonBytes, s.RssFileBytes, s.RssShmemBytes, s.HWMBytes, s.VmSizeBytes, s.VmDataBytes} {
			if n < -1 {
				t.Fatalf("%+v", s)
			}
		}
		if m, ok := ParseStatm(text); ok && (m.ResidentPages < 0 || m.SharedPages < 0 || m.ResidentPages > math.MaxInt64/65536) {
			t.Fatalf("%+v", m)
		}
		info := ParseMeminfo(text)
		if m, ok := info.Memory(info.HugePageBytes); ok && (m.TotalBytes < 0 || m.UsedBytes < 0 || m.UsedBytes > m.TotalBytes || m.PoolBytes < 0) {
			t.Fatalf("%+v of %+v", m, info)
		}
		if l := ParseLimits(text); l.AddressSpaceBytes < -1 || l.DataBytes < -1 {
			t.Fatalf("%+v", l)
		}
		if list := ParseList(text); len(list) > maxListed {
			t.Fatal(len(list))
		}
		ParseStartTime(text)
		memsAllowed(text)
	})
}

func BenchmarkStatm(b *testing.B) {
	s := OpenSelf("", 0)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s.Statm()
	}
}

func BenchmarkStatus(b *testing.B) {
	s := OpenSelf("", 0)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s.Status()
	}
}
