package memgroup

import (
	"context"
	"os/exec"
	"path/filepath"
)

// Command is exec.CommandContext of a process that is in g from its first
// instruction on.
func (g *Group) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	g.Enclose(cmd)
	return cmd
}

// Enclose makes cmd, which was not started yet, start inside g. A shell moves
// itself and becomes the command, since v1 has no other way to start a process
// in a group.
func (g *Group) Enclose(cmd *exec.Cmd) {
	const enter = `echo $$ >"$0" && exec "$@"`
	cmd.Args = append([]string{"sh", "-c", enter, filepath.Join(g.Dir(), "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}
