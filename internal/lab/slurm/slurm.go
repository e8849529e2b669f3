//go:build linux

// Package slurm runs real Slurm with several nodes on one machine, as root and
// without systemd: each slurmd has a host name of its own, limits are enforced by
// task/cgroup on cgroup v1, and all traffic is on the loopback interface.
package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

// What each node says it has. Memory is not checked against the machine's.
const (
	NodeCPUs  = 4
	NodeBytes = 4000 << 20
)

// patience is for daemons to come up and for jobs to end.
const patience = 20 * time.Second

// Cluster is a Slurm that is up.
type Cluster struct {
	dir     string
	nodes   []node
	daemons []*daemon
}

type node struct {
	Name string
	Port int
}

// Ready is nil where Up can work, and otherwise says why it cannot.
func Ready() error {
	for _, program := range []string{"munged", "slurmctld", "slurmd", "srun", "unshare"} {
		if _, err := lookPath(program); err != nil {
			return err
		}
	}
	g, err := memgroup.Of(os.Getpid())
	switch {
	case err != nil:
		return err
	case g.Version() != 1:
		return errors.New("the memory controller is on cgroup v2, where Slurm wants systemd")
	case os.Getuid() != 0:
		return errors.New("not root")
	}
	return nil
}

// Up brings a cluster up. Its daemons end with this process, at the latest.
func Up(ctx context.Context, nodes int) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Down())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "slurm-*"); err != nil {
		return nil, err
	}
	// slurmd has a socket for each step, SPOOL/NODE_JOB.STEP, and cuts its path off.
	const longest = len(syscall.RawSockaddrUnix{}.Path) - len("/p1234567n1/p1234567n1_1234.4294967295") - 1
	if len(c.dir) > longest {
		return nil, fmt.Errorf("slurm: the temporary folder %s has more than %d bytes", c.dir, longest)
	}
	if err := os.Chmod(c.dir, 0o755); err != nil { // munge wants its socket to be reached by all
		return nil, err
	}
	ports, err := freePorts(nodes + 1)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		// The name is that of a cgroup too, so that it has to be unique here.
		c.nodes = append(c.nodes, node{fmt.Sprintf("p%dn%d", os.Getpid(), i+1), ports[i+1]})
	}
	if err := c.configure(ports[0]); err != nil {
		return nil, err
	}
	if err := c.start(ctx, `munged --foreground --force --socket="$1/munge" --key-file="$1/key" --log-file="$1/munged.log" --pid-file="$1/munged.pid" --seed-file="$1/seed"`); err != nil {
		return nil, err
	}
	if err := c.wait(ctx, "munge", func() bool { return exists(filepath.Join(c.dir, "munge")) }); err != nil {
		return nil, err
	}
	if err := c.start(ctx, `slurmctld -D -c`); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if err := c.start(ctx, `unshare --uts --mount --propagation private sh -c '
			hostname "$2" && mount --bind "$1/hosts" /etc/hosts && exec slurmd -D -N "$2"' sh "$@"`, n.Name); err != nil {
			return nil, err
		}
	}
	return c, c.wait(ctx, "idle nodes", func() bool {
		out, err := c.Command(ctx, "sinfo", "-h", "-N", "-t", "idle", "-o", "%N").Output()
		return err == nil && len(strings.Fields(string(out))) == nodes
	})
}

// Nodes are the names of the nodes.
func (c *Cluster) Nodes() []string {
	var names []string
	for _, n := range c.nodes {
		names = append(names, n.Name)
	}
	return names
}

// Command is a command of Slurm (srun, sbatch, ...), or one that calls such.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), mpirun.Environ()...), "SLURM_CONF="+filepath.Join(c.dir, "slurm.conf"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // srun ends its step
	cmd.WaitDelay = patience / 2
	return cmd
}

