//go:build !linux

package kernellog

import (
	"errors"
	"time"
)

// Read returns errors.ErrUnsupported.
func Read() ([]Kill, time.Time, error) { return nil, time.Time{}, errors.ErrUnsupported }
