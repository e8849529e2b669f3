// Package chunk works through data that is larger than memory, in chunks whose
// size follows the headroom of an account.
//
//	for line, err := range chunk.Lines(ctx, file, chunk.Config{Account: r}) { ... }
//
// A rank takes its part of a file with Partition and ReadAt, LinesAt or
// LineBlocksAt. How large a chunk is, a Sizer decides before each one.
//
// # Iterators
//
// An iterator yields values with a nil error, and at most one error, which comes
// last with a zero value. Errors of an input are of type *Error and say where in it
// they arose. A yielded slice may be changed by the loop, and is valid until the
// next step: after that its memory holds other data, and when the loop has ended
// none at all; a read then faults, as the memory is outside the Go heap. Leaving
// the loop, by break, return or panic, gives every byte back to the account.
//
// The ctx is looked at once a chunk, and ends waits for the account. A Read of an
// io.Reader that blocks is not interrupted: set a deadline on the connection.
//
// With -race or -tags invariants a slice is overwritten after its step, so that a
// program which kept one sees it in its tests.
package chunk
