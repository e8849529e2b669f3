package doctor

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const openMPI = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"

// healthy is a report of two nodes with two ranks each and nothing to find.
func healthy() *Report {
	r := &Report{Links: []Link{{Nodes: [2]int{0, 1}, LatencySeconds: 12e-6, BytesPerSecond: 3 << 30}}}
	for i, host := range []string{"n1", "n2"} {
		r.Nodes = append(r.Nodes, Node{
			Host:   host,
			Memory: Memory{200 << 20, 30 << 20, 150 << 20, "cgroup v1 memory.limit_in_bytes /job"},
			Place: Place{
				Shm:     FileSystem{"/dev/shm", 1 << 30, 1 << 30},
				Session: FileSystem{"/tmp", 10 << 30, 5 << 30},
				Stale:   Segments{0, 0},
				Helpers: Helpers{"/job", 1, 4 << 20, []string{"orted"}},
			},
		})
		for rank := 2 * i; rank < 2*i+2; rank++ {
			r.Ranks = append(r.Ranks, Rank{
				Rank: rank, Node: i, Memory: r.Nodes[i].Memory, ShareBytes: 75 << 20,
				SaidRanks: 2, SaidBy: "OMPI_COMM_WORLD_LOCAL_SIZE",
				LockedBytes: 64 << 10, OpenFiles: 1024, Library: openMPI, ThreadLevel: "MPI_THREAD_SINGLE",
			})
		}
	}
	return r
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(r *Report)
		want []Finding
	}{
		"healthy": {func(*Report) {}, nil},
		"another MPI on one rank": {
			func(r *Report) { r.Ranks[2].Library = "MPICH Version:    \t4.0.2\nMPICH Release date:\tThu Apr  7\n" },
			[]Finding{{Failure, []string{}, "the ranks run different MPI libraries: Open MPI v4.1.4 on ranks 0-1,3; MPICH 4.0.2 on rank 2"}},
		},
		"another build of the same MPI": {
			func(r *Report) { r.Ranks[3].Library = "Open MPI v4.1.4, package: by hand" },
			[]Finding{{Failure, []string{}, `the ranks run different MPI libraries: "` + openMPI + `" on ranks 0-2; "Open MPI v4.1.4, package: by hand" on rank 3`}},
		},
		"thread levels": {
			func(r *Report) { r.Ranks[3].ThreadLevel = "MPI_THREAD_MULTIPLE" },
			[]Finding{{Warning, []string{}, "the ranks run with different thread levels: MPI_THREAD_SINGLE on ranks 0-2; MPI_THREAD_MULTIPLE on rank 3"}},
		},
		"each rank alone": {
			func(r *Report) {
				*r = Report{Ranks: r.Ranks[:1], Nodes: r.Nodes[:1]}
				r.Ranks[0].SaidRanks, r.Ranks[0].SaidBy = 4, "MPI_LOCALNRANKS"
			},
			[]Finding{{Failure, []string{}, "MPI_LOCALNRANKS says 4 ranks, and each is alone: the launcher is not that of Open MPI v4.1.4, with which this program was built"}},
		},
		"variables that are wrong": {
			func(r *Report) {
				for i := range r.Ranks {
					r.Ranks[i].SaidRanks, r.Ranks[i].SaidBy = 4, "SLURM_TASKS_PER_NODE"
				}
			},
			[]Finding{{Warning, []string{"n1", "n2"}, "SLURM_TASKS_PER_NODE says 4 ranks on this node, and there are 2: do not divide by it"}},
		},
		"no variable says anything": {
			func(r *Report) {
				for i := range r.Ranks {
					r.Ranks[i].SaidRanks, r.Ranks[i].SaidBy = 0, ""
				}
			}, nil,
		},
		"no headroom for MPI": {
			func(r *Report) { r.Nodes[1].HeadroomBytes = 20 << 20 },
			[]Finding{{Warning, []string{"n2"}, "the headroom, 20 MiB under cgroup v1 memory.limit_in_bytes /job, is less than what 2 ranks take for MPI itself, some 32 MiB"}},
		},
		"helpers that take much": {
			func(r *Report) { r.Nodes[0].Helpers = Helpers{"/job", 2, 40 << 20, []string{"python3", "orted"}} },
			[]Finding{{Warning, []string{"n1"}, "40 MiB of the limit of /job are taken by 2 processes beside the ranks: python3, orted"}},
		},
		"Docker's /dev/shm": {
			func(r *Report) { r.Nodes[1].Shm = FileSystem{"/dev/shm", 64 << 20, 64 << 20} },
			[]Finding{{Warning, []string{"n2"}, "/dev/shm has 64 MiB free of 64 MiB, and 2 ranks may need 128 MiB: a rank dies of SIGBUS when it is full (docker run --shm-size, a memory-backed emptyDir)"}},
		},
		"a full session directory": {
			func(r *Report) { r.Nodes[1].Session.FreeBytes = 1 << 20 },
			[]Finding{{Warning, []string{"n2"}, "/tmp, where the launcher keeps its files, has 1.0 MiB free (TMPDIR says another place)"}},
		},
		"segments of dead owners": {
			func(r *Report) { r.Nodes[0].Stale, r.Nodes[1].Stale = Segments{3, 8 << 20}, Segments{3, 8 << 20} },
			[]Finding{{Warning, []string{"n1", "n2"}, "8.0 MiB of /dev/shm are taken by 3 segments that MPI jobs have left behind"}},
		},
		"segments unknown": {func(r *Report) { r.Nodes[0].Stale = Segments{-1, UnknownBytes} }, nil},
		"ulimit -l 64 with RDMA": {
			func(r *Report) { r.Nodes[0].RDMA = []string{"mlx5_0"} },
			[]Finding{{Warning, []string{"n1"}, "the limit on locked memory is 64 KiB, and mlx5_0 needs it to be large: RDMA will fail, or fall back to what is slower (ulimit -l unlimited)"}},
		},
		"ulimit -l unlimited with RDMA": {
			func(r *Report) {
				r.Nodes[0].RDMA = []string{"mlx5_0"}
				r.Ranks[0].LockedBytes, r.Ranks[1].LockedBytes = UnlimitedBytes, UnlimitedBytes
			}, nil,
		},
		"few open files": {
			func(r *Report) { r.Ranks[1].OpenFiles = 256 },
			[]Finding{{Warning, []string{"n1"}, "the limit on open files is 256: 4 ranks over TCP may need 260 (ulimit -n)"}},
		},
		"open files unknown": {func(r *Report) { r.Ranks[1].OpenFiles = -1 }, nil},
		"names": {
			func(r *Report) { r.Nodes[0].Unresolved, r.Nodes[1].Misresolved = []string{"n1", "n2"}, []string{"n1"} },
			[]Finding{
				{Warning, []string{"n1"}, "host names that do not resolve: n1, n2"},
				{Warning, []string{"n2"}, "/etc/hosts has loopback addresses for other hosts: n1"},
			},
		},
		"what is unknown or unlimited is not wrong": {
			func(r *Report) {
				for i := range r.Nodes {
					r.Nodes[i].Memory = unlimited
					r.Nodes[i].Shm, r.Nodes[i].Session = FileSystem{"", -1, -1}, FileSystem{"", -1, -1}
				}
				r.Ranks[0].LockedBytes = UnknownBytes
			}, nil,
		},
		"errors come first": {
			func(r *Report) {
				r.Nodes[0].Stale = Segments{1, 4 << 20}
				*r = Report{Nodes: r.Nodes, Ranks: r.Ranks, Silent: []Silent{{3, "", "within 20s at the start"}}, Err: errors.New("it broke")}
			},
			[]Finding{
				{Failure, []string{}, "rank 3 did not answer within 20s at the start: it is stopped, or cannot be reached"},
				{Failure, []string{}, "it broke"},
				{Warning, []string{"n1"}, "4.0 MiB of /dev/shm are taken by 1 segment that MPI jobs have left behind"},
			},
		},
	} {
		r := healthy()
		c.harm(r)
		assert.Equal(t, c.want, r.Findings(), name)
	}
}

