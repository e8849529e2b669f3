package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// agreedError is why all ranks stop. Only the lowest of those that failed, which
// is to tell, has the error itself.
type agreedError struct {
	code int
	err  error
}

func (e *agreedError) Error() string {
	if e.err == nil {
		return "another rank failed"
	}
	return e.err.Error()
}

func (e *agreedError) Unwrap() error { return e.err }

// agree returns nil where err is nil on all ranks, and otherwise an *agreedError
// on all of them. Any other error says that the ranks could not agree.
//
// lines is how many lines this rank has read of its part of the file. An error in
// a row of that part names a line of it and, since the ranks before have read
// theirs to the end, a line of the whole file once agree returns. Collective.
func agree(ctx context.Context, comm mpiguard.Comm, err error, lines int64) error {
	const rowBytes = 16
	row := make([]byte, 0, rowBytes)
	row = binary.LittleEndian.AppendUint64(row, uint64(exitCode(err)))
	row = binary.LittleEndian.AppendUint64(row, uint64(lines))
	rows := make([]byte, comm.Size()*rowBytes)
	if e := comm.Allgather(ctx, rows, row); e != nil {
		if err == nil {
			return e
		}
		return fmt.Errorf("%w; and the others cannot be told: %w", err, e)
	}
	var linesBefore int64
	for rank := range comm.Size() {
		row := rows[rank*rowBytes:]
		if code := int(binary.LittleEndian.Uint64(row)); code != 0 {
			if rank != comm.Rank() {
				return &agreedError{code: code}
			}
			var rowErr *groupby.RowError
			if errors.As(err, &rowErr) {
				rowErr.Line += linesBefore
			}
			return &agreedError{code: code, err: err}
		}
		linesBefore += int64(binary.LittleEndian.Uint64(row[8:]))
	}
	return nil
}

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}