// Down cancels all jobs, ends the daemons, and removes what they made.
func (c *Cluster) Down() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var errs []error
	if len(c.daemons) > 1+len(c.nodes) { // all
		_ = c.Command(ctx, "scancel", "--user=root").Run() // fails where there is nothing to cancel
		errs = append(errs, c.wait(ctx, "the end of all jobs", func() bool {
			out, err := c.Command(ctx, "squeue", "-h").Output()
			return err == nil && len(out) == 0
		}))
	}
	for _, d := range slices.Backward(c.daemons) {
		errs = append(errs, d.end())
	}
	for _, n := range c.nodes {
		errs = append(errs, removeGroups(n.Name))
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// configure writes the files that the daemons read.
func (c *Cluster) configure(port int) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	host, _, _ = strings.Cut(host, ".")
	key := make([]byte, 128)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	files := map[string][]byte{"key": key}
	for name, text := range map[string]string{"slurm.conf": slurmConf, "cgroup.conf": cgroupConf, "hosts": hostsFile} {
		var b strings.Builder
		t := template.Must(template.New(name).Parse(text))
		if err := t.Execute(&b, map[string]any{
			"Dir": c.dir, "Host": host, "Port": port, "Nodes": c.nodes, "CPUs": NodeCPUs, "MiB": NodeBytes >> 20,
		}); err != nil {
			return err
		}
		files[name] = []byte(b.String())
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := errors.Join(os.Mkdir(filepath.Join(c.dir, n.Name), 0o755), os.Mkdir(filepath.Join(c.dir, "tmp-"+n.Name), 0o755)); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(c.dir, "hosts"), 0o644)
}

const slurmConf = `
ClusterName=lab
SlurmctldHost={{.Host}}(127.0.0.1)
SlurmctldPort={{.Port}}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={{.Dir}}/munge
CredType=cred/munge
StateSaveLocation={{.Dir}}
SlurmdSpoolDir={{.Dir}}/%n
TmpFS={{.Dir}}/tmp-%n
SlurmctldPidFile={{.Dir}}/slurmctld.pid
SlurmdPidFile={{.Dir}}/slurmd.%n.pid
SlurmctldLogFile={{.Dir}}/slurmctld.log
SlurmdLogFile={{.Dir}}/slurmd.%n.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
KillWait=5
DefMemPerCPU=100
{{range .Nodes -}}
NodeName={{.Name}} NodeAddr=127.0.0.1 Port={{.Port}} CPUs={{$.CPUs}} RealMemory={{$.MiB}} State=UNKNOWN
{{end -}}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
`

const cgroupConf = `
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
`

const hostsFile = `127.0.0.1 localhost {{.Host}}{{range .Nodes}} {{.Name}}{{end}}
`

// daemon is one that runs in the foreground under a shell, which ends it when
// the shell's standard input ends.
type daemon struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// start starts a daemon by a command line of the shell, whose $1 is the folder of
// the cluster.
func (c *Cluster) start(ctx context.Context, line string, args ...string) error {
	cmd := c.Command(context.WithoutCancel(ctx), "sh", append([]string{"-c",
		line + ` </dev/null >>"$1/daemons.log" 2>&1 & cat >/dev/null; kill $! && wait`, "sh", c.dir}, args...)...)
	cmd.Cancel, cmd.WaitDelay = nil, 0
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.daemons = append(c.daemons, &daemon{cmd, stdin})
	return nil
}

func (d *daemon) end() error { return errors.Join(d.stdin.Close(), d.cmd.Wait()) }

// wait polls until done, and otherwise says what the daemons logged.
func (c *Cluster) wait(ctx context.Context, what string, done func() bool) error {
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(end) {
			logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
			var said strings.Builder
			for _, l := range logs {
				text, _ := os.ReadFile(l)
				fmt.Fprintf(&said, "%s:\n%s\n", filepath.Base(l), text)
			}
			return fmt.Errorf("slurm: waited in vain for %s: %w\n%s", what, context.Cause(ctx), said.String())
		}
	}
	return nil
}

// removeGroups removes the cgroups of a node, which slurmd leaves.
func removeGroups(node string) error {
	tops, err := filepath.Glob("/sys/fs/cgroup/*/slurm_" + node)
	if err != nil {
		return err
	}
	for _, top := range tops {
		var dirs []string
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, dir := range slices.Backward(dirs) {
			end := time.Now().Add(patience)
			for err = syscall.Rmdir(dir); err == syscall.EBUSY && time.Now().Before(end); err = syscall.Rmdir(dir) {
				time.Sleep(10 * time.Millisecond)
			}
			if err != nil {
				return fmt.Errorf("remove %s: %w", dir, err)
			}
		}
	}
	return nil
}

// freePorts are TCP ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are chosen
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lookPath looks for daemons too, in folders that few have in their PATH.
func lookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + program)
}
