//go:build !linux

package ledger

import (
	"errors"
	"fmt"
)

// Create makes a ledger that processes share, which needs Linux: the error wraps
// errors.ErrUnsupported.
func Create(slots int) (*Ledger, error) {
	checkSlots(slots)
	return nil, fmt.Errorf("ledger: create: %w", errors.ErrUnsupported)
}

// Open opens the ledger of another process, which needs Linux: the error wraps
// errors.ErrUnsupported.
func Open(Handle) (*Ledger, error) {
	return nil, fmt.Errorf("ledger: open: %w", errors.ErrUnsupported)
}
