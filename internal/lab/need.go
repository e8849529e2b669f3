// Package lab lets tests meet the real thing on one machine: cgroup limits with
// the kernel's own kills, mpirun, a virtual machine with cgroup v2 alone, hosts
// that are namespaces, and Slurm. A test that needs what this machine lacks is
// skipped with the reason, and fails where MPIGUARD_LAB=require says that the
// machine is meant to have it all.
package lab

import (
	"os"
	"strings"
	"testing"
)

// Need skips the test with the reason unless ok; where MPIGUARD_LAB=require is
// set it fails the test instead, so that no skip reads as a pass.
func Need(t testing.TB, ok bool, reason string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("MPIGUARD_LAB") == "require":
		t.Fatalf("MPIGUARD_LAB=require: %s", reason)
	default:
		t.Skip(reason)
	}
}

// inLab fails a test that uses a machine, a host or a scheduler of its own and
// is not named so that make test leaves it to make lab.
func inLab(t testing.TB) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestLab") {
		t.Fatal("lab: such a test is named TestLab...")
	}
}
