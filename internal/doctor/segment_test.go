package doctor

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func mappedBy(t *testing.T, files ...string) map[FileID]bool {
	mapped := map[FileID]bool{}
	for _, f := range files {
		text, err := os.ReadFile("testdata/" + f)
		require.NoError(t, err)
		parseMaps(string(text), mapped)
	}
	return mapped
}

func TestParseMaps(t *testing.T) {
	shm := func(inode uint64) FileID { return FileID{0, 0x1b, inode} }
	assert.Equal(t, map[FileID]bool{
		shm(6569): true, shm(6570): true, shm(6571): true, shm(6572): true, {0xfe, 0, 10002634}: true,
	}, mappedBy(t, "maps-open-mpi-4.txt"))
	assert.Equal(t, map[FileID]bool{shm(6577): true, shm(6580): true, shm(6583): true}, mappedBy(t, "maps-mpich-4.txt"))

	mapped := map[FileID]bool{}
	parseMaps("\n1-2 rw-s 0 00:1b 1\n1-2 rw-s 0 001b 1 x\n1-2 rw-s 0 00:zz 1 x\n1-2 rw-s 0 00:1b -1 x\n1-2 rw 0 00:1b 1 x\n", mapped)
	assert.Empty(t, mapped, "lines that are none")
}

// The names are those that the libraries were seen to give, or give by their sources.
func TestIsSegment(t *testing.T) {
	for name, want := range map[string]bool{
		"vader_segment.vm.0.d4c0001.0":         true,
		"vader_segment.xf03id-srv5.73dc0001.2": true, // Open MPI 3
		"sm_segment.n1.1000.5f2b0001.17":       true,
		"open_mpi.0003":                        true,
		"osc_sm.n1.5f2b0001.0.3":               true,
		"osc_rdma.n1.5f2b0001.4":               true,
		"mpich_shar_tmpA0iVfv":                 true,
		"Intel_MPI_8xmWzE":                     true,
		"ucx_shm_posix_58e8862c":               true,
		"psm2_shm.10000000000020b010":          true,
		"psm3_shm.10000000000020b010":          true,
		"psm2_hfi_affinity_shm.0":              false, // stays on purpose
		"sem.mp-0ahf3k":                        false,
		"pulse-shm-1":                          false,
		"PostgreSQL.1804289383":                false,
		"vader_segment":                        false,
	} {
		assert.Equal(t, want, isSegment(name), name)
	}
}

func TestStale(t *testing.T) {
	segment := func(inode uint64, uid uint32) Segment {
		return Segment{ID: FileID{0, 0x1b, inode}, UID: uid, HeldBytes: 1}
	}
	lives, dead, deadOfOther := segment(6572, 1000), segment(6575, 1000), segment(6576, 1001)
	all := []Segment{lives, dead, deadOfOther}
	mapped := mappedBy(t, "maps-open-mpi-4.txt")
	for _, c := range []struct {
		name   string
		uid    uint32
		unseen map[uint32]bool
		want   []Segment
	}{
		{"root judges all", 0, nil, []Segment{dead, deadOfOther}},
		{"a user judges its own", 1000, nil, []Segment{dead}},
		{"a user without any", 1002, nil, nil},
		{"a process that cannot be read may map it", 0, map[uint32]bool{1001: true}, []Segment{dead}},
		{"a process of the user cannot be read", 1000, map[uint32]bool{1000: true}, nil},
		{"processes of others cannot be read", 1000, map[uint32]bool{0: true, 1001: true}, []Segment{dead}},
	} {
		assert.Equal(t, c.want, staleOf(all, c.uid, mapped, c.unseen), c.name)
	}
	assert.Len(t, staleOf(all, 0, nil, nil), 3, "nobody maps anything")
}
