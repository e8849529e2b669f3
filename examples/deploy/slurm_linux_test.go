package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
)

// The batch scripts run on a Slurm of two nodes.
func TestLabSlurmScripts(t *testing.T) {
	c := lab.Slurm(t, 2)
	lab.NeedMPI(t)
	dir := t.TempDir()
	for _, pkg := range []string{"../csvstats", "../../mpiguard/cmd/mpiguard"} {
		require.NoError(t, os.Rename(lab.Build(t, pkg), filepath.Join(dir, filepath.Base(pkg))))
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "csvstats"), "-generate", "64MiB", "-seed", "1", filepath.Join(dir, "input")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for script, want := range map[string]string{
		"mpirun.sbatch": "all 8 ranks closed their guards",
		"srun.sbatch":   "all 8 ranks closed their guards",
	} {
		t.Run(script, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("slurm", script))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, script), text, 0o700))
			log := filepath.Join(dir, script+".out")
			cmd := c.Command(t.Context(), "sbatch", "--wait", "--output", log, script, "input")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			said, _ := os.ReadFile(log)
			require.NoError(t, err, "%s%s", out, said)
			assert.Contains(t, string(said), want)
		})
	}
}
