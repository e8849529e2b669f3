package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

func TestParseMembership(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Membership
	}{
		{"version 2", "0::/a/b\n", Membership{2, "/a/b", false}},
		{"version 1", "4:memory:/a\n3:cpu:/b\n", Membership{1, "/a", false}},
		{"hybrid", "4:memory:/a\n1:name=systemd:/c\n0::/c\n", Membership{1, "/a", true}},
		{"hybrid in another order", "0::/c\n4:memory:/a\n", Membership{1, "/a", true}},
		{"controllers together", "5:cpu,memory:/a\n", Membership{1, "/a", false}},
		{"a named hierarchy", "5:name=memory:/a\n0::/b\n", Membership{2, "/b", false}},
		{"a longer name", "5:memory2,xmemory:/a\n", Membership{}},
		{"colons and spaces in the path", "4:memory:/a b:c:d\n", Membership{1, "/a b:c:d", false}},
		{"no newline", "0::/a", Membership{2, "/a", false}},
		{"empty", "", Membership{}},
		{"junk", "x\n::\n0::\n4:memory\n:memory:relative\n\n", Membership{}},
		{"a path that no file can have", "0::/" + strings.Repeat("x", 5000) + "\n", Membership{}},
	} {
		assert.Equal(t, c.want, ParseMembership([]byte(c.text)), c.name)
	}
}

func TestParseMounts(t *testing.T) {
	mounts := ParseMounts([]byte(`22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 23 0:26 / /sys/fs/cgroup rw shared:4 master:1 propagate_from:2 - cgroup2 cgroup2 rw
35 31 0:32 /docker/a\040b /my\011cg\134x rw - cgroup cgroup rw,cpuset,memory
36 31 0:33 / /cpu rw - cgroup cgroup rw,cpu
37 31 0:34 / /named rw - cgroup cgroup rw,name=memory
38 31 0:35 / /fuse rw - fuse.lxcfs lxcfs rw,memory
39 31 0:36 / /9p rw - 9p drvfs rw,path=C:\Program Files - cgroup2 x rw
40 31 0:37 / /short rw - cgroup2
41 31 0:38 / /no-separator rw cgroup2 cgroup2 rw
`))
	assert.Equal(t, []Mount{
		{2, "/", "sys/fs/cgroup"},
		{1, "/docker/a b", "my\tcg\\x"},
	}, mounts)
}

