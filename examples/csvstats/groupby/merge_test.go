package groupby_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

var layout = groupby.Layout{Key: 1, Value: 2, Separator: ';'}

func answer(t *testing.T, table *groupby.Table) string {
	t.Helper()
	var text []byte
	groups, err := table.Sorted(t.Context())
	require.NoError(t, err)
	for _, g := range groups {
		text = g.AppendTo(text)
	}
	return string(text)
}

func digestOf(t *testing.T, table *groupby.Table) string {
	t.Helper()
	groups, err := table.Sorted(t.Context())
	require.NoError(t, err)
	return groupby.Digest(groups)
}

// The answer does not depend on how many ranks there are or where the file is cut.
func TestMergeAnyCut(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for _, ranks := range []int{1, 2, 3, 4, 8} {
		for range 5 {
			var file bytes.Buffer
			require.NoError(t, groupby.Generate(&file, random.Int64N(200_000), random.Uint64()))
			lines := bytes.SplitAfter(file.Bytes(), []byte("\n"))
			whole := groupby.Rows{Layout: layout, Table: groupby.NewTable(nil)}
			require.NoError(t, whole.Add(t.Context(), file.Bytes()))

			parts := make([][]byte, ranks)
			for _, line := range lines {
				r := random.IntN(ranks)
				parts[r] = append(parts[r], line...)
			}
			var merged, digest string
			err := inproc.Run(ranks, func(c mpiguard.Messenger) error {
				rows := groupby.Rows{Layout: layout, Table: groupby.NewTable(nil)}
				if err := rows.Add(t.Context(), parts[c.Rank()]); err != nil {
					return err
				}
				before := answer(t, rows.Table)
				if err := groupby.Merge(context.Background(), c, rows.Table); err != nil {
					return err
				}
				if c.Rank() == 0 {
					merged, digest = answer(t, rows.Table), digestOf(t, rows.Table)
				} else if before != answer(t, rows.Table) {
					return errors.New("the table of another rank than 0 has changed")
				}
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, answer(t, whole.Table), merged)
			require.Equal(t, digestOf(t, whole.Table), digest)
		}
	}
}

// Long keys make several rounds, of different number on each rank.
func TestMergeManyRounds(t *testing.T) {
	const ranks, groupsPerRank = 4, 700
	long := bytes.Repeat([]byte("k"), groupby.MaxKeyBytes-10)
	err := inproc.Run(ranks, func(c mpiguard.Messenger) error {
		rows := groupby.Rows{Layout: layout, Table: groupby.NewTable(nil)}
		for i := range groupsPerRank * c.Rank() {
			if err := rows.Add(t.Context(), fmt.Appendf(nil, "%s%d;%d\n", long, i, c.Rank())); err != nil {
				return err
			}
		}
		if err := groupby.Merge(context.Background(), c, rows.Table); err != nil || c.Rank() != 0 {
			return err
		}
		if !assert.Equal(t, (ranks-1)*groupsPerRank, rows.Table.Len()) {
			return nil
		}
		for i := range rows.Table.Len() {
			g := rows.Table.At(i)
			var n int64
			_, err := fmt.Sscan(string(g.Key[len(long):]), &n)
			assert.NoError(t, err)
			assert.Equal(t, ranks-1-n/groupsPerRank, g.Count, "group %d", n)
			assert.EqualValues(t, (ranks-1)*1_000_000, g.Max)
		}
		return nil
	})
	require.NoError(t, err)
}

type nothing struct{}

var errNothing = errors.New("nothing left")

func (nothing) Grow(context.Context, int64) error { return errNothing }
func (nothing) Shrink(int64)                      {}

// A refusal on rank 0 leaves nobody waiting.
func TestMergeRefused(t *testing.T) {
	long := bytes.Repeat([]byte("k"), groupby.MaxKeyBytes-10)
	errs := make([]error, 3)
	err := inproc.Run(len(errs), func(c mpiguard.Messenger) error {
		var account groupby.Account = nothing{}
		if c.Rank() != 0 {
			account = nil
		}
		rows := groupby.Rows{Layout: layout, Table: groupby.NewTable(account)}
		for i := range 1000 * c.Rank() {
			if err := rows.Add(t.Context(), fmt.Appendf(nil, "%s%d;1\n", long, i)); err != nil {
				return err
			}
		}
		errs[c.Rank()] = groupby.Merge(context.Background(), c, rows.Table)
		return nil
	})
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], errNothing)
	assert.NoError(t, errs[1])
	assert.NoError(t, errs[2])
}

func TestMergeBytesStaysBounded(t *testing.T) {
	for _, ranks := range []int{1, 2, 4, 128, 1000} {
		assert.LessOrEqual(t, groupby.MergeBytes(ranks), int64(2<<20), "%d ranks", ranks)
	}
}
