package offheap

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRoundUp(t *testing.T) {
	for _, c := range [][3]int64{
		{0, 8, 0}, {1, 8, 8}, {8, 8, 8}, {9, 8, 16}, {5, 1, 5},
		{math.MaxInt64 - 9, 8, math.MaxInt64 - 15 + 8}, {math.MaxInt64, 8, math.MaxInt64},
	} {
		assert.Equal(t, c[2], RoundUp(c[0], c[1]), "%d to a multiple of %d", c[0], c[1])
	}
}

func TestImpossibleSizes(t *testing.T) {
	for _, n := range []int64{-1, 0, math.MaxInt64, MaxBytes + 1} {
		_, err := Map(n, false)
		assert.Error(t, err, n)
	}
	mem, err := Map(PageBytes, false)
	require.NoError(t, err)
	_, err = Remap(mem, math.MaxInt64)
	assert.Error(t, err)
	mem[0] = 1 // still there
	require.NoError(t, Unmap(mem))
}

// residentBytes returns the anonymous memory of this process, or skips the test.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil || !Mapped {
		t.Skip("needs /proc/self/statm and memory outside the Go heap")
	}
	fields := strings.Fields(string(statm))
	resident, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(t, err)
	shared, err := strconv.ParseInt(fields[2], 10, 64)
	require.NoError(t, err)
	return (resident - shared) * PageBytes
}

// TestResident: memory is there when it was populated, not before, and not after.
func TestResident(t *testing.T) {
	const size, slack = 64 << 20, 4 << 20
	for _, huge := range []bool{false, true} {
		before := residentBytes(t)
		mem, err := Map(size, huge)
		require.NoError(t, err)
		assert.InDelta(t, before, residentBytes(t), slack)
		require.NoError(t, Populate(mem))
		assert.InDelta(t, before+size, residentBytes(t), slack)
		mem[0], mem[size-1] = 1, 2
		require.NoError(t, Unmap(mem))
		assert.InDelta(t, before, residentBytes(t), slack)
	}
}

var errRefused = errors.New("refused")

// account counts what it grants, up to a budget.
type account struct{ budget, size, committed int64 }

func (a *account) Grow(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.TryGrow(n)
}

func (a *account) TryGrow(n int64) error {
	if n > a.budget-a.size {
		return errRefused
	}
	a.size += n
	return nil
}
func (a *account) Shrink(n int64) { a.size -= n }
func (a *account) Commit(n int64) { a.committed += n }

func TestBuffer(t *testing.T) {
	a := &account{budget: 100 * PageBytes}
	b := NewBuffer(a)
	assert.Empty(t, b.Bytes())
	for i, n := range []int64{1, 10, PageBytes, PageBytes + 1, 100 * PageBytes, 7, 50 * PageBytes, 0, 3 * PageBytes} {
		old := string(b.Bytes())
		if i%2 == 0 {
			require.NoError(t, b.TryResize(n))
		} else {
			require.NoError(t, b.Resize(t.Context(), n))
		}
		require.Len(t, b.Bytes(), int(n))
		require.Equal(t, int(n), cap(b.Bytes()))
		require.Equal(t, RoundUp(n, PageBytes), a.size)
		if Mapped {
			require.Equal(t, a.size, a.committed)
		}
		kept := min(len(old), int(n))
		require.Equal(t, old[:kept], string(b.Bytes()[:kept]), "the contents are kept")
		for j := range b.Bytes() {
			b.Bytes()[j] = byte(i + j)
		}
	}
	b.Free()
	b.Free()
	assert.Zero(t, a.size)
	assert.Zero(t, a.committed)
}

// TestBufferErrors: on an error nothing has changed.
func TestBufferErrors(t *testing.T) {
	a := &account{budget: 4 * PageBytes}
	b := NewBuffer(a)
	require.NoError(t, b.TryResize(2*PageBytes))
	b.Bytes()[0] = 42
	unchanged := func() {
		t.Helper()
		assert.Len(t, b.Bytes(), int(2*PageBytes))
		assert.Equal(t, byte(42), b.Bytes()[0])
		assert.Equal(t, 2*PageBytes, a.size)
	}
	require.ErrorIs(t, b.TryResize(5*PageBytes), errRefused)
	unchanged()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Resize(ctx, 3*PageBytes), context.Canceled)
	unchanged()
	a.budget = math.MaxInt64
	require.Error(t, b.TryResize(MaxBytes), "the account grants it, the kernel does not")
	unchanged()
	b.Free()
	require.Error(t, b.TryResize(MaxBytes))
	assert.Zero(t, a.size)
	assert.Empty(t, b.Bytes())
}