func TestMountBelow(t *testing.T) {
	for _, c := range []struct {
		root, group, below string
		sure               bool
	}{
		{"/", "/", "/", true},
		{"/", "/a/b", "/a/b", true},
		{"/a", "/a", "/", true},
		{"/a", "/a/b", "/b", true},
		{"/a", "/ab", "/", false},
		{"/a", "/", "/", false},
		{"/a/b", "/a", "/", false},
		{"/", "/../x", "/x", false},
		{"/", "/..", "/", false},
		{"/..", "/../x", "/x", true},
		{"/a", "/a/../../etc", "/etc", false},
	} {
		below, sure := Mount{Root: c.root}.below(c.group)
		assert.Equal(t, c.below, below, "%s in %s", c.group, c.root)
		assert.Equal(t, c.sure, sure, "%s in %s", c.group, c.root)
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]int64{
		"max\n": UnlimitedBytes, "0\n": 0, "8589934592\n": 8589934592, "4611686018427387903": 1<<62 - 1,
		"4611686018427387904": UnlimitedBytes, "9223372036854771712\n": UnlimitedBytes, "18446744073709551615": UnlimitedBytes,
	} {
		got, err := ParseLimit([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "\n", "-1", "12 34", "max 0", "MAX", "0x10", "1e9", "18446744073709551616", "99999999999999999999999"} {
		got, err := ParseLimit([]byte(text))
		assert.Error(t, err, text)
		assert.Equal(t, UnknownBytes, got, text)
	}
}

func TestParseEvents(t *testing.T) {
	for text, want := range map[string][2]int64{
		"low 0\nhigh 7\nmax 3\noom 1\noom_kill 2\noom_group_kill 1\nsock_throttled 9\n": {7, 2},
		"oom_kill_disable 0\nunder_oom 0\noom_kill 4\n":                                 {0, 4},
		"max 0\n":    {0, 0}, // hugetlb.1GB.events, where a number was expected
		"oom_kill\n": {0, 0},
		"":           {0, 0},
	} {
		throttled, killed := ParseEvents([]byte(text))
		assert.Equal(t, want, [2]int64{throttled, killed}, text)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name   string
		parse  func([]byte) stat
		text   string
		want   Usage
		usable bool
	}{
		{"page cache and reclaimable slab do not count", statV2, "anon 10\nfile 1000\nshmem 0\nslab_reclaimable 500\ninactive_file 900\n", Usage{10, 0}, true},
		{"shared memory does", statV2, "anon 10\nfile 1000\nshmem 700\n", Usage{710, 0}, true},
		{"kernel memory of each row", statV2, "anon 1\nkernel_stack 2\npagetables 4\nsec_pagetables 8\npercpu 16\nvmalloc 32\nsock 64\nshmem 0\nslab_unreclaimable 128\nslab 1000\n", Usage{255, 0}, true},
		{"the sum of kernel memory", statV2, "anon 1\nkernel 1000\nkernel_stack 2\nsock 64\nshmem 0\nslab_reclaimable 300\nslab_unreclaimable 128\n", Usage{765, 0}, true},
		{"hugetlb where the group is charged for it", statV2, "anon 1\nshmem 0\nhugetlb 2097152\n", Usage{2097153, 0}, true},
		{"rows of all groups below", statV1, "rss 1\nshmem 2\nswap 3\ntotal_rss 10\ntotal_shmem 20\ntotal_swap 30\n", Usage{30, 30}, true},
		{"no row of shared memory", statV1, "total_rss 100\ntotal_inactive_anon 600\ntotal_active_anon 200\n", Usage{800, 0}, true},
		{"swap cache is on no list", statV1, "total_rss 100\ntotal_inactive_anon 60\ntotal_active_anon 20\n", Usage{100, 0}, true},
		{"nothing of use", statV2, "file 100\n", Usage{UnknownBytes, UnknownBytes}, false},
		{"empty", statV1, "", Usage{UnknownBytes, UnknownBytes}, false},
		{"rows without numbers", statV2, "anon x\nanon\n anon 5\nanon 5 6\nanon -1\n", Usage{UnknownBytes, UnknownBytes}, false},
		{"numbers that no machine has do not overflow", statV2, "anon 18446744073709551615\nshmem 18446744073709551615\nkernel_stack 18446744073709551615\n", Usage{3 * maxRowBytes, 0}, true},
	} {
		got, ok := c.parse([]byte(c.text)).usage()
		assert.Equal(t, c.want, got, c.name)
		assert.Equal(t, c.usable, ok, c.name)
	}
	assert.Equal(t, UnlimitedBytes, statV1([]byte("hierarchical_memory_limit 9223372036854771712\n")).hierarchicalLimit)
	assert.Equal(t, int64(4096), statV1([]byte("hierarchical_memory_limit 4096\n")).hierarchicalLimit)
}

// corpus adds the files of all machines with the given base name.
func corpus(f *testing.F, names ...string) {
	machines, err := filepath.Glob("testdata/machines/*.txtar")
	if err != nil || len(machines) == 0 {
		f.Fatal("no machines: ", err)
	}
	for _, m := range machines {
		text, err := os.ReadFile(m)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files {
			for _, n := range names {
				if filepath.Base(file.Name) == n {
					f.Add(file.Data)
				}
			}
		}
	}
}

func FuzzParseMembership(f *testing.F) {
	corpus(f, "cgroup")
	f.Fuzz(func(t *testing.T, text []byte) {
		m := ParseMembership(text)
		if m.Version == 0 {
			if m != (Membership{}) {
				t.Fatalf("no version, but %+v", m)
			}
		} else if !strings.HasPrefix(m.Path, "/") || len(m.Path) > maxPathBytes {
			t.Fatalf("path %q", m.Path)
		}
	})
}

func FuzzParseMounts(f *testing.F) {
	corpus(f, "mountinfo")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range ParseMounts(text) {
			if m.Version != 1 && m.Version != 2 || m.Root[0] != '/' || m.Point == "" || m.Point[0] == '/' {
				t.Fatalf("%+v", m)
			}
			for _, group := range []string{"/", "/a", "/../a", m.Root} {
				below, _ := m.below(group)
				if below[0] != '/' || strings.Contains(below+"/", "/../") {
					t.Fatalf("%s leads out of %+v: %s", group, m, below)
				}
			}
		}
	})
}

func FuzzValues(f *testing.F) {
	corpus(f, "memory.max", "memory.high", "memory.limit_in_bytes", "memory.current")
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := ParseLimit(text)
		if err != nil && n != UnknownBytes || err == nil && (n < 0 || n >= noLimit && n != UnlimitedBytes) {
			t.Fatalf("%d, %v", n, err)
		}
		if u, ok := parseUsage(text); ok && (u < 0 || u > maxRowBytes) {
			t.Fatalf("usage %d", u)
		}
	})
}

func FuzzStat(f *testing.F) {
	corpus(f, "memory.stat", "memory.events")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) stat{statV1, statV2} {
			s := parse(text)
			u, ok := s.usage()
			if ok && (u.MemoryBytes < 0 || u.SwapBytes < 0) || !ok && u != unknownUsage {
				t.Fatalf("%+v, %v", u, ok)
			}
			if s.hierarchicalLimit < 0 {
				t.Fatalf("limit %d", s.hierarchicalLimit)
			}
		}
		if throttled, killed := ParseEvents(text); throttled < 0 || killed < 0 || throttled > math.MaxInt64/2 {
			t.Fatal(throttled, killed)
		}
	})
}
