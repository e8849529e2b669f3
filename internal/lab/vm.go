//go:build linux

package lab

import (
	"context"
	"testing"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/vm"
)

// machineDeadline is for a machine and what runs in it, both emulated.
const machineDeadline = 9 * time.Minute

// VM runs a command in a virtual machine of its own, whatever its exit code. A
// machine that does not finish fails the test, and is not tried again.
func VM(t testing.TB, c vm.Config, command string, args ...string) vm.Result {
	t.Helper()
	inLab(t)
	if err := vm.Ready(); err != nil {
		Need(t, false, "no virtual machine here, make setup-lab prepares it: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), machineDeadline)
	defer cancel()
	r, err := vm.Run(ctx, c, command, args...)
	if err != nil {
		t.Fatalf("%v\nstdout:\n%s\nstderr:\n%s", err, r.Stdout, r.Stderr)
	}
	return r
}
