//go:build linux

// Package vm runs a command in a virtual machine whose only cgroups are version 2,
// with memory pressure (PSI), several processors and swap if wanted. The root of
// this machine is its root: read-only, under a layer in memory, so that programs
// are there and what they write is gone afterwards. Temporary files are on a disk,
// so that they have page cache. Qemu emulates the processor, so that no right to
// /dev/kvm is needed; times inside say nothing about speed.
package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/vm/job"
)

const qemu = "qemu-system-x86_64"

// lastWords is how long before the deadline a command is told to quit.
const lastWords = 30 * time.Second

// ErrUnfinished: the machine ended before the command did.
var ErrUnfinished = errors.New("the virtual machine did not finish")

// Config describes a machine. Zero is the default.
type Config struct {
	MemoryBytes int64  // 2 GiB
	CPUs        int    // 2, or 1 where this machine has no more
	SwapBytes   int64  // none
	Share       string // a folder that is the same inside, for writing too
	// Env is added to the environment of the caller, as "NAME=value".
	Env []string
}

// Result is how the command ended.
type Result struct {
	Exit           int // 128+n when signal n ended it, 127 when it could not start
	Stdout, Stderr string
}

// Run runs a command as root in a machine of its own, in the current folder, and
// waits for its end. The command starts in the cgroup /init; the groups beside it
// have the memory, pids and cpu controllers. Half a minute before the deadline of
// ctx it gets SIGQUIT, at which a Go program says where it hangs. A ctx without a
// deadline is a mistake: machines hang too.
func Run(ctx context.Context, c Config, command string, args ...string) (Result, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		panic("vm: Run without a deadline")
	}
	dir, err := os.MkdirTemp("", "mpiguard-vm-*")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	shared := filepath.Join(dir, "job")
	if err := os.Mkdir(shared, 0o700); err != nil {
		return Result{}, err
	}
	// Cmd.Environ keeps the last of those that are set twice.
	env := exec.Cmd{Env: slices.Concat(os.Environ(), []string{"TMPDIR=" + job.Tmp}, c.Env)}
	j := job.Job{Env: env.Environ(), Share: c.Share, Swap: c.SwapBytes > 0}
	if j.Dir, err = os.Getwd(); err != nil {
		return Result{}, err
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return Result{}, err
	}
	j.Args = append([]string{path}, args...)
	j.Quit = max(0, time.Until(deadline)-lastWords)
	if err := j.Write(shared); err != nil {
		return Result{}, err
	}
	initrd := filepath.Join(dir, "initrd")
	if err := writeInitrd(ctx, initrd, dir); err != nil {
		return Result{}, err
	}
	machine, err := c.arguments(dir, shared, initrd)
	if err != nil {
		return Result{}, err
	}
	return run(ctx, shared, machine)
}

// arguments are those of qemu.
func (c Config) arguments(dir, shared, initrd string) ([]string, error) {
	kernel, _, err := cache()
	if err != nil {
		return nil, err
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 2 << 30
	}
	if c.CPUs == 0 {
		c.CPUs = min(2, runtime.NumCPU())
	}
	args := []string{
		"-M", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max",
		"-smp", strconv.Itoa(c.CPUs), "-m", strconv.FormatInt(c.MemoryBytes>>20, 10),
		"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", kernel, "-initrd", initrd,
		"-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=reliable cgroup_no_v1=all psi=1",
	}
	folder := func(tag, path, options string) {
		args = append(args, "-fsdev", "local,id="+tag+",path="+path+",security_model=none,multidevs=remap"+options,
			"-device", "virtio-9p-pci,fsdev="+tag+",mount_tag="+tag)
	}
	folder("host", "/", ",readonly=on")
	folder("job", shared, "")
	if c.Share != "" {
		folder("share", c.Share, "")
	}
	disk := func(name string, size int64) (path string, err error) { // a sparse file
		path = filepath.Join(dir, name)
		args = append(args, "-drive", "file="+path+",format=raw,if=virtio,cache=unsafe")
		return path, errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size))
	}
	const tmpBytes = 4 << 30
	tmp, err := disk("tmp", tmpBytes) // /dev/vda
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command("/sbin/mkfs.ext4", "-q", tmp).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if c.SwapBytes > 0 {
		_, err = disk("swap", c.SwapBytes) // /dev/vdb
	}
	return args, err
}

// run runs qemu and collects what the job left in the shared folder.
func run(ctx context.Context, shared string, machine []string) (r Result, err error) {
	// The machine dies with the thread that started it, at the latest.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, qemu, machine...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console, qemuErr := cmd.CombinedOutput()

	stdout, _ := os.ReadFile(filepath.Join(shared, job.Stdout))
	stderr, _ := os.ReadFile(filepath.Join(shared, job.Stderr))
	r.Stdout, r.Stderr = string(stdout), string(stderr)
	exit, err := os.ReadFile(filepath.Join(shared, job.Exit))
	if err != nil {
		const enough = 4 << 10
		console = console[max(0, len(console)-enough):]
		return r, fmt.Errorf("%w (%w); its console:\n%s", ErrUnfinished, errors.Join(qemuErr, context.Cause(ctx)), console)
	}
	r.Exit, err = strconv.Atoi(string(exit))
	return r, err
}

// writeInitrd writes the first root of the machine: init and the modules. Init is
// built anew each time, so that it is always that of this source.
func writeInitrd(ctx context.Context, file, dir string) error {
	program := filepath.Join(dir, "init")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program,
		"github.com/mpiguard/mpiguard/internal/lab/vm/init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build init: %w\n%s", err, out)
	}
	var a archive
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	a.file("init", b)
	_, modules, err := cache()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(modules, "*.ko"))
	if err != nil {
		return err
	}
	a.dir("modules")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		a.file("modules/"+filepath.Base(f), b)
	}
	a.end()
	return os.WriteFile(file, a.Bytes(), 0o600)
}
