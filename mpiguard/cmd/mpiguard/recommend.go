package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/mpiguard/mpiguard/internal/recommend"
	"github.com/mpiguard/mpiguard/internal/size"
)

// recommendCommand is the subcommand recommend.
type recommendCommand struct {
	Dirs      []string `arg:"" name:"dir" help:"Records of one or more runs. DIR=SIZE says what the size of the input was, where the runs did not."`
	Input     string   `name:"input" placeholder:"SIZE" help:"The size of the input to ask for, such as 64GiB; by default the largest that was recorded."`
	Ranks     int      `name:"ranks" placeholder:"N" help:"Ranks on a node; by default as recorded."`
	Node      string   `name:"node" placeholder:"SIZE" help:"The memory of a node; by default as recorded."`
	JSON      bool     `name:"json" help:"Write JSON."`
	Baseline  string   `name:"baseline" placeholder:"FILE" help:"Keep what the runs needed in a file."`
	Check     bool     `name:"check" help:"Compare with the baseline instead, and fail when a run left it."`
	Tolerance float64  `name:"tolerance" default:"0.1" help:"How far a run may leave the baseline, as a fraction."`
}

// Run executes the subcommand.
func (c *recommendCommand) Run(s streams) error {
	if c.Check && c.Baseline == "" {
		return usageError("-check needs -baseline FILE")
	}
	if c.Ranks < 0 {
		return usageError(fmt.Sprintf("-ranks is %d, want 1 or more", c.Ranks))
	}
	if c.Tolerance < 0 {
		return usageError(fmt.Sprintf("-tolerance is %g, want 0 or more", c.Tolerance))
	}
	q := recommend.Query{RanksPerNode: c.Ranks}
	for _, f := range []struct {
		name, text string
		to         *int64
	}{{"-input", c.Input, &q.InputBytes}, {"-node", c.Node, &q.NodeBytes}} {
		if f.text == "" {
			continue
		}
		var err error
		if *f.to, err = size.Parse(f.text); err != nil {
			return usageError(f.name + ": " + err.Error())
		}
	}
	ms, err := c.measure(s.err)
	if err != nil {
		return err
	}
	switch {
	case c.Check:
		return c.check(s.out, ms)
	case c.Baseline != "":
		if err := c.keep(ms); err != nil {
			return err
		}
	}
	a, err := recommend.Advise(ms, q)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	_, err = io.WriteString(s.out, adviceText(a))
	return err
}

// measure reads what the runs needed.
func (c *recommendCommand) measure(warnings io.Writer) ([]recommend.Measurement, error) {
	logs, err := readLogs(nil)
	if err != nil {
		return nil, err
	}
	var ms []recommend.Measurement
	for _, dir := range c.Dirs {
		var inputBytes int64
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			if name, text, ok := strings.Cut(dir, "="); ok {
				if inputBytes, err = size.Parse(text); err != nil {
					return nil, usageError(dir + ": " + err.Error())
				}
				dir = name
			}
		}
		runs, err := readRuns([]string{dir}, logs, warnings)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			m := recommend.Measure(run)
			if inputBytes > 0 {
				m.InputBytes = inputBytes
			}
			ms = append(ms, m)
		}
	}
	return ms, nil
}

// check compares all runs with the baseline.
func (c *recommendCommand) check(out io.Writer, ms []recommend.Measurement) error {
	b, err := readBaseline(c.Baseline)
	if err != nil {
		return err
	}
	for _, m := range ms {
		if err := b.Check(m, c.Tolerance); err != nil {
			return err
		}
		fmt.Fprintf(out, "run %s: %s a node, within the baseline\n", m.Run, humanize.IBytes(uint64(m.PeakBytes)))
	}
	return nil
}

// keep adds all runs to the baseline, or none.
func (c *recommendCommand) keep(ms []recommend.Measurement) error {
	b, err := readBaseline(c.Baseline)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = &recommend.Baseline{}, nil
	}
	if err != nil {
		return err
	}
	for _, m := range ms {
		if err := b.Add(m); err != nil {
			return err
		}
	}
	// Another name first: a baseline is never half written.
	next := filepath.Join(filepath.Dir(c.Baseline), "."+filepath.Base(c.Baseline)+".new")
	if err := writeFile(next, b.Write); err != nil {
		return err
	}
	return os.Rename(next, c.Baseline)
}

func readBaseline(name string) (*recommend.Baseline, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := recommend.ReadBaseline(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// adviceText is the advice for people, with what to paste.
func adviceText(a *recommend.Advice) string {
	var b strings.Builder
	text := func(n int64) string { return humanize.IBytes(uint64(n)) }
	fmt.Fprintf(&b, "runs recorded: %d\na node of %d ranks needs %s; with a margin of %.0f %%: %s\n",
		a.Runs, a.RanksPerNode, text(a.PeakBytes), 100*a.Margin, text(a.MemBytes))
	if f := a.Fit; f != nil {
		line := text(int64(f.Base)) + " whatever the input"
		if f.Slope > 0 {
			line = fmt.Sprintf("%s and %.3g bytes for each byte of input", text(int64(max(f.Base, 0))), f.Slope)
		}
		fmt.Fprintf(&b, "fit over %d input sizes: %s; off by at most %.1f %% where it was measured, uncertain by %.0f %%\n",
			f.Sizes, line, 100*f.Residual, 100*f.Uncertain)
	}
	if a.MaxRanks > 0 {
		fmt.Fprintf(&b, "ranks that fit a node of %s: %d\n", text(a.NodeBytes), a.MaxRanks)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	fmt.Fprintf(&b, "\n# Slurm\n%s\n# Kubernetes: each worker of an MPIJob with slotsPerWorker %d; /dev/shm in memory counts\n%s",
		a.Slurm(), a.RanksPerNode, a.Kubernetes())
	return b.String()
}
