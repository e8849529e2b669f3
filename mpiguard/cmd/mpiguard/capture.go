package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/mpiguard/mpiguard/internal/cgroup"
	"github.com/mpiguard/mpiguard/internal/procfs"
	"github.com/mpiguard/mpiguard/internal/sched"
)

// capturedHost is what a saved machine is called.
const capturedHost = "node"

// machineFiles decide for all processes of a machine and hold numbers alone.
var machineFiles = []string{
	"proc/meminfo", "proc/cgroups", "proc/sys/kernel/random/boot_id", "proc/sys/kernel/osrelease",
	"sys/devices/system/cpu/online", "sys/devices/system/node/has_memory",
	"sys/kernel/mm/transparent_hugepage/enabled", "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
}

// capture saves the files that decide the budget of a process below dir, which
// it makes, so that explain -root gives the same answer anywhere; it returns how
// many. What it saves is paths and numbers: of mountinfo, status and the
// environment the lines that are read, without the names of hosts and programs.
func capture(t *target, dir string) (int, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("-capture: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("-capture: %w", err)
	}
	defer root.Close()
	if files, err := fs.ReadDir(root.FS(), "."); err != nil || len(files) > 0 {
		return 0, fmt.Errorf("-capture: %s is not an empty directory", dir)
	}
	w := &writer{root: root}
	for _, name := range machineFiles {
		w.copy(t, name, name)
	}
	for _, n := range procfs.ParseList([]byte(t.read("sys/devices/system/node/has_memory"))) {
		name := fmt.Sprintf("sys/devices/system/node/node%d/meminfo", n)
		w.copy(t, name, name)
	}
	t.captureProcess(w)
	t.captureGroups(w)
	return w.files, w.err
}

// captureProcess saves what is of the process, as that of proc/self.
func (t *target) captureProcess(w *writer) {
	from := procfs.Dir(t.pid) + "/"
	w.copy(t, from+"cgroup", "proc/self/cgroup")
	w.copy(t, from+"limits", "proc/self/limits")
	w.copy(t, from+"statm", "proc/self/statm")
	if stat := t.read(from + "stat"); stat != "" {
		pid, _, _ := strings.Cut(stat, " ")
		w.write("proc/self/stat", pid+" (process)"+stat[strings.LastIndexByte(stat, ')')+1:])
	}
	w.write("proc/self/status", keepLines(t.read(from+"status"), func(line string) bool {
		key, _, _ := strings.Cut(line, ":")
		return strings.HasPrefix(key, "Vm") || strings.HasPrefix(key, "Rss") || key == "Mems_allowed_list" || key == "Threads"
	}))
	mountinfo := "proc/self/mountinfo"
	if !t.fsys.Live() {
		mountinfo = from + "mountinfo"
	}
	w.write("proc/self/mountinfo", keepLines(t.read(mountinfo), func(line string) bool {
		before, after, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(after, " ")
		return kind == "cgroup" || kind == "cgroup2" || kind == "tmpfs" && strings.Contains(before, " /dev/shm ")
	}))
	host := t.facts().host
	environ := sched.Portable(t.environ, host, capturedHost)
	for _, key := range []string{"MPIGUARD_LIMIT", "MPIGUARD_KEEP_FREE", "GOMEMLIMIT"} {
		if v := lookup(t.environ, key); v != "" {
			environ = append(environ, key+"="+v)
		}
	}
	if strings.Contains(lookup(t.environ, "GODEBUG"), "madvdontneed=0") {
		environ = append(environ, "GODEBUG=madvdontneed=0")
	}
	w.write("proc/self/environ", strings.Join(append(environ, ""), "\x00"))
	w.write("proc/sys/kernel/hostname", capturedHost+"\n")
}

// captureGroups saves the groups of the process.
func (t *target) captureGroups(w *writer) {
	buf := make([]byte, 16<<10)
	h := cgroup.Open(t.fsys, t.pid, []byte(t.read(procfs.Dir(t.pid)+"/cgroup")), buf)
	defer h.Close()
	pid := t.pid
	if pid == 0 {
		pid = os.Getpid()
	}
	for _, g := range h.Groups {
		for _, name := range g.Files() {
			w.copy(t, name, name)
		}
		// Which other processes there are is nobody's business.
		own := strconv.Itoa(pid) + "\n"
		if strings.Contains("\n"+t.read(g.ProcsFile()), "\n"+own) {
			w.write(g.ProcsFile(), own)
		}
	}
}

func keepLines(text string, keep func(line string) bool) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if keep(line) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// writer writes files below a directory, none through a link, and keeps the
// first error.
type writer struct {
	root  *os.Root
	files int
	err   error
}

// copy saves a file if it can be read.
func (w *writer) copy(t *target, from, to string) {
	if text, err := t.fsys.Read(from, nil); err == nil {
		w.write(to, string(text))
	}
}

func (w *writer) write(name, text string) {
	if w.err != nil || text == "" {
		return
	}
	if w.err = w.root.MkdirAll(path.Dir(name), 0o700); w.err != nil {
		return
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		w.err = err
		return
	}
	_, err = f.WriteString(text)
	w.err = errors.Join(err, f.Close())
	w.files++
}
