//go:build linux

// Command leftovers runs a command and fails if that leaves anything on the
// machine:
//
//	leftovers COMMAND [ARGUMENT...]
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/mpiguard/mpiguard/internal/lab/leftovers"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: leftovers COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	left, err := leftovers.Run(cmd)
	for _, thing := range left {
		fmt.Fprintln(os.Stderr, "left behind:", thing)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, "leftovers:", err)
		os.Exit(1)
	case len(left) > 0:
		os.Exit(1)
	}
}
