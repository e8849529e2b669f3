package bufpool

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/level"
	"github.com/mpiguard/mpiguard/internal/offheap"
)

var errRefused = errors.New("refused")

// account is an Account with a fixed budget. It never waits.
type account struct {
	mu        sync.Mutex
	budget    int64
	size      int64
	peak      int64
	committed int64
	lvl       level.Level
	onGrow    func() // called without the lock, before each decision
}

func newAccount(t *testing.T, budget int64) *account {
	a := &account{budget: budget}
	t.Cleanup(func() {
		assert.Zero(t, a.size, "bytes left in the account")
		assert.Zero(t, a.committed, "bytes left committed")
	})
	return a
}

func (a *account) Grow(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.TryGrow(n)
}

func (a *account) TryGrow(n int64) error {
	if a.onGrow != nil {
		a.onGrow()
	}
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

func (a *account) Level() level.Level {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lvl
}

func (a *account) setBudget(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.budget = n
}

// check compares the account with the pool that is its only user.
func check(t *testing.T, a *account, p *Pool) {
	t.Helper()
	st := p.Stats()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Equal(t, a.size, st.ResidentBytes)
	if offheap.Mapped {
		require.Equal(t, a.size, a.committed)
	}
	require.Equal(t, st.Buffers, st.Out+st.Idle+st.Trimmed)
	if st.Waiting > 0 {
		require.Zero(t, st.Idle, "somebody waits beside idle buffers")
	}
}
