//go:build linux

// Package leftovers runs a command and says what it left on the machine: its
// processes, however they were detached, the cgroups, namespaces and network
// interfaces that the lab makes, and temporary files.
package leftovers

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mark is the variable of the environment by which processes of the command are
// known: it is inherited by whatever they start.
const mark = "MPIGUARD_LEFTOVERS"

// patience is how long what is there when the command ends may take to go.
const patience = 2 * time.Second

// What begins with these is of the lab, or of a program that it runs. Temporary
// files of the first kind are in the folder that TMPDIR names, and nowhere else.
var (
	labNames     = []string{"mpiguard", "slurm"}
	foreignNames = []string{"ompi.", "pmix", "slurm"}
)

// Run runs cmd, with a folder for temporary files of its own, and returns what it
// left, one line for each. The folder itself is removed. The error is that of cmd.
func Run(cmd *exec.Cmd) ([]string, error) {
	before, err := machine()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "leftovers-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, err
	}
	id := mark + "=" + rand.Text()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, id, "TMPDIR="+tmp)
	runErr := cmd.Run()

	left, err := remaining(id, tmp, before)
	// Processes may be on their way out, and others at work on the machine.
	for end := time.Now().Add(patience); err == nil && len(left) > 0 && time.Now().Before(end); left, err = remaining(id, tmp, before) {
		time.Sleep(20 * time.Millisecond)
	}
	return left, errors.Join(err, runErr)
}

// remaining is what was not there before, and the processes that carry the mark.
func remaining(id, tmp string, before []string) ([]string, error) {
	left, err := processes(id)
	if err != nil {
		return nil, err
	}
	files, err := entries("file", tmp, whatever)
	if err != nil {
		return nil, err
	}
	after, err := machine()
	for _, thing := range after {
		if _, old := slices.BinarySearch(before, thing); !old {
			files = append(files, thing)
		}
	}
	return append(left, files...), err
}

// processes are those that run, and carry the mark.
func processes(id string) ([]string, error) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range environs {
		env, err := os.ReadFile(file)
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == id }) {
			continue // it ended meanwhile, or is another's
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, fmt.Sprintf("process %s: %s", filepath.Base(filepath.Dir(file)), bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return found, nil
}

// machine is what is there of the kinds that the lab makes, sorted.
func machine() ([]string, error) {
	var things []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return nil
		case err == nil && e.IsDir() && beginsWith(labNames)(e.Name()):
			things = append(things, "cgroup "+path)
			return fs.SkipDir
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		things = append(things, "network interface "+l.Name)
	}
	for _, place := range []struct {
		kind, dir string
		counts    func(name string) bool
	}{
		{"file", os.TempDir(), beginsWith(foreignNames)},
		{"shared memory", "/dev/shm", whatever},
		{"network namespace", "/run/netns", whatever},
	} {
		found, err := entries(place.kind, place.dir, place.counts)
		if err != nil {
			return nil, err
		}
		things = append(things, found...)
	}
	slices.Sort(things)
	return things, nil
}

func beginsWith(prefixes []string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
}

func whatever(string) bool { return true }

// entries are the files of a folder whose names count.
func entries(kind, dir string, counts func(name string) bool) ([]string, error) {
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var things []string
	for _, e := range found {
		if counts(e.Name()) {
			things = append(things, kind+" "+filepath.Join(dir, e.Name()))
		}
	}
	return things, nil
}
