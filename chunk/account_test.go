package chunk

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/internal/level"
)

var errRefused = errors.New("refused")

// account is an Account with a budget and a level that a test sets. Grow waits
// until the budget is raised or ctx ends.
type account struct {
	mu        sync.Mutex
	budget    int64
	lvl       level.Level
	size      int64
	committed int64
	peak      int64
	changed   chan struct{}
}

func newAccount(t *testing.T, budget int64) *account {
	a := &account{budget: budget, changed: make(chan struct{})}
	t.Cleanup(func() { a.checkEmpty(t) })
	return a
}

func (a *account) checkEmpty(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	assert.Zero(t, a.size, "bytes left in the account")
	assert.Zero(t, a.committed, "bytes left committed")
}

func (a *account) Grow(ctx context.Context, n int64) error {
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if a.TryGrow(n) == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *account) TryGrow(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n < 0 {
		panic("negative growth")
	}
	if n > a.budget-a.size {
		return errRefused
	}
	a.size += n
	a.peak = max(a.peak, a.size)
	return nil
}

func (a *account) Shrink(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.size -= n; n < 0 || a.size < a.committed {
		panic("account shrunk below what is committed")
	}
}

func (a *account) Commit(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.committed += n; a.committed < 0 || a.committed > a.size {
		panic("committed more than reserved")
	}
}

func (a *account) HeadroomBytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.budget - a.size
}

func (a *account) Level() level.Level {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lvl
}

func (a *account) set(budget int64, l level.Level) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.budget, a.lvl = budget, l
	close(a.changed)
	a.changed = make(chan struct{})
}

const plenty = math.MaxInt64