func TestWorst(t *testing.T) {
	_, ok := Worst(nil)
	assert.False(t, ok)
	worst, ok := Worst([]Finding{{Severity: Warning}, {Severity: Failure}, {Severity: Warning}})
	assert.True(t, ok)
	assert.Equal(t, Failure, worst)
}

var update = flag.Bool("update", false, "rewrite testdata")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	name = "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "go test -update writes it anew")
}

func TestText(t *testing.T) {
	golden(t, "healthy.txt", healthy().Text())

	r := healthy()
	r.Nodes = append(r.Nodes, r.Nodes[1])
	r.Nodes[2].Host = "n3"
	r.Nodes[2].Notes = []string{"hybrid host: memory is a controller of cgroup v1"}
	r.Nodes[1].Notes = r.Nodes[2].Notes
	r.Nodes[2].Helpers, r.Nodes[2].Stale = Helpers{}, Segments{2, 5 << 20}
	r.Nodes[0].Stale = Segments{-1, UnknownBytes}
	last := r.Ranks[3]
	last.Rank, last.Node, last.SaidRanks, last.OpenFiles, last.LockedBytes = 4, 2, 0, -1, UnlimitedBytes
	r.Ranks = append(r.Ranks, last)
	r.Links = append(r.Links, Link{Nodes: [2]int{0, 2}, LatencySeconds: 2e-3, BytesPerSecond: 1 << 20},
		Link{Nodes: [2]int{1, 2}, LatencySeconds: 3e-3, BytesPerSecond: 1 << 20})
	golden(t, "unwell.txt", r.Text())

	silent := &Report{Silent: []Silent{{Rank: 3, Host: "n2", When: "within 20s at the start"}}}
	golden(t, "silent.txt", silent.Text())
}

func TestJSON(t *testing.T) {
	r := healthy()
	r.Nodes[0].Stale.Count = 1
	text, err := json.MarshalIndent(r, "", "  ")
	require.NoError(t, err)
	golden(t, "report.json", string(text)+"\n")

	text, err = json.Marshal(&Report{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"ranks":[],"nodes":[],"links":[],"network":[],"silent":[],"findings":[]}`, string(text))
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"": nil, "4": {4}, "0-1": {0, 1}, "0-3,5,7-8": {0, 1, 2, 3, 5, 7, 8}} {
		assert.Equal(t, want, ranges(numbers))
	}
}

func TestUnits(t *testing.T) {
	var texts []string
	for _, s := range []float64{1.26e-6, 150e-6, 0.9996e-3, 0.2, 12} {
		texts = append(texts, seconds(s))
	}
	assert.Equal(t, "1.3 µs, 150 µs, 1000 µs, 200 ms, 12 s", strings.Join(texts, ", "))
	assert.Equal(t, []string{"1 process", "2 processes", "0 ranks"}, []string{count(1, "process"), count(2, "process"), count(0, "rank")})
	assert.Equal(t, "n1, n2: ", on([]string{"n1", "n2"}))
	assert.Equal(t, "1, 2, 3, 4, 5, 6, 7, 8, and 1 more: ", on(slices.Sorted(slices.Values(strings.Fields("1 2 3 4 5 6 7 8 9")))))
}
