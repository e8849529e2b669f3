//go:build cgo

package mpicomm

// #include <stdlib.h>
// #include "mpicomm.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/mpiguard/mpiguard/mpiguard"
)

const (
	// enterWait is how long a collective is tried even where ctx is done: enough
	// for the rounds that ranks which are all there need, so that none of them
	// waits in vain for what this rank has to pass on.
	enterWait = 50 * time.Millisecond

	// A wait that has lasted for sleepAfter sleeps between its tests, for 1/32
	// of the time it has lasted and maxSleep at most: it leaves the core to
	// ranks that work, and the end is seen late by as little.
	sleepAfter = time.Millisecond
	maxSleep   = 100 * time.Microsecond

	keptBytes = 64 << 10 // of the buffer, from one collective to the next
)

// Barrier returns when every rank has entered it. Collective.
func (c *Comm) Barrier(ctx context.Context) error {
	if _, err := c.begin(ctx, "Barrier", 0); err != nil {
		return err
	}
	defer release()
	return c.finish(ctx, "Barrier", C.mg_barrier(c.c))
}

// AllreduceUint64 combines src of all ranks element by element into dst; see
// mpiguard.Comm. Collective.
func (c *Comm) AllreduceUint64(ctx context.Context, dst, src []uint64, op mpiguard.Op) error {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("mpicomm: AllreduceUint64: dst has %d elements, src %d", len(dst), len(src)))
	}
	if op > mpiguard.OpMax {
		panic(fmt.Sprintf("mpicomm: AllreduceUint64: unknown op %d", op))
	}
	if len(dst) == 0 {
		return nil
	}
	buffer, err := c.begin(ctx, "AllreduceUint64", 8*int64(len(dst)))
	if err != nil {
		return err
	}
	defer release()
	words := unsafe.Slice((*int64)(buffer), len(dst))
	var sign uint64 // flipped where MPI compares: signed numbers then have the order of unsigned ones
	if op != mpiguard.OpSum {
		sign = 1 << 63
	}
	for i, v := range src {
		words[i] = int64(v ^ sign)
	}
	if err := c.finish(ctx, "AllreduceUint64", C.mg_allreduce(c.c, C.int(len(dst)), C.int(op))); err != nil {
		return err
	}
	for i, v := range words {
		dst[i] = uint64(v) ^ sign
	}
	c.trim()
	return nil
}

// Allgather stores the row of rank i at dst[i*len(row):]; see mpiguard.Comm.
// While it runs it uses as many bytes as dst has outside the Go heap.
// Collective.
func (c *Comm) Allgather(ctx context.Context, dst, row []byte) error {
	if int64(len(dst)) != int64(c.size)*int64(len(row)) {
		panic(fmt.Sprintf("mpicomm: Allgather: dst has %d bytes, want %d rows of %d", len(dst), c.size, len(row)))
	}
	if len(dst) == 0 {
		return nil
	}
	buffer, err := c.begin(ctx, "Allgather", int64(len(dst)))
	if err != nil {
		return err
	}
	defer release()
	rows := unsafe.Slice((*byte)(buffer), len(dst))
	copy(rows[c.rank*len(row):], row)
	if err := c.finish(ctx, "Allgather", C.mg_allgather(c.c, C.int(len(row)))); err != nil {
		return err
	}
	copy(dst, rows)
	c.trim()
	return nil
}

// begin prepares a collective with a buffer of the given length. Unless it
// returns an error the caller calls release.
func (c *Comm) begin(ctx context.Context, call string, bytes int64) (unsafe.Pointer, error) {
	if bytes > mpiguard.MaxMessageBytes {
		return nil, tooLong(call, bytes)
	}
	if err := acquire(); err != nil {
		return nil, err
	}
	if err := c.ready(ctx, call, bytes); err != nil {
		release()
		return nil, err
	}
	return c.c.buffer, nil
}

func (c *Comm) ready(ctx context.Context, call string, bytes int64) error {
	if c.opening && c.closed == nil && c.err == nil {
		if err := c.finish(ctx, call, C.mg_wait(c.c, 0)); err != nil {
			return err
		}
		c.opened(call)
	}
	if err := c.usable(); err != nil {
		return err
	}
	if bytes > c.bufferBytes {
		C.free(c.c.buffer)
		c.c.buffer, c.bufferBytes = C.calloc(1, C.size_t(bytes)), bytes
		if c.c.buffer == nil {
			return c.breakDown(call, fmt.Errorf("no memory for %d bytes", bytes)) // others have entered
		}
	}
	return nil
}

// usable returns why no collective can be entered, if that is so.
func (c *Comm) usable() error {
	if c.closed != nil {
		return c.closed
	}
	return c.err
}

// trim gives a large buffer back.
func (c *Comm) trim() {
	if c.bufferBytes > keptBytes {
		C.free(c.c.buffer)
		c.c.buffer, c.bufferBytes = nil, 0
	}
}

// finish waits for the end of the collective whose start returned state. The
// communicator is broken if that ends with an error.
func (c *Comm) finish(ctx context.Context, call string, state C.int) error {
	switch state {
	case C.MG_DONE:
		return nil
	case C.MG_FINALIZED, C.MG_WRONG_THREAD:
		return failure(call, state) // nothing was started
	case C.MG_PENDING:
		state = c.wait(ctx, state)
	}
	switch state {
	case C.MG_DONE:
		return nil
	case C.MG_PENDING:
		return c.breakDown(call, ended(ctx))
	default:
		return c.breakDown(call, failure(call, state))
	}
}

func (c *Comm) breakDown(call string, cause error) error {
	c.err = &mpiguard.BrokenError{Call: call, Rank: c.rank, Cause: cause}
	return c.err
}

// wait polls the request under way until it is complete or ctx is done, and
// returns the last state.
func (c *Comm) wait(ctx context.Context, state C.int) C.int {
	begun := time.Now()
	for state == C.MG_PENDING {
		waited := time.Since(begun)
		if waited >= enterWait && ctx.Err() != nil {
			break
		}
		runtime.Gosched()
		state = C.mg_wait(c.c, C.int64_t(pause(waited)))
	}
	return state
}

// pause is how long to sleep before the next tests of a wait.
func pause(waited time.Duration) time.Duration {
	if waited < sleepAfter {
		return 0
	}
	return min(waited/32, maxSleep)
}

// ended returns why ctx did, also for people who gave it a cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
