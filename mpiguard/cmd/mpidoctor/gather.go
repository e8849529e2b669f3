package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mpiguard/mpiguard/internal/doctor"
	"github.com/mpiguard/mpiguard/internal/sched"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// row is what a rank tells the others.
type row struct {
	Rank doctor.Rank
	Node *doctor.Node `json:",omitempty"` // of the first rank of a node
}

// gather makes of all ranks' rows the ranks and the nodes of a report.
// Collective.
func (e *exam) gather(report *doctor.Report) error {
	ctx, cancel := within(e.patience())
	defer cancel()
	guard, err := mpiguard.New(ctx, e.comm, mpiguard.Config{CollectiveTimeout: e.patience(), KeepGoLimit: true})
	if err != nil {
		return err
	}
	defer guard.Close()
	survey, err := guard.Survey(ctx)
	if err != nil {
		return err
	}

	ctx, cancel = within(e.patience())
	defer cancel()
	rows, err := exchange(ctx, e.comm, e.look(guard.Budget(), survey))
	if err != nil {
		return err
	}
	for _, r := range rows {
		report.Ranks = append(report.Ranks, r.Rank)
		if r.Node != nil { // nodes are numbered by their first ranks
			report.Nodes = append(report.Nodes, *r.Node)
		}
	}
	return nil
}

// look reads what this rank has, and its node if it is the first one there.
func (e *exam) look(b *mpiguard.Budget, s *mpiguard.Survey) row {
	me := s.Ranks[e.comm.Rank()]
	locked, openFiles := doctor.Limits()
	job := sched.Detect(os.Environ(), me.Host)
	r := row{Rank: doctor.Rank{
		Rank: me.Rank, Node: me.Node, PID: me.PID,
		Memory:     memory(me.LimitBytes, me.UsedBytes, me.HeadroomBytes, me.Binding),
		ShareBytes: doctor.Bytes(b.ShareBytes),
		SaidRanks:  job.Ranks, SaidBy: job.RanksSource,
		LockedBytes: locked, OpenFiles: openFiles,
		Library: clip(e.library, maxLibraryBytes), ThreadLevel: e.threadLevel,
	}}
	q := doctor.Query{Environ: os.Environ(), Host: me.Host, Group: limitedGroup(b)}
	for _, k := range s.Ranks {
		if k.Node == me.Node {
			q.PIDs = append(q.PIDs, k.PID)
			if k.Rank < me.Rank {
				return r
			}
		}
	}
	for _, n := range s.Nodes {
		q.Hosts = append(q.Hosts, n.Host)
	}
	n := s.Nodes[me.Node]
	r.Node = &doctor.Node{
		Host:   n.Host,
		Memory: memory(n.LimitBytes, n.UsedBytes, n.HeadroomBytes, n.Binding),
		Notes:  notes(b),
		Place:  doctor.Look("", q),
	}
	return r
}

func memory(limit, used, headroom int64, binding string) doctor.Memory {
	return doctor.Memory{LimitBytes: doctor.Bytes(limit), UsedBytes: doctor.Bytes(used), HeadroomBytes: doctor.Bytes(headroom), Binding: binding}
}

// limitedGroup is the innermost cgroup with a limit.
func limitedGroup(b *mpiguard.Budget) string {
	for _, c := range b.Constraints {
		if c.Scope == mpiguard.ScopeCgroup && c.LimitBytes >= 0 && c.LimitBytes != mpiguard.UnlimitedBytes {
			return c.Path
		}
	}
	return ""
}

// notes are the remarks on a budget, not more than fit a row.
func notes(b *mpiguard.Budget) []string {
	all := slices.Clone(b.Notes)
	for _, c := range b.Constraints {
		for _, n := range c.Notes {
			if n = c.Source + ": " + n; !slices.Contains(all, n) { // of another level
				all = append(all, n)
			}
		}
	}
	short := []string{}
	for _, n := range all[:min(len(all), 16)] {
		short = append(short, clip(n, 256))
	}
	return short
}

// clip shortens a text.
func clip(s string, maxBytes int) string {
	if len(s) <= maxBytes {
		return s
	}
	return s[:maxBytes]
}

// maxLibraryBytes bounds what an MPI library says of itself: MPICH says with what
// each of its compilers was called.
const maxLibraryBytes = 1 << 10

// maxRowBytes bounds what a rank tells: above what the bounds of its parts add up
// to.
const maxRowBytes = 32 << 10

// exchange gives every rank the rows of all, in two collectives. A row that is
// too long is an error on all ranks. Collective.
func exchange(ctx context.Context, c mpiguard.Comm, mine row) ([]row, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err // a row can always be written
	}
	longest := []uint64{uint64(len(text))}
	if err := c.AllreduceUint64(ctx, longest, longest, mpiguard.OpMax); err != nil {
		return nil, err
	}
	if longest[0] > maxRowBytes {
		return nil, fmt.Errorf("a rank has %d bytes to tell, which is more than %d", longest[0], maxRowBytes)
	}
	n := int(longest[0])
	padded := append(text, bytes.Repeat([]byte{' '}, n-len(text))...) // blanks after a value mean nothing in JSON
	all := make([]byte, n*c.Size())
	if err := c.Allgather(ctx, all, padded); err != nil {
		return nil, err
	}
	rows := make([]row, c.Size())
	for i := range rows {
		err = errors.Join(err, json.Unmarshal(all[i*n:][:n], &rows[i]))
	}
	return rows, err
}
