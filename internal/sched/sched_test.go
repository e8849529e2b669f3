package sched

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/tools/txtar"
)

func TestPerNode(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "4": {4}, "4,1": {4, 1}, "2(x3),1": {2, 2, 2, 1}, "2(x2)": {2, 2}, "0": {0},
		"x": nil, "2(x": nil, "2(x0)": nil, "2(x-1)": nil, "2(x3": nil, ",": nil, "-1": nil, "2(x99999999)": nil, "9999999999": nil,
	} {
		assert.Equal(t, want, perNode(text), text)
	}
}

func TestAt(t *testing.T) {
	assert.Equal(t, 1, at([]int{4, 1}, "1"))
	assert.Equal(t, 0, at([]int{4, 1}, "2"))
	assert.Equal(t, 0, at([]int{4, 1}, ""), "nodes differ and which one this is, is unknown")
	assert.Equal(t, 4, at([]int{4, 4}, ""))
	assert.Equal(t, 0, at(nil, "0"))
	assert.Equal(t, 0, at([]int{4}, "-1"))
}

func TestHostList(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "n1": {"n1"}, "n[1-3]": {"n1", "n2", "n3"}, "n[1-2,07],gpu3": {"n1", "n2", "n07", "gpu3"},
		"n[08-11]": {"n08", "n09", "n10", "n11"}, "a,b[1],c": {"a", "b1", "c"},
		"n[1-": nil, "n[3-1]": nil, "n[x]": nil, "n[1]b[2]": nil, "n[1-99999999]": nil, "n[]": nil,
	} {
		assert.Equal(t, want, hostList(text), text)
	}
}

func TestLocalRanks(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    []string
		ranks  int
		source string
	}{
		{"Open MPI", []string{"OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=4", "SLURM_STEP_TASKS_PER_NODE=1", "SLURM_NODEID=0"}, 4, "OMPI_COMM_WORLD_LOCAL_SIZE"},
		{"Hydra", []string{"MPI_LOCALNRANKS=3", "SLURM_TASKS_PER_NODE=1"}, 3, "MPI_LOCALNRANKS"},
		{"srun", []string{"PMIX_RANK=4", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=4,1"}, 1, "SLURM_STEP_TASKS_PER_NODE"},
		{"srun, uneven", []string{"SLURM_NODEID=3", "SLURM_STEP_TASKS_PER_NODE=2(x3),1"}, 1, "SLURM_STEP_TASKS_PER_NODE"},
		{"Slurm's are wrong under mpirun", []string{"OMPI_COMM_WORLD_SIZE=8", "SLURM_TASKS_PER_NODE=1", "SLURM_NTASKS_PER_NODE=1"}, 0, ""},
		{"uneven, and the node is unknown", []string{"SLURM_TASKS_PER_NODE=4,1"}, 0, ""},
		{"junk", []string{"OMPI_COMM_WORLD_LOCAL_SIZE=four", "MPI_LOCALNRANKS=-1", "SLURM_NTASKS_PER_NODE=1e9"}, 0, ""},
		{"none", nil, 0, ""},
	} {
		job := Detect(c.env, "n1")
		assert.Equal(t, c.ranks, job.Ranks, c.name)
		assert.Equal(t, c.source, job.RanksSource, c.name)
	}
}

func TestSizeText(t *testing.T) {
	for text, want := range map[string]int64{
		"64000": 64000 << 20, "4000.5": 4000<<20 + 1<<19, "16gb": 16 << 30, "16G": 16 << 30, "2T": 2 << 40, "100kb": 100 << 10, "7b": 7, "0": 0,
	} {
		got, ok := sizeText(text, 1<<20)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-1", "lots", "1.2.3", "5q", "99999999999999999999", "1e30", "NaN", "Inf", "5 gw"} {
		_, ok := sizeText(text, 1<<20)
		assert.False(t, ok, text)
	}
}

// What is fit to be shown gives the same answer and names no host.
func TestPortable(t *testing.T) {
	for _, environ := range [][]string{
		{"SLURM_MEM_PER_CPU=50", "SLURM_JOB_NODELIST=secret[1-2]", "SLURM_JOB_CPUS_PER_NODE=4,1", "SLURMD_NODENAME=secret2", "SLURM_CPUS_ON_NODE=9"},
		{"SLURM_MEM_PER_CPU=50", "SLURM_JOB_NODELIST=secret[1-2]", "SLURM_JOB_CPUS_PER_NODE=4,1", "SLURM_CPUS_ON_NODE=9"},
		{"LSB_MCPU_HOSTS=secret1 2 secret2.example 4", "LSB_EFFECTIVE_RSRCREQ=select[hname!=secret1] rusage[mem=100/task]"},
		{"SLURM_MEM_PER_NODE=200", "OMPI_COMM_WORLD_LOCAL_SIZE=4", "AWS_SECRET_ACCESS_KEY=secret", "SLURM_JOB_USER=secret"},
	} {
		portable := Portable(environ, "secret2.example", "node")
		assert.Equal(t, Detect(environ, "secret2.example"), Detect(portable, "node"), "%q", portable)
		assert.NotContains(t, strings.Join(portable, " "), "secret")
		assert.NotEmpty(t, Detect(portable, "node").Limits)
	}
}

func TestLongValuesAreJunk(t *testing.T) {
	assert.Empty(t, Detect([]string{"SLURM_MEM_PER_NODE=" + strings.Repeat("9", 1<<20)}, "n1"))
}

func FuzzDetect(f *testing.F) {
	machines, _ := filepath.Glob("testdata/*.txtar")
	if len(machines) == 0 {
		f.Fatal("no machines")
	}
	for _, m := range machines {
		text, err := os.ReadFile(m)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files {
			if file.Name == "environ" {
				f.Add(string(file.Data), "n1")
			}
		}
	}
	f.Fuzz(func(t *testing.T, text, host string) {
		job := Detect(strings.Split(text, "\n"), host)
		for _, l := range job.Limits {
			if l.Bytes <= 0 || l.Bytes > maxBytes || l.Source == "" {
				t.Fatalf("%+v", l)
			}
		}
		if job.Ranks < 0 || job.Ranks > maxCount || (job.Ranks == 0) != (job.RanksSource == "") {
			t.Fatalf("%+v", job)
		}
		if slices.ContainsFunc(job.Notes, func(n string) bool { return len(n) > 200 }) {
			t.Fatal(job.Notes)
		}
	})
}
