//go:build linux

package lab

import (
	"testing"

	"github.com/mpiguard/mpiguard/internal/lab/slurm"
)

// Slurm brings up a cluster of so many nodes for a test.
func Slurm(t testing.TB, nodes int) *slurm.Cluster {
	t.Helper()
	inLab(t)
	if err := slurm.Ready(); err != nil {
		Need(t, false, "no Slurm here, make setup-lab installs it: "+err.Error())
	}
	c, err := slurm.Up(t.Context(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return c
}
