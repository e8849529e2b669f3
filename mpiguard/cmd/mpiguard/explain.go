package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/mpiguard/mpiguard/internal/kernfs"
	"github.com/mpiguard/mpiguard/internal/procfs"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// explain is the subcommand of that name.
type explain struct {
	PID     int    `name:"pid" placeholder:"N" help:"The process to look at; by default one that is started here."`
	Root    string `name:"root" placeholder:"DIR" help:"A saved machine to look at: a directory with proc and sys."`
	JSON    bool   `name:"json" help:"Write JSON: budget_bytes, headroom_bytes, binding, constraints."`
	Capture string `name:"capture" placeholder:"DIR" help:"Also save the files that decide to a new directory, to be sent or looked at with -root."`
}

// Run executes the subcommand.
func (e *explain) Run(s streams) error {
	t, err := e.open()
	if err != nil {
		return err
	}
	defer t.fsys.Close()
	if e.Capture != "" {
		n, err := capture(t, e.Capture)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.err, "%d files saved in %s\n", n, e.Capture)
	}
	b := mpiguard.DetectBudget(mpiguard.Machine{Root: e.Root, PID: e.PID, Environ: t.environ})
	if e.JSON {
		out := json.NewEncoder(s.out)
		out.SetIndent("", "  ")
		return out.Encode(b)
	}
	text := b.Explain()
	for _, a := range advise(b, t.facts()) {
		text += "advice: " + a + "\n"
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}

// target is the process that is looked at.
type target struct {
	fsys    *kernfs.FS
	pid     int
	environ []string // never nil
}

// open opens the machine, and refuses what is none.
func (e *explain) open() (*target, error) {
	if e.PID < 0 {
		return nil, usageError(fmt.Sprintf("-pid is %d, want 1 or more", e.PID))
	}
	if e.Root != "" {
		if info, err := os.Stat(e.Root); err != nil {
			return nil, fmt.Errorf("-root: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("-root: %s is not a directory", e.Root)
		}
	}
	t := &target{fsys: kernfs.New(e.Root), pid: e.PID}
	if e.PID != 0 {
		if _, ok := t.fsys.IsDir(procfs.Dir(e.PID)); !ok {
			t.fsys.Close()
			return nil, fmt.Errorf("no process %d", e.PID)
		}
	}
	t.environ = t.readEnviron()
	return t, nil
}

func (t *target) readEnviron() []string {
	if t.pid == 0 && t.fsys.Live() {
		return os.Environ()
	}
	return strings.Split(t.read(procfs.Dir(t.pid)+"/environ"), "\x00")
}

// read returns the text of a file, "" where it cannot be read.
func (t *target) read(name string) string {
	text, err := t.fsys.Read(name, nil)
	if err != nil {
		return ""
	}
	return string(text)
}

// facts are what the advice is taken from, beside the budget.
func (t *target) facts() facts {
	return facts{
		environ:   t.environ,
		host:      strings.TrimSpace(t.read("proc/sys/kernel/hostname")),
		mountinfo: t.read("proc/self/mountinfo"),
		thp:       t.read("sys/kernel/mm/transparent_hugepage/enabled"),
		maxNone:   t.read("sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"),
	}
}
