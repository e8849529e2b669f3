//go:build cgo

package mpicomm

// #cgo linux CFLAGS: -I/usr/lib/x86_64-linux-gnu/openmpi/include -pthread
// #cgo linux LDFLAGS: -pthread -L/usr/lib/x86_64-linux-gnu/openmpi/lib -lmpi
// #include <stdlib.h>
// #include "mpicomm.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	mpi "github.com/sbromberger/gompi"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// Comm is a communicator of its own, apart from those that the program has
// through gompi. It is a mpiguard.Messenger and a mpiguard.Aborter.
type Comm struct {
	c           *C.mg_comm // C memory: MPI may use it after a wait was given up
	rank, size  int
	opening     bool  // a World that is not known to be complete yet
	bufferBytes int64 // of c.buffer
	err         error // why no collective works any more
	closed      error // why nothing does
}

var (
	_ mpiguard.Messenger = (*Comm)(nil)
	_ mpiguard.Aborter   = (*Comm)(nil)
)

// inMPI is set while a call of this package runs: MPI started with
// mpi.Start(false) allows no two at a time, whatever their communicators.
var inMPI atomic.Bool

func acquire() error {
	if !inMPI.CompareAndSwap(false, true) {
		return fmt.Errorf("mpicomm: %w", mpiguard.ErrConcurrent)
	}
	return nil
}

func release() { inMPI.Store(false) }

var world struct {
	sync.Mutex
	comm *Comm
}

// openWait is how long World waits for the other ranks to call it.
const openWait = time.Second

// World returns the communicator of all ranks, a duplicate of MPI_COMM_WORLD
// which is made once and never freed: the same one each time. It panics if MPI
// was not started, or was stopped before the first World.
//
// The first World is Collective: all ranks call it in the same order among
// their other collectives. It waits for the others for a second at most. Where
// one is later, or never comes, the first collective on World waits for it as
// its ctx says, and messages fail until then.
func World() *Comm {
	world.Lock()
	defer world.Unlock()
	if world.comm != nil {
		return world.comm
	}
	if !mpi.IsOn() {
		panic("mpicomm: World before MPI was started (mpi.Start of github.com/sbromberger/gompi)")
	}
	c := &Comm{c: newC(), opening: true}
	if err := acquire(); err != nil {
		c.closed = err
		return c
	}
	defer release()
	state := C.mg_open_world(c.c)
	if state == C.MG_FINALIZED {
		panic("mpicomm: World after MPI was stopped")
	}
	c.rank, c.size = mpi.WorldRank(), mpi.WorldSize()
	if state != C.MG_PENDING {
		c.closed = failure("World", state)
		return c
	}
	world.comm = c
	ctx, cancel := context.WithTimeout(context.Background(), openWait)
	defer cancel()
	switch state = c.wait(ctx, state); state {
	case C.MG_DONE:
		c.opened("World")
	case C.MG_PENDING:
	default:
		c.closed = failure("World", state)
	}
	return c
}

// Group returns a new communicator of the given ranks of World, whose ranks in
// it are their places in the list. Collective over those ranks alone, which all
// give the same list; it waits for them without limit, as MPI has no other way.
// It panics if MPI was not started. Each call takes memory until Free.
func Group(ranks []int) (*Comm, error) {
	if !mpi.IsOn() {
		panic("mpicomm: Group before MPI was started (mpi.Start of github.com/sbromberger/gompi)")
	}
	size := mpi.WorldSize()
	cranks := make([]C.int, len(ranks))
	for i, r := range ranks {
		if r < 0 || r >= size || slices.Contains(ranks[:i], r) {
			return nil, fmt.Errorf("mpicomm: Group of ranks %v of %d: %d is out of range or there twice", ranks, size, r)
		}
		cranks[i] = C.int(r)
	}
	if !slices.Contains(ranks, mpi.WorldRank()) {
		return nil, fmt.Errorf("mpicomm: Group of ranks %v called by rank %d", ranks, mpi.WorldRank())
	}
	return open("Group", func(c *C.mg_comm) C.int {
		return C.mg_open_group(c, unsafe.SliceData(cranks), C.int(len(cranks)))
	})
}

// Node returns a new communicator of the ranks that share memory with this
// one, in the order of World. Collective over World; it waits for all ranks
// without limit. It panics if MPI was not started. Each call takes memory until
// Free.
func Node() (*Comm, error) {
	if !mpi.IsOn() {
		panic("mpicomm: Node before MPI was started (mpi.Start of github.com/sbromberger/gompi)")
	}
	return open("Node", func(c *C.mg_comm) C.int { return C.mg_open_node(c) })
}

func open(call string, start func(*C.mg_comm) C.int) (*Comm, error) {
	if err := acquire(); err != nil {
		return nil, err
	}
	defer release()
	c := &Comm{c: newC()}
	if state := start(c.c); state != C.MG_DONE {
		C.free(unsafe.Pointer(c.c))
		return nil, failure(call, state)
	}
	c.opened(call)
	return c, c.closed
}

func newC() *C.mg_comm { return (*C.mg_comm)(C.calloc(1, C.sizeof_mg_comm)) }

// opened completes an opening that MPI is done with.
func (c *Comm) opened(call string) {
	c.opening = false
	var rank, size C.int
	if state := C.mg_opened(c.c, &rank, &size); state != C.MG_DONE {
		c.closed = failure(call, state)
		return
	}
	c.rank, c.size = int(rank), int(size)
}

// Free gives back what Group or Node took. Collective. No message may be under
// way. It panics on World; on a broken communicator, which MPI still uses, it
// returns what broke it. Afterwards all calls return ErrClosed.
func (c *Comm) Free() error {
	if c == World() {
		panic("mpicomm: Free of World")
	}
	if err := acquire(); err != nil {
		return err
	}
	defer release()
	if err := c.usable(); err != nil {
		return err
	}
	if c.c.waiting != nil {
		return errors.New("mpicomm: Free with receives under way")
	}
	if state := C.mg_free(c.c); state != C.MG_DONE {
		return failure("Free", state)
	}
	c.c = nil
	c.closed = fmt.Errorf("mpicomm: communicator: %w", mpiguard.ErrClosed)
	return nil
}

// Rank returns this process's rank in the communicator, also after mpi.Stop.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks of the communicator, also after mpi.Stop.
func (c *Comm) Size() int { return c.size }

// Abort ends all ranks of the job, whatever they do, with the given exit code.
// It may be called by any goroutine at any time. It does not return.
func (c *Comm) Abort(code int) { C.mg_abort(C.int(code)) }
