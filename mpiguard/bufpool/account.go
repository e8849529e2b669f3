package bufpool

import (
	"context"

	"github.com/mpiguard/mpiguard/internal/level"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

// Account is what buffers are charged to. *mpiguard.Reservation satisfies it.
type Account interface {
	// Grow adds n bytes and waits for them until ctx ends. On an error nothing
	// has changed.
	Grow(ctx context.Context, n int64) error
	// TryGrow adds n bytes or fails at once. On an error nothing has changed.
	TryGrow(n int64) error
	// Shrink gives n bytes back.
	Shrink(n int64)
	// Commit says that n bytes of the account are resident and outside the Go
	// heap; a negative n takes that back.
	Commit(n int64)
	// Level is the pressure now (mpiguard.Level).
	Level() level.Level
}

// unaccounted stands in for a nil Account.
type unaccounted struct{ offheap.Unaccounted }

func (unaccounted) Level() level.Level { return level.Normal }
