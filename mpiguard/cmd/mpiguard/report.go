package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/kernellog"
	"github.com/mpiguard/mpiguard/internal/procfs"
	"github.com/mpiguard/mpiguard/internal/report"
)

// reportCommand is the subcommand report.
type reportCommand struct {
	Dirs      []string `arg:"" name:"dir" help:"Where the ranks recorded: Config.RecordDir, or MPIGUARD_RECORD."`
	HTML      string   `name:"html" placeholder:"FILE" help:"Write one page with pictures, which needs no network."`
	SVG       string   `name:"svg" placeholder:"FILE" help:"Write a picture of the last run alone."`
	JSON      bool     `name:"json" help:"Write JSON."`
	Follow    bool     `name:"follow" help:"Show it again every second, until no rank runs."`
	KernelLog []string `name:"kernel-log" placeholder:"FILE" help:"What dmesg says on a node of the run. The log of this machine is read where that is allowed."`
}

// Run executes the subcommand.
func (c *reportCommand) Run(s streams) error {
	logs, err := readLogs(c.KernelLog)
	if err != nil {
		return err
	}
	if c.Follow {
		return c.follow(s, logs)
	}
	runs, err := readRuns(c.Dirs, logs, s.err)
	if err != nil {
		return err
	}
	return c.write(s, runs)
}

func (c *reportCommand) write(s streams, runs []*report.Run) error {
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(runs)
	}
	for file, write := range map[string]func(io.Writer) error{
		c.HTML: func(w io.Writer) error { return report.HTML(w, runs) },
		c.SVG:  runs[len(runs)-1].SVG,
	} {
		if file == "" {
			continue
		}
		if err := writeFile(file, write); err != nil {
			return err
		}
	}
	for i, run := range runs {
		if i > 0 {
			fmt.Fprint(s.out, "\n\n")
		}
		if err := run.Text(s.out); err != nil {
			return err
		}
	}
	return nil
}

// follow shows the last run until none of its ranks runs.
func (c *reportCommand) follow(s streams, logs []report.Log) error {
	const clear = "\x1b[H\x1b[2J"
	for {
		runs, err := readRuns(c.Dirs, logs, s.err)
		if err != nil {
			return err
		}
		last := runs[len(runs)-1]
		if !last.Running() { // the kernel may have said why
			if logs, err = readLogs(c.KernelLog); err != nil {
				return err
			}
			if runs, err = readRuns(c.Dirs, logs, s.err); err != nil {
				return err
			}
			last = runs[len(runs)-1]
		}
		fmt.Fprint(s.out, clear)
		if err := last.Text(s.out); err != nil || !last.Running() {
			return err
		}
		time.Sleep(time.Second)
	}
}

// readRuns reads the records of directories. What cannot be read is told, and is
// an error where nothing can.
func readRuns(dirs []string, logs []report.Log, warnings io.Writer) ([]*report.Run, error) {
	var records report.Collection
	read := 0
	for _, dir := range dirs {
		for f, err := range blackbox.Files(dir) {
			if err != nil {
				fmt.Fprintf(warnings, "mpiguard: %v\n", err)
				continue
			}
			records.Add(f)
			read++
		}
	}
	if read == 0 {
		return nil, fmt.Errorf("no record in %s", strings.Join(dirs, ", "))
	}
	boot, _ := procfs.BootID("") // where it cannot be read, the age of the last sample decides
	return records.Runs(report.Evidence{Now: time.Now(), BootID: boot, Logs: logs}), nil
}

// readLogs reads the kernel's log of this machine, if that is allowed, and those
// in files.
func readLogs(files []string) ([]report.Log, error) {
	var logs []report.Log
	if kills, since, err := kernellog.Read(); err == nil {
		boot, _ := procfs.BootID("")
		logs = append(logs, report.Log{BootID: boot, Since: since, Kills: kills})
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		kills, err := kernellog.Parse(f, time.Time{})
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		logs = append(logs, report.Log{Kills: kills})
	}
	return logs, nil
}

// writeFile writes a file, which it removes where that fails.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(name)
	}
	return err
}
