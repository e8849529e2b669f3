package mpiguard

import (
	"fmt"
	"strings"
)

// BrokenError says how a communicator broke on this rank. It wraps ErrBroken
// and its cause, and is what every later collective on that rank returns too.
type BrokenError struct {
	Call string // the collective whose wait ended early, e.g. "Barrier"
	Rank int    // the rank on which it did: this one
	// Missing are the ranks that had not entered it, in rising order, where the
	// communicator can know: inproc does, MPI does not tell.
	Missing []int
	Cause   error // what ended the wait: the error of the ctx, or of MPI
}

const missingShown = 8 // ranks that the text of a BrokenError names

func (e *BrokenError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on rank %d: %v: %v", e.Call, e.Rank, ErrBroken, e.Cause)
	for i, r := range e.Missing {
		switch i {
		case 0:
			fmt.Fprintf(&b, "; not entered by rank %d", r)
		case missingShown:
			fmt.Fprintf(&b, " and %d more", len(e.Missing)-i)
			return b.String()
		default:
			fmt.Fprintf(&b, ", %d", r)
		}
	}
	return b.String()
}

// Unwrap returns ErrBroken and the cause.
func (e *BrokenError) Unwrap() []error { return []error{ErrBroken, e.Cause} }

// TooLongError is the ErrTooLong of a message, or of a collective's result,
// that MPI could not count in a C int. Nothing was communicated.
type TooLongError struct {
	Call              string
	Bytes, LimitBytes int64
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%s of %d bytes: %v (limit %d bytes)", e.Call, e.Bytes, ErrTooLong, e.LimitBytes)
}

// Unwrap returns ErrTooLong.
func (e *TooLongError) Unwrap() error { return ErrTooLong }
