//go:build linux

// Package hosts makes of one machine several, as far as one MPI job can tell:
// each with a host name, a network interface and a memory limit of its own. The
// kernel, its boot id and its memory are shared, as they are by pods of one node.
package hosts

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// Host is one of them.
type Host struct {
	Name   string
	Slots  int // ranks that it takes
	Limits memgroup.Limits
}

// Cluster is a set of hosts that are up.
type Cluster struct {
	head  *keeper // where mpirun runs: a network alone
	hosts map[string]*host
	dir   string // the agent, the hostfile, and of each host NAME.pid and NAME.procs
}

type host struct {
	*keeper
	group *memgroup.Group
}

// network is the one of all clusters: each has it in a namespace of its own.
const network = "10.99.8.%d/24"

// agent is what mpirun calls in place of ssh: agent HOST COMMAND...
const agent = `#!/bin/sh
at=$(dirname "$0")/$1; shift
echo $$ >"$at.procs" && exec nsenter --target "$(cat "$at.pid")" --net --uts sh -c "$*"
`

// Up brings hosts up. It needs root. Nothing of the hosts outlives this process,
// but for their cgroups: call Down.
func Up(hosts ...Host) (_ *Cluster, err error) {
	c := &Cluster{hosts: map[string]*host{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Down())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "mpiguard-hosts-*"); err != nil {
		return nil, err
	}
	if c.head, err = keep("--net"); err != nil {
		return nil, err
	}
	if err := c.head.run(`ip link add bridge type bridge && ip addr add "$1" dev bridge && ip link set bridge up && ip link set lo up`,
		fmt.Sprintf(network, 254)); err != nil {
		return nil, err
	}
	var hostfile strings.Builder
	for i, h := range hosts {
		if err := c.add(h, i+1); err != nil {
			return nil, err
		}
		fmt.Fprintf(&hostfile, "%s slots=%d\n", h.Name, h.Slots)
	}
	return c, errors.Join(
		os.WriteFile(filepath.Join(c.dir, "agent"), []byte(agent), 0o700),
		os.WriteFile(filepath.Join(c.dir, "hostfile"), []byte(hostfile.String()), 0o600))
}

// add brings up the nth host.
func (c *Cluster) add(h Host, n int) error {
	group, err := memgroup.New("host-"+h.Name, h.Limits)
	if err != nil {
		return err
	}
	up := &host{group: group}
	c.hosts[h.Name] = up
	if up.keeper, err = keep("--net", "--uts"); err != nil {
		return err
	}
	pid := strconv.Itoa(up.pid())
	if err := c.head.run(`ip link add "$1" type veth peer name eth0 netns "$2" && ip link set "$1" master bridge up`,
		"host"+strconv.Itoa(n), pid); err != nil {
		return err
	}
	if err := up.run(`hostname "$1" && ip link set lo up && ip addr add "$2" dev eth0 && ip link set eth0 up`,
		h.Name, fmt.Sprintf(network, n)); err != nil {
		return err
	}
	at := filepath.Join(c.dir, h.Name)
	return errors.Join(
		os.WriteFile(at+".pid", []byte(pid), 0o600),
		os.Symlink(filepath.Join(group.Dir(), "cgroup.procs"), at+".procs"))
}

// Spread makes a job one of these hosts.
func (c *Cluster) Spread(j mpirun.Config) mpirun.Config {
	j.Launcher = c.head.enter("mpirun")
	j.Flags = append(j.Flags,
		"--hostfile", filepath.Join(c.dir, "hostfile"),
		"--mca", "plm_rsh_agent", filepath.Join(c.dir, "agent"), "--mca", "plm_rsh_no_tree_spawn", "1",
		"--mca", "oob_tcp_if_include", fmt.Sprintf(network, 0), "--mca", "btl_tcp_if_include", fmt.Sprintf(network, 0))
	return j
}

// Group is the memory cgroup of a host.
func (c *Cluster) Group(name string) *memgroup.Group { return c.hosts[name].group }

// Run runs a shell script on a host, outside its cgroup; its network interface
// is eth0.
func (c *Cluster) Run(name, script string) error { return c.hosts[name].run(script) }

// Down ends what runs on the hosts and takes them away.
func (c *Cluster) Down() error {
	var errs []error
	for _, h := range c.hosts {
		errs = append(errs, h.group.Remove(), h.keeper.end())
	}
	errs = append(errs, c.head.end())
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// keeper is a process that does nothing but keep namespaces. It ends with its
// standard input, so with this process at the latest.
type keeper struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func keep(namespaces ...string) (*keeper, error) {
	cmd := exec.Command("unshare", append(namespaces, "sh", "-c", "echo; exec cat >/dev/null")...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	k := &keeper{cmd, stdin}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // nothing: unshare failed
		return nil, fmt.Errorf("unshare %v: %w: %s", namespaces, k.end(), stderr.String())
	}
	return k, nil
}

func (k *keeper) pid() int { return k.cmd.Process.Pid }

// enter is the command line of a command in the namespaces.
func (k *keeper) enter(command ...string) []string {
	return append([]string{"nsenter", "--target", strconv.Itoa(k.pid()), "--net", "--uts"}, command...)
}

// run runs a shell script in the namespaces.
func (k *keeper) run(script string, args ...string) error {
	argv := k.enter(append([]string{"sh", "-c", script, "sh"}, args...)...)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// end ends a keeper, which may be nil, and waits for it.
func (k *keeper) end() error {
	if k == nil {
		return nil
	}
	return errors.Join(k.stdin.Close(), k.cmd.Wait())
}
