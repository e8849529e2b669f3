// Package invariants says whether checks that cost time are compiled in: poison
// in memory that was given back, and a fresh handle for every use of a buffer.
package invariants

import "bytes"

// poison is what memory holds that nobody may read or write.
const poison = 0xdb

// Poison fills b when checks are compiled in.
func Poison(b []byte) {
	if !Enabled || len(b) == 0 {
		return
	}
	b[0] = poison
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Poisoned reports whether b still holds what Poison wrote; it is true when
// checks are not compiled in.
func Poisoned(b []byte) bool {
	if !Enabled || len(b) == 0 {
		return true
	}
	return b[0] == poison && bytes.Equal(b[1:], b[:len(b)-1])
}
