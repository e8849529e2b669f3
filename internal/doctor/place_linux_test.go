package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// tree writes files below a root of their own.
func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return root
}

// mapsLine is how /proc/PID/maps shows a file that is mapped with others.
func mapsLine(t *testing.T, name string) string {
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(name, &st))
	return fmt.Sprintf("7f0000000000-7f0000400000 rw-s 00000000 %02x:%02x %d   %s\n", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, name)
}

func TestLook(t *testing.T) {
	process := func(group, name string, anonKB int) map[string]string {
		return map[string]string{"cgroup": "4:memory:" + group + "\n0::/\n", "comm": name + "\n",
			"status": fmt.Sprintf("Name:\t%s\nRssAnon:\t%d kB\n", name, anonKB), "maps": ""}
	}
	files := map[string]string{
		"dev/shm/vader_segment.n1.0.d4c0001.0":    strings.Repeat("x", 5000),
		"dev/shm/vader_segment.n1.0.d4c0001.1":    strings.Repeat("x", 5000),
		"dev/shm/vader_segment.n1.0.5aa20001.0":   strings.Repeat("x", 5000),
		"dev/shm/mpich_shar_tmpA0iVfv":            "x",
		"dev/shm/sem.other":                       "x",
		"dev/shm/vader_segment.n1.0.dir/anything": "x",
		"scratch/file":                            "",
		"sys/class/infiniband/mlx5_0/x":           "",
		"etc/hosts":                               "10.0.0.1 n1\n",
		"etc/nsswitch.conf":                       "hosts: files\n",
		"proc/self/cgroup":                        "4:memory:/job/step\n0::/\n",
		"proc/meminfo":                            "",
	}
	for pid, p := range map[string]map[string]string{
		"10": process("/job/step", "rank", 100), "11": process("/job/step", "rank", 100),
		"12": process("/job/step", "orted", 2048), "13": process("/job/step/below", "sh", 100), "14": process("/job/step", "sh", 300),
		"15": process("/job/stepson", "other", 100), "16": process("/", "init", 100),
		"17": {"cgroup": "0::/job/step\n"}, // in another hierarchy
		"1":  {"status": "RssShmem:\t8 kB\n"},
	} {
		for name, text := range p {
			files["proc/"+pid+"/"+name] = text
		}
	}
	root := tree(t, files)
	segment := root + "/dev/shm/vader_segment.n1.0.d4c0001."
	maps := mapsLine(t, segment+"0") + mapsLine(t, segment+"1")
	for _, pid := range []string{"10", "11"} {
		require.NoError(t, os.WriteFile(root+"/proc/"+pid+"/maps", []byte(maps), 0o600))
	}
	require.NoError(t, os.WriteFile(root+"/proc/17/maps", nil, 0o600))

	p := Look(root, Query{Environ: []string{"TMPDIR=/scratch"}, Host: "n1", Hosts: []string{"n1", "n2"}, Group: "/job/step", PIDs: []int{10, 11}})
	assert.Equal(t, 2, p.Stale.Count, "that of another job, and MPICH's")
	assert.GreaterOrEqual(t, p.Stale.HeldBytes, Bytes(5001))
	assert.Equal(t, Helpers{"/job/step", 3, 2448 << 10, []string{"orted", "sh"}}, p.Helpers)
	assert.Equal(t, []string{"mlx5_0"}, p.RDMA)
	assert.Equal(t, []string{"n2"}, p.Unresolved)
	assert.Empty(t, p.Misresolved)
	for path, fs := range map[string]FileSystem{"/dev/shm": p.Shm, "/scratch": p.Session} {
		assert.Equal(t, path, fs.Path)
		assert.True(t, 0 < fs.FreeBytes && fs.FreeBytes <= fs.SizeBytes, "%+v", fs)
	}
	assert.Len(t, (&machine{root: root}).list("dev/shm"), 6, "nothing was removed")

	// The group of a container that is the root of what it sees.
	assert.Equal(t, 6, Look(root, Query{Group: "/", PIDs: []int{16}}).Helpers.Count)

	// A process that does not show what it maps may map anything of its user, if
	// it shares memory at all.
	require.NoError(t, os.Remove(root+"/proc/15/maps"))
	for status, want := range map[string]int{"RssShmem:\t0 kB\n": 2, "RssShmem:\t4 kB\n": 0, "": 0} {
		require.NoError(t, os.WriteFile(root+"/proc/15/status", []byte(status), 0o600))
		assert.Equal(t, want, Look(root, Query{}).Stale.Count, status)
	}
	assert.Equal(t, Helpers{Names: []string{}}, Look(root, Query{}).Helpers, "no group has a limit")
}

