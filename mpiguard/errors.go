package mpiguard

import "errors"

// The errors that callers tell apart with errors.Is.
var (
	// ErrClosed: the guard, or the reservation, was closed or released before.
	ErrClosed = errors.New("closed")
	// ErrBroken: an earlier collective ended before all ranks had taken part;
	// ranks may stand at different calls, so no collective can be trusted again.
	ErrBroken = errors.New("communicator is broken")
	// ErrConcurrent: a collective, or an MPI call of another goroutine, is under way.
	ErrConcurrent = errors.New("concurrent use of the communicator")
	// ErrWrongThread: MPI was initialised below MPI_THREAD_SERIALIZED, and this
	// call came from another thread than the one that did so.
	ErrWrongThread = errors.New("MPI called from another thread than it was initialised on")
	// ErrTruncated: a message was longer than the buffer that received it.
	ErrTruncated = errors.New("message longer than its buffer")
	// ErrTooLong: a message, or the result of a collective, above MaxMessageBytes.
	ErrTooLong = errors.New("too long for one message")
	// ErrCancelled: the receive was cancelled before a message matched it.
	ErrCancelled = errors.New("request cancelled")
	// ErrConfigMismatch: the ranks called New with configurations that differ in a
	// field on which collectives depend.
	ErrConfigMismatch = errors.New("configurations of the ranks differ")
	// ErrInUse: a guard on another communicator is open in this process.
	ErrInUse = errors.New("a guard on another communicator is open in this process")
	// ErrRefused: there is no headroom for the request now. See RefusedError.
	ErrRefused = errors.New("refused")
	// ErrNever: the request is above the whole budget and can never be granted.
	// An error that wraps ErrNever wraps ErrRefused too.
	ErrNever = errors.New("above the whole budget")
)
