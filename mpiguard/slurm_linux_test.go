//go:build cgo

package mpiguard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/slurm"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// Whichever way Slurm is asked for memory and the ranks are started, each rank
// knows the limit of its node, where it comes from, and its share of it.
func TestLabSlurmBudgets(t *testing.T) {
	c := lab.Slurm(t, 2)
	lab.NeedMPI(t)
	const (
		mib       = 1 << 20
		jobOrStep = `/job_\d+(/step_\w+)?$`
		anyStep   = `/job_\d+/step_\w+$`
	)
	for _, test := range []struct {
		name string
		argv []string // {} stands for the ranks' program
		// By node: the limit in MiB and the number of ranks.
		limits, ranks []int64
		path          string // of the group that binds, below that of the user
	}{
		{"srun --mem", []string{"srun", "--mem=200M", "-n", "4", "{}"}, []int64{200}, []int64{4}, jobOrStep},
		{"mpirun", []string{"sbatch", "--wait", "--mem=200M", "-N2", "--ntasks-per-node=2", "--wrap", "mpirun {}"},
			[]int64{200, 200}, []int64{2, 2}, jobOrStep},
		{"srun --mem-per-cpu", []string{"srun", "--mem-per-cpu=50M", "-N2", "-n5", "{}"}, []int64{200, 50}, []int64{4, 1}, jobOrStep},
		{"mpirun --mem-per-cpu", []string{"sbatch", "--wait", "--mem-per-cpu=50M", "-N2", "-n5", "--wrap", "mpirun {}"},
			[]int64{200, 50}, []int64{4, 1}, jobOrStep},
		{"step below its job", []string{"sbatch", "--wait", "--mem=200M", "-N1", "-n2", "--wrap", "srun --mem=60M -n2 {}"},
			[]int64{60}, []int64{2}, anyStep},
		{"--mem=0", []string{"srun", "--mem=0", "-n", "2", "{}"}, []int64{slurm.NodeBytes / mib}, []int64{2}, jobOrStep},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			argv := make([]string, len(test.argv))
			for i, a := range test.argv {
				argv[i] = strings.ReplaceAll(a, "{}", os.Args[0])
			}
			cmd := c.Command(t.Context(), argv[0], argv[1:]...)
			cmd.Dir = dir // where a batch job leaves its output
			cmd.Env = append(cmd.Env, rankVariable+"=limits", "MPIGUARD_TEST_DIR="+dir)
			out, err := cmd.CombinedOutput()
			said, _ := filepath.Glob(filepath.Join(dir, "slurm-*.out"))
			for _, name := range said {
				text, _ := os.ReadFile(name)
				out = append(out, text...)
			}
			require.NoError(t, err, "%s", out)

			next := 0
			for node, host := range c.Nodes()[:len(test.limits)] {
				limit, ranks := test.limits[node]*mib, test.ranks[node]
				var first *rankLimits
				for range ranks {
					r := readRankLimits(t, dir, next)
					next++
					if first == nil {
						first = &r
						t.Logf("%s: %d ranks, %s %s: limit %d MiB, share %.1f MiB, headroom %.1f MiB", host, ranks,
							r.Binding.Source, r.Binding.Path, r.LimitBytes/mib, float64(r.ShareBytes)/mib, float64(r.HeadroomBytes)/mib)
					}
					assert.Equal(t, host, r.Host)
					assert.Equal(t, limit, r.LimitBytes)
					assert.Equal(t, limit, r.Binding.LimitBytes)
					assert.Equal(t, mpiguard.KindHard, r.Binding.Kind)
					assert.Regexp(t, `^cgroup v1 memory\.(memsw\.)?limit_in_bytes$`, r.Binding.Source)
					assert.Regexp(t, "^/slurm_"+host+"/uid_0"+test.path, r.Binding.Path)
					assert.EqualValues(t, ranks, r.Binding.Ranks, "that are under it")

					usable := limit - r.KeptFreeBytes
					assert.LessOrEqual(t, r.ShareBytes, usable/ranks)
					assert.Greater(t, r.ShareBytes, (usable-32*mib)/ranks, "but for mpirun and what the ranks share")
					assert.Equal(t, first.ShareBytes, r.ShareBytes, "equal on a node")
					assert.Less(t, r.HeadroomBytes, usable)

					require.Len(t, r.Nodes, len(test.limits))
					for i, n := range r.Nodes {
						assert.Equal(t, c.Nodes()[i], n.Host)
						assert.EqualValues(t, test.ranks[i], n.Ranks)
						assert.Equal(t, test.limits[i]*mib, n.LimitBytes, "of node %d in the survey", i)
					}
				}
			}
			assert.NoFileExists(t, rankLimitsFile(dir, next), "so many ranks and no more")
		})
	}
}
