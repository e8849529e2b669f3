package mpiguard

import (
	"context"
	"sync"
)

// Op is the reduction of an AllreduceUint64.
type Op uint8

// The reductions.
const (
	OpSum Op = iota
	OpMin
	OpMax
)

// Comm is what a Guard needs of a communicator: who we are, how many we are,
// and three collectives. mpicomm.World implements it over MPI, inproc.World
// with goroutines; commtest checks any implementation.
//
// All ranks of the communicator call the same collectives in the same order,
// one at a time. A collective always enters, even with a ctx that is done, so
// that no other rank is left waiting; ctx only ends the wait. After a wait that
// ended early the communicator is broken: the call returns an error that wraps
// ErrBroken and the cause (a *BrokenError), and so does every later collective
// on that rank, at once and without communication; messages go on. A call while
// a collective is under way on the same rank returns ErrConcurrent and changes
// nothing. Lengths that do not fit each other panic; a dst above MaxMessageBytes
// is ErrTooLong on all ranks alike.
type Comm interface {
	// Rank is this process's rank, from 0 to Size()-1.
	Rank() int
	// Size is the number of ranks.
	Size() int
	// Barrier returns when every rank has entered it. Collective.
	Barrier(ctx context.Context) error
	// AllreduceUint64 combines src of all ranks element by element into dst,
	// which has the same length and may be the same slice; a length of zero is a
	// no-op on all ranks. On an error dst holds garbage. Collective.
	AllreduceUint64(ctx context.Context, dst, src []uint64, op Op) error
	// Allgather stores the row of rank i at dst[i*len(row):]. Rows have one
	// length on all ranks and dst has Size()*len(row) bytes; a row of zero bytes
	// is a no-op on all ranks. On an error dst holds garbage. Collective.
	Allgather(ctx context.Context, dst, row []byte) error
}

// AnySource, as the source of Irecv and Iprobe, matches a message from any
// rank; AnyTag, as the tag, one with any tag.
const (
	AnySource = -1
	AnyTag    = -1
)

// MaxTag is the largest tag of a message: MPI promises no more than that.
const MaxTag = 1<<15 - 1

// MaxMessageBytes is the longest message of a Messenger. MPI counts elements in
// a C int; larger transfers are split by chunk/stream.
const MaxMessageBytes = 1<<31 - 1

// Envelope is what is known of a message: its source, its tag and its length.
type Envelope struct {
	Source, Tag int
	Bytes       int64
}

// Messenger is a Comm that can also send and receive without blocking, the
// part of MPI on which chunk/stream is built. None of its calls waits. Messages
// from one rank to another keep their order. All of them make progress in any
// call, also while a collective waits; between calls nothing moves.
//
// A buffer belongs to the Messenger from Isend or Irecv until Test reports done.
// Buffers should live outside the Go heap (bufpool with Config.ForMPI does so).
type Messenger interface {
	Comm
	// Isend starts to send buf to rank dest. A buffer above MaxMessageBytes
	// (ErrTooLong), a rank outside the communicator or a tag below 0 or above
	// MaxTag is an error.
	Isend(buf []byte, dest, tag int) (Request, error)
	// Irecv starts to receive into buf a message from rank source, or AnySource,
	// with the given tag, or AnyTag. A message longer than buf makes Test return
	// ErrTruncated.
	Irecv(buf []byte, source, tag int) (Request, error)
	// Iprobe reports whether a message that Irecv would match is there.
	Iprobe(source, tag int) (Envelope, bool, error)
}

// Request is a send or a receive under way.
type Request interface {
	// Test makes progress and reports whether the operation is complete, with
	// the error it ended with. From then on, and not before, the buffer is the
	// caller's again and Test returns the same answer. The Envelope is that of
	// the message received, and zero for a send. An error of an operation that is
	// not complete, such as ErrConcurrent, is one of Test alone.
	Test() (Envelope, bool, error)
	// Cancel asks for an end. A receive that was not matched yet completes with
	// ErrCancelled at a later Test; a send is never taken back, and one that was
	// matched completes as if Cancel had not been called.
	Cancel() error
}

// Aborter is a Comm that can end the whole job at once.
type Aborter interface {
	// Abort ends all ranks with the given exit code. It does not return.
	Abort(code int)
}

// SharedProcess is a Comm whose ranks are goroutines of one process (inproc):
// guards of several ranks, and of several such worlds, may then be open at a
// time, and the memory of the process is counted once for all ranks of a world.
type SharedProcess interface {
	Comm
	// World is equal for all ranks of one world and differs between worlds.
	World() any
	// AllgatherShared is Allgather without a result for each rank: all get the same
	// one, so that many ranks of a process need memory in proportion to their
	// number, not to its square. Nobody may change it. Collective.
	AllgatherShared(ctx context.Context, row []byte) (*SharedRows, error)
}

// SharedRows are the rows of all ranks of a process, for all of them.
type SharedRows struct {
	Rows []byte // the row of rank i at i*len(row)

	once  sync.Once
	value any
}

// memo is what build made of the rows when it was called for the first time.
func (s *SharedRows) memo(build func(rows []byte) any) any {
	s.once.Do(func() { s.value = build(s.Rows) })
	return s.value
}

// self is the communicator of one rank without MPI, in place of a nil Comm.
type self struct{}

func (self) Rank() int                     { return 0 }
func (self) Size() int                     { return 1 }
func (self) Barrier(context.Context) error { return nil }

func (self) AllreduceUint64(_ context.Context, dst, src []uint64, _ Op) error {
	if len(dst) != len(src) {
		panic("mpiguard: AllreduceUint64: dst and src differ in length")
	}
	copy(dst, src)
	return nil
}

func (self) Allgather(_ context.Context, dst, row []byte) error {
	if len(dst) != len(row) {
		panic("mpiguard: Allgather: dst is not Size() rows")
	}
	copy(dst, row)
	return nil
}