func TestLookAtNothing(t *testing.T) {
	p := Look(t.TempDir(), Query{Host: "n1", Hosts: []string{"n1"}, Group: "/job"})
	assert.Equal(t, Place{
		Shm:         FileSystem{"/dev/shm", UnknownBytes, UnknownBytes},
		Session:     FileSystem{"/tmp", UnknownBytes, UnknownBytes},
		Stale:       Segments{-1, UnknownBytes},
		Helpers:     Helpers{Group: "/job", Names: []string{}},
		RDMA:        []string{},
		Unresolved:  []string{"n1"}, // no file, no server
		Misresolved: []string{},
	}, p)
}

// A segment in use is not stale, one that nobody maps is.
func TestStaleHere(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "vader_segment.test.*")
	if err != nil {
		t.Skip("no /dev/shm: ", err)
	}
	defer f.Close()
	defer os.Remove(f.Name())
	require.NoError(t, f.Truncate(1<<16))
	stale := func() bool {
		m := &machine{fsys: kernfs.New("")}
		mapped, unseen, ok := m.mappings()
		require.True(t, ok)
		for _, s := range staleOf(m.segments(), ownUID(), mapped, unseen) {
			if strings.HasSuffix(f.Name(), s.Name) {
				return true
			}
		}
		return false
	}
	require.True(t, stale())
	memory, err := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	assert.False(t, stale())
	require.NoError(t, unix.Munmap(memory))
	assert.True(t, stale())
}

func TestLimits(t *testing.T) {
	text, err := os.ReadFile("/proc/self/limits")
	require.NoError(t, err)
	said := func(name string) string {
		_, rest, ok := strings.Cut(string(text), "\n"+name)
		require.True(t, ok)
		return strings.Fields(rest)[0]
	}
	locked, openFiles := Limits()
	assert.Equal(t, said("Max open files"), fmt.Sprint(openFiles))
	if want := said("Max locked memory"); want == "unlimited" {
		assert.Equal(t, UnlimitedBytes, locked)
	} else {
		assert.Equal(t, want, fmt.Sprint(int64(locked)))
	}
}

func TestSessionDir(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{nil, "/tmp"},
		{[]string{"TMP=/c", "TMPDIR=/a"}, "/a"},
		{[]string{"TMPDIR=", "TMP=/c"}, "/c"},
		{[]string{"TMPDIR=/a", "OMPI_MCA_orte_tmpdir_base=/b"}, "/b"},
	} {
		assert.Equal(t, c.want, sessionDir(c.environ))
	}
}

func TestBounded(t *testing.T) {
	assert.Equal(t, []string{}, bounded(nil))
	assert.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7", "8", "and 2 more"}, bounded(strings.Fields("1 2 3 4 5 6 7 8 9 10")))
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/maps-open-mpi-4.txt", "/proc/self/maps", "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"} {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		mapped := map[FileID]bool{}
		parseMaps(text, mapped)
		if len(mapped) > strings.Count(text, "\n")+1 {
			t.Fatal(mapped)
		}
		unresolved, misresolved := parseNames(text, text, text).check("a", []string{"a", "b"})
		if len(unresolved)+len(misresolved) > 2 {
			t.Fatal(unresolved, misresolved)
		}
	})
}
