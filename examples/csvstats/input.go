package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// input is the file and this rank's part of it: the lines that start in a range
// of bytes. What is appended to the file after it was opened is not read.
type input struct {
	*os.File
	sizeBytes int64
	part      chunk.Span
}

// openInput opens the file on all ranks, which then agree on its size.
func (j *job) openInput() (*input, error) {
	in := &input{}
	err := in.open(j.file)
	if err != nil {
		err = fmt.Errorf("rank %d: %w", j.comm.Rank(), err)
	}
	if err = j.agree(err, 0); err == nil {
		err = j.agreeSize(in.sizeBytes)
	}
	if err != nil {
		in.Close() // nil is fine
		return nil, err
	}
	in.part = chunk.Partition(in.sizeBytes, j.comm.Size(), j.comm.Rank())
	return in, nil
}

func (in *input) open(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // before it is opened, which waits where it is a pipe
		return fmt.Errorf("%s is not a regular file", name)
	}
	if in.File, err = os.Open(name); err != nil {
		return err
	}
	if info, err = in.Stat(); err != nil {
		return err
	}
	in.sizeBytes = info.Size()
	return nil
}

func (j *job) agreeSize(sizeBytes int64) error {
	sizes := []uint64{uint64(sizeBytes), ^uint64(sizeBytes)}
	if err := j.comm.AllreduceUint64(j.ctx, sizes, sizes, mpiguard.OpMin); err != nil {
		return err
	}
	if least, most := sizes[0], ^sizes[1]; least != most {
		return j.agree(fmt.Errorf("%s has %d bytes on one rank and %d on another", j.file, least, most), 0)
	}
	return nil
}

// scanGuarded calls add with blocks of whole lines, as large as there is
// headroom for.
func (in *input) scanGuarded(ctx context.Context, guard *mpiguard.Guard, add func(ctx context.Context, block []byte) error) error {
	account, err := guard.TryReserveOffHeap("block", 0)
	if err != nil {
		return err
	}
	defer account.Release()
	cfg := chunk.Config{Account: patient{account}}
	for block, err := range chunk.LineBlocksAt(ctx, in, in.sizeBytes, in.part, cfg) {
		if err != nil {
			return err
		}
		if err := add(ctx, block); err != nil {
			return err
		}
	}
	return nil
}

// scanNaive calls add with all lines of the part at once.
func (in *input) scanNaive(ctx context.Context, add func(ctx context.Context, block []byte) error) error {
	lines, err := chunk.LineSpan(ctx, in, in.sizeBytes, in.part)
	if err != nil {
		return err
	}
	data := make([]byte, lines.Length)
	n, err := in.ReadAt(data, lines.Offset)
	switch {
	case n == len(data):
		return add(ctx, data)
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
