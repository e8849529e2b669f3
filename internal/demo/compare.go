package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// driver runs csvstats on one input.
type driver struct {
	place               place
	dir, program, input string // dir is for what is built and written
}

// outcome is one run.
type outcome struct {
	Mode          string  `json:"mode"`
	LimitBytes    int64   `json:"limit_bytes,omitempty"`
	Exit          int     `json:"exit"`
	Seconds       float64 `json:"seconds"`
	PeakBytes     int64   `json:"peak_bytes"`
	PeakAnonBytes int64   `json:"peak_anon_bytes"`
	Samples       int     `json:"samples"`
	Digest        string  `json:"digest,omitempty"`

	stderr string
}

// run reads the input once, so that all runs find it in the page cache, which
// is then not charged to their group, and runs one mode.
func (d *driver) run(ctx context.Context, mode string, limitBytes int64) (o outcome, err error) {
	if err := readOnce(d.input); err != nil {
		return o, err
	}
	answer, err := os.CreateTemp(d.dir, "answer-*.json")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, answer.Close(), os.Remove(answer.Name())) }()
	m, err := d.place.run(ctx, limitBytes, d.program, "-mode", mode, "-json", answer.Name(), d.input)
	if err != nil {
		return o, err
	}
	o = outcome{
		Mode: mode, LimitBytes: limitBytes, Exit: m.exit, Seconds: m.seconds,
		PeakBytes: m.peakBytes, PeakAnonBytes: m.anon.AnonBytes, Samples: m.anon.Samples, stderr: m.stderr,
	}
	if o.Exit == 0 {
		err = json.NewDecoder(answer).Decode(&struct {
			Digest *string `json:"digest"`
		}{&o.Digest})
	}
	return o, err
}

// comparison is the demo's result and its last line.
type comparison struct {
	Naive      outcome `json:"naive"`
	Guarded    outcome `json:"guarded"`
	Unlimited  outcome `json:"unlimited"`
	SameAnswer bool    `json:"same_answer"`
}

func (d *driver) compare(ctx context.Context, limitBytes int64, out io.Writer) (err error) {
	var c comparison
	for _, run := range []struct {
		outcome    *outcome
		mode       string
		limitBytes int64
	}{
		{&c.Naive, "naive", limitBytes},
		{&c.Guarded, "guarded", limitBytes},
		{&c.Unlimited, "naive", 0},
	} {
		fmt.Fprintf(out, "%s, %s: %d ranks of %s on %s\n", run.mode, limitText(run.limitBytes), ranks, filepath.Base(d.program), d.input)
		if *run.outcome, err = d.run(ctx, run.mode, run.limitBytes); err != nil {
			return err
		}
		for line := range strings.Lines(run.outcome.stderr) {
			fmt.Fprint(out, "  | ", line)
		}
	}
	c.SameAnswer = c.Guarded.Digest != "" && c.Guarded.Digest == c.Unlimited.Digest
	if err := c.print(out); err != nil {
		return err
	}
	if !c.SameAnswer {
		return errors.New("the guarded run did not give the answer of the run without a limit")
	}
	return nil
}

func (c *comparison) print(out io.Writer) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mode\tlimit\texit\tseconds\tpeak of the group\tpeak anonymous\tsamples\tdigest")
	for _, o := range []outcome{c.Naive, c.Guarded, c.Unlimited} {
		fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%s\t%s\t%d\t%s\n", o.Mode, limitText(o.LimitBytes), o.Exit, o.Seconds,
			sizeText(o.PeakBytes), sizeText(o.PeakAnonBytes), o.Samples, orDash(o.Digest))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(c)
}

func limitText(bytes int64) string {
	if bytes == 0 {
		return "no limit"
	}
	return sizeText(bytes)
}

func sizeText(bytes int64) string {
	if bytes == unknown {
		return "unknown"
	}
	return humanize.IBytes(uint64(bytes))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
