//go:build linux

// Command init is process 1 of the virtual machine: it puts the root of the host
// under a layer in memory, mounts cgroup v2, runs one command, writes down how
// that ended, and powers off. Package vm builds it and starts it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab/vm/job"
)

const root = "/new/root"

func main() {
	if err := run(); err != nil {
		fmt.Println("init:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := mountRoot(); err != nil {
		return err
	}
	j, err := job.Read(filepath.Join(root, job.Dir))
	if err != nil {
		return err
	}
	if j.Share != "" {
		if err := mount9p("share", root+j.Share, 0, "cache=mmap"); err != nil {
			return err
		}
	}
	if err := unix.Chroot(root); err != nil {
		return err
	}
	if err := setUp(j); err != nil {
		return err
	}
	exit, err := command(j)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(job.Dir, job.Exit), []byte(strconv.Itoa(exit)), 0o600)
}

// mountRoot makes the new root: the host's, read-only, under a tmpfs.
func mountRoot() error {
	modules, err := filepath.Glob("/modules/*.ko") // numbered in the order of need
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := insert(m); err != nil {
			return fmt.Errorf("insert %s: %w", m, err)
		}
	}
	if err := mount9p("host", "/host", unix.MS_RDONLY, "cache=loose"); err != nil {
		return err
	}
	if err := mount("tmpfs", "tmpfs", "/new", 0, "size=50%"); err != nil {
		return err
	}
	for _, dir := range []string{"/new/up", "/new/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mount("overlay", "overlay", root, 0, "lowerdir=/host,upperdir=/new/up,workdir=/new/work"); err != nil {
		return err
	}
	for _, m := range []struct{ fs, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/dev/shm"}, {"devpts", "/dev/pts"},
		{"tmpfs", "/run"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := mount(m.fs, m.fs, root+m.at, 0, ""); err != nil {
			return err
		}
	}
	if err := mount("ext4", root+"/dev/vda", root+job.Tmp, 0, ""); err != nil {
		return err
	}
	return mount9p("job", root+job.Dir, 0, "cache=none")
}

// setUp does in the new root what the init of a distribution does.
func setUp(j job.Job) error {
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if j.Swap {
		for _, argv := range [][]string{{"/sbin/mkswap", "/dev/vdb"}, {"/sbin/swapon", "/dev/vdb"}} {
			if exit, err := spawn(argv, job.Job{Dir: "/"}, os.Stdout, os.Stdout); exit != 0 || err != nil {
				return fmt.Errorf("%v: exit %d, %w", argv, exit, err)
			}
		}
	}
	// What the command makes beside this group can have memory limits.
	const cgroup = "/sys/fs/cgroup"
	if err := os.Mkdir(cgroup+"/init", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(cgroup+"/init/cgroup.procs", []byte("0"), 0); err != nil {
		return err
	}
	return os.WriteFile(cgroup+"/cgroup.subtree_control", []byte("+memory +pids +cpu"), 0)
}

// command runs the command of the job, and returns its exit code.
func command(j job.Job) (int, error) {
	stdout, err := os.Create(filepath.Join(job.Dir, job.Stdout))
	if err != nil {
		return 0, err
	}
	defer stdout.Close()
	stderr, err := os.Create(filepath.Join(job.Dir, job.Stderr))
	if err != nil {
		return 0, err
	}
	defer stderr.Close()
	exit, err := spawn(j.Args, j, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 127, nil
	}
	return exit, nil
}

// spawn runs a program to its end and, as process 1 has to, waits for all
// orphans meanwhile.
func spawn(argv []string, j job.Job, stdout, stderr *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: j.Dir, Env: j.Env, Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", argv[0], err)
	}
	if j.Quit > 0 {
		quit := time.AfterFunc(j.Quit, func() { _ = syscall.Kill(-pid, syscall.SIGQUIT) })
		defer quit.Stop()
	}
	for {
		var w syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &w, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case got == pid && w.Signaled():
			return 128 + int(w.Signal()), nil
		case got == pid:
			return w.ExitStatus(), nil
		}
	}
}

func insert(module string) error {
	f, err := os.Open(module)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

func mount9p(tag, at string, flags uintptr, cache string) error {
	return mount("9p", tag, at, flags, "trans=virtio,version=9p2000.L,msize=512000,"+cache)
}

func mount(fs, source, at string, flags uintptr, options string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, at, fs, flags, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", fs, at, err)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
