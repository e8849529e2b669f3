package chunk

import (
	"errors"
	"fmt"
)

// ErrLineTooLong: a line is longer than Config.MaxLineBytes.
var ErrLineTooLong = errors.New("line too long")

// Error is an error with its place in the input.
type Error struct {
	// OffsetBytes is the place: from the start of the file for the functions that
	// take a span, and from where the first Read began for the others. For a line
	// that is too long it is the start of that line.
	OffsetBytes int64
	// Line counts the lines from where the iterator began, the first being 1. It is
	// 0 where lines are not counted.
	Line int64
	// Err is the cause.
	Err error
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("chunk: line %d at offset %d: %v", e.Line, e.OffsetBytes, e.Err)
	}
	return fmt.Sprintf("chunk: at offset %d: %v", e.OffsetBytes, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
