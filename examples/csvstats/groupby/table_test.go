package groupby

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// budget is an Account with a limit.
type budget struct{ limitBytes, usedBytes, peakBytes int64 }

var errBudget = errors.New("refused")

func (b *budget) Grow(_ context.Context, n int64) error {
	if b.usedBytes+n > b.limitBytes {
		return errBudget
	}
	b.usedBytes += n
	b.peakBytes = max(b.peakBytes, b.usedBytes)
	return nil
}

func (b *budget) Shrink(n int64) { b.usedBytes -= n }

// A table does what a map does.
func TestTableIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	account := &budget{limitBytes: 1 << 40}
	table := NewTable(account)
	model := map[string]int64{}
	order := []string{}
	for range 200_000 {
		key := fmt.Sprint(random.IntN(50_000) * random.IntN(2))
		if _, ok := model[key]; !ok {
			order = append(order, key)
		}
		model[key]++
		g, err := table.Group(t.Context(), []byte(key))
		require.NoError(t, err)
		g.add(Number(len(key)))
	}
	require.Equal(t, len(model), table.Len())
	for i, key := range order {
		g := table.At(i)
		require.Equal(t, key, string(g.Key))
		require.Equal(t, model[key], g.Count)
		require.Equal(t, Number(len(key)), g.Mean())
	}
	held := int64(len(table.slots))*slotBytes + int64(len(table.pages))*(pageBytes+pointerBytes)
	assert.Zero(t, (account.usedBytes-held)%arenaBytes, "everything but the arenas is what the table holds now")
	assert.GreaterOrEqual(t, account.usedBytes, held)
}

func TestTableKeys(t *testing.T) {
	table := NewTable(nil)
	buffer := []byte("reused")
	first, err := table.Group(t.Context(), buffer)
	require.NoError(t, err)
	copy(buffer, "XXXXXX")
	assert.Equal(t, "reused", string(first.Key), "a key is a copy")

	empty, err := table.Group(t.Context(), nil)
	require.NoError(t, err)
	again, err := table.Group(t.Context(), []byte{})
	require.NoError(t, err)
	assert.Same(t, empty, again)

	_, err = table.Group(t.Context(), bytes.Repeat([]byte("k"), MaxKeyBytes))
	require.NoError(t, err)
	assert.Panics(t, func() { _, _ = table.Group(t.Context(), bytes.Repeat([]byte("k"), MaxKeyBytes+1)) })
	assert.Equal(t, 3, table.Len())
}

// Whatever is refused, the groups that are there stay usable, and the table goes
// on once there is memory.
func TestTableRefused(t *testing.T) {
	const groups = 3000
	account := &budget{}
	table := NewTable(account)
	for i := range groups {
		key := fmt.Appendf(nil, "station %d", i)
		for {
			g, err := table.Group(t.Context(), key)
			if err == nil {
				g.add(1)
				break
			}
			require.ErrorIs(t, err, errBudget)
			require.ErrorContains(t, err, fmt.Sprintf("no memory for group %d", i+1))
			require.Equal(t, i, table.Len())
			for j := range i {
				old, err := table.Group(t.Context(), fmt.Appendf(nil, "station %d", j))
				require.NoError(t, err)
				require.EqualValues(t, 1, old.Count)
			}
			account.limitBytes += 8 << 10
		}
	}
	require.Equal(t, groups, table.Len())
}

func TestLookupAllocatesNothing(t *testing.T) {
	data := generated(t, 64<<10, 1)
	rows := Rows{Layout: Layout{1, 2, ';'}, Table: NewTable(nil)}
	require.NoError(t, rows.Add(t.Context(), data))
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		if rows.Add(t.Context(), data) != nil {
			t.Fail()
		}
	}))
}
