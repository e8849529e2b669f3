//go:build linux

package lab

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/mpiguard/mpiguard/internal/lab/hosts"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
)

// Hosts brings up hosts for a test; Spread runs a job on them.
func Hosts(t testing.TB, of ...hosts.Host) *hosts.Cluster {
	t.Helper()
	inLab(t)
	NeedMPI(t)
	_, err := exec.LookPath("ip")
	Need(t, os.Getuid() == 0 && err == nil, "hosts are made as root, with ip (package iproute2)")
	c, err := hosts.Up(of...)
	if errors.Is(err, memgroup.ErrUnavailable) {
		Need(t, false, err.Error())
	}
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
