package lab

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// jobDeadline is far above what any job of a test takes.
const jobDeadline = 4 * time.Minute

// Mpirun runs a job to its end, whatever its exit code. A job that does not end
// by itself fails the test.
func Mpirun(t testing.TB, c mpirun.Config, program string, args ...string) mpirun.Result {
	t.Helper()
	NeedMPI(t)
	ctx, cancel := context.WithTimeout(t.Context(), jobDeadline)
	defer cancel()
	r, err := mpirun.Run(ctx, c, program, args...)
	if err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, r.Stdout, r.Stderr)
	}
	return r
}

// NeedMPI skips the test where there is no mpirun.
func NeedMPI(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath(mpirun.Launcher())
	Need(t, err == nil, "no MPI here: make setup installs it")
}

// Build builds the command in a package of this module, with more flags of go
// build where given, and is the path of the program. It is gone after the test.
func Build(t testing.TB, pkg string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(pkg))
	args := append(append([]string{"build", "-o", program}, flags...), pkg)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return program
}
