package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dustin/go-humanize"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
)

// answer is what rank 0 tells, on paper and as JSON, where the groups follow
// under "groups".
type answer struct {
	Mode       string  `json:"mode"`
	Ranks      int     `json:"ranks"`
	Input      string  `json:"input"`
	InputBytes int64   `json:"input_bytes"`
	Lines      int64   `json:"lines"`
	Groups     int     `json:"group_count"`
	Seconds    float64 `json:"seconds"`
	PeakBytes  int64   `json:"peak_rank_bytes"` // the highest resident set of a rank
	Digest     string  `json:"digest"`
}

const groupsShown = 5 // on paper

// finish prints the answer, and writes it to a file where one is named.
func (a *answer) finish(ctx context.Context, table *groupby.Table, out *bufio.Writer, jsonFile string) error {
	groups, err := table.Sorted(ctx)
	if err != nil {
		return err
	}
	a.Groups, a.Digest = len(groups), groupby.Digest(groups)

	fmt.Fprintf(out, "%d groups of %d lines in %.2f s; digest %s; peak of a rank %s\n",
		a.Groups, a.Lines, a.Seconds, a.Digest, humanize.IBytes(uint64(a.PeakBytes)))
	fmt.Fprintf(out, "count min mean max key\n")
	for i, g := range groups {
		if i == groupsShown {
			fmt.Fprintf(out, "... and %d more\n", len(groups)-i)
			break
		}
		out.Write(g.AppendTo(out.AvailableBuffer()))
	}
	if err := out.Flush(); err != nil || jsonFile == "" {
		return err
	}
	f, err := os.Create(jsonFile)
	if err != nil {
		return err
	}
	return errors.Join(a.writeJSON(f, groups), f.Close())
}

// writeJSON writes one group at a time: an answer can be large.
func (a *answer) writeJSON(w io.Writer, groups []*groupby.Group) error {
	out := bufio.NewWriter(w)
	head, err := json.Marshal(a)
	if err != nil {
		return err
	}
	out.Write(head[:len(head)-1]) // without its closing brace
	out.WriteString(`,"groups":[`)
	for i, g := range groups {
		if i > 0 {
			out.WriteByte(',')
		}
		line, err := json.Marshal(struct {
			Key   string         `json:"key"`
			Count int64          `json:"count"`
			Min   groupby.Number `json:"min"`
			Mean  groupby.Number `json:"mean"`
			Max   groupby.Number `json:"max"`
		}{string(g.Key), g.Count, g.Min, g.Mean(), g.Max})
		if err != nil {
			return err
		}
		out.WriteString("\n")
		out.Write(line)
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}
