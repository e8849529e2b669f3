//go:build cgo

package mpicomm

// #include <mpi.h>
// #include "mpicomm.h"
import "C"

import (
	"errors"
	"fmt"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// ErrFinalized: the call came after MPI was stopped.
var ErrFinalized = errors.New("MPI was stopped")

// Error is an error of MPI.
type Error struct {
	Call string // what was called, e.g. "Isend"
	Code int    // the code of the MPI library
	Text string // what MPI_Error_string says of it
}

func (e *Error) Error() string {
	return fmt.Sprintf("mpicomm: %s: %s (code %d)", e.Call, e.Text, e.Code)
}

// failure is the error for a state that is neither done nor pending.
func failure(call string, state C.int) error {
	switch state {
	case C.MG_NOT_INITIALIZED:
		return fmt.Errorf("mpicomm: %s: MPI was not started", call)
	case C.MG_NO_MEMORY:
		return fmt.Errorf("mpicomm: %s: no memory", call)
	case C.MG_FINALIZED:
		return fmt.Errorf("mpicomm: %s: %w", call, ErrFinalized)
	case C.MG_WRONG_THREAD:
		return fmt.Errorf("mpicomm: %s: %w (call it from main with runtime.LockOSThread in an init function, or start MPI with mpi.Start(true))",
			call, mpiguard.ErrWrongThread)
	}
	code := state - C.MG_ERROR
	var text [C.MPI_MAX_ERROR_STRING]C.char
	var length C.int
	if C.MPI_Error_string(code, &text[0], &length) != C.MPI_SUCCESS {
		length = 0
	}
	return &Error{Call: call, Code: int(code), Text: C.GoStringN(&text[0], length)}
}

func tooLong(call string, bytes int64) error {
	return fmt.Errorf("mpicomm: %w", &mpiguard.TooLongError{Call: call, Bytes: bytes, LimitBytes: mpiguard.MaxMessageBytes})
}
