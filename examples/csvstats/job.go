package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// job is one rank's part in the work. Its methods are collective: each ends
// with an agreement, after which all ranks go on or all stop.
type job struct {
	options
	ctx   context.Context
	comm  mpiguard.Comm
	guard *mpiguard.Guard // nil in naive mode
	out   *bufio.Writer   // of rank 0; the others discard what they print
	begun time.Time
}

// work does the whole job. Collective.
func work(ctx context.Context, comm mpiguard.Comm, o options, stdout io.Writer) (err error) {
	if comm.Rank() != 0 {
		stdout = io.Discard
	}
	j := &job{options: o, ctx: ctx, comm: comm, out: bufio.NewWriter(stdout), begun: time.Now()}
	if o.mode == modeNaive {
		return j.work()
	}
	if j.guard, err = j.newGuard(); err != nil {
		return err
	}
	defer func() {
		if e := j.guard.Close(); err == nil {
			err = e
		}
	}()
	if o.mode == modeNone {
		return nil
	}
	return j.work()
}

func (j *job) newGuard() (*mpiguard.Guard, error) {
	guard, err := mpiguard.New(j.ctx, j.comm, mpiguard.Config{})
	return guard, j.agree(err, 0)
}

func (j *job) work() error {
	in, err := j.openInput()
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := j.survey("before"); err != nil {
		return err
	}
	table, release, err := j.newTable()
	if err != nil {
		return err
	}
	defer release()

	a := answer{Mode: j.mode, Ranks: j.comm.Size(), Input: j.file, InputBytes: in.sizeBytes}
	if a.Lines, err = j.scan(in, table); err != nil {
		return err
	}
	if err := j.agree(groupby.Merge(j.ctx, j.comm, table), 0); err != nil {
		return err
	}
	s, err := j.survey("after")
	if err != nil {
		return err
	}
	if j.comm.Rank() == 0 {
		a.Seconds = time.Since(j.begun).Seconds()
		for _, r := range s.Ranks {
			a.PeakBytes = max(a.PeakBytes, r.PeakBytes)
		}
		err = a.finish(j.ctx, table, j.out, j.jsonFile)
	}
	return j.agree(err, 0)
}

func (j *job) agree(err error, lines int64) error { return agree(j.ctx, j.comm, err, lines) }

// survey prints what all ranks use. A naive program has a guard for that long
// only, so that nothing protects it while it works.
func (j *job) survey(when string) (*mpiguard.Survey, error) {
	guard := j.guard
	if guard == nil {
		var err error
		if guard, err = j.newGuard(); err != nil {
			return nil, err
		}
		defer guard.Close()
	}
	s, err := guard.Survey(j.ctx)
	if err == nil {
		fmt.Fprintf(j.out, "%s:\n%v\n", when, s)
		err = j.out.Flush()
	}
	return s, j.agree(err, 0)
}

// newTable returns an empty table whose memory, and that of the merge, is
// accounted for. A naive program asks nobody.
func (j *job) newTable() (table *groupby.Table, release func(), err error) {
	if j.mode == modeNaive {
		return groupby.NewTable(nil), func() {}, nil
	}
	account, err := reserve(j.ctx, j.guard, "groups", groupby.MergeBytes(j.comm.Size()))
	if agreed := j.agree(err, 0); agreed != nil {
		if err == nil {
			account.Release()
		}
		return nil, nil, agreed
	}
	return groupby.NewTable(account), account.Release, nil
}

// scan adds this rank's part of the file to the table, and returns how many lines
// the whole file has.
func (j *job) scan(in *input, table *groupby.Table) (lines int64, err error) {
	r := &groupby.Rows{Layout: j.layout, Table: table, AtStart: in.part.Offset == 0}
	if j.mode == modeGuarded {
		err = in.scanGuarded(j.ctx, j.guard, r.Add)
	} else {
		err = in.scanNaive(j.ctx, r.Add)
	}
	if err != nil {
		err = fileError{j.file, readable(err, r.Lines)}
	}
	if err = j.agree(err, r.Lines); err != nil {
		return 0, err
	}
	sum := []uint64{uint64(r.Lines)}
	err = j.comm.AllreduceUint64(j.ctx, sum, sum, mpiguard.OpSum)
	return int64(sum[0]), err
}

// fileError is an error in a file. Its text is made when it is asked for, as a
// line gets its number of the whole file only when the ranks have agreed.
type fileError struct {
	name string
	err  error
}

func (e fileError) Error() string { return e.name + ": " + e.err.Error() }
func (e fileError) Unwrap() error { return e.err }

// readable says an error of reading in the terms of the file, of which that many
// lines of this rank's part were read.
func readable(err error, lines int64) error {
	var at *chunk.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the file became shorter while it was read")
	case !errors.As(err, &at):
		return err
	case errors.Is(err, chunk.ErrLineTooLong):
		return &groupby.RowError{Line: lines + 1, Err: at.Err}
	}
	return fmt.Errorf("at byte %d: %w", at.OffsetBytes, at.Err)
}
