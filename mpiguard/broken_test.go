package mpiguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/mpiguard"
)

func TestBrokenErrorText(t *testing.T) {
	t.Parallel()
	e := &mpiguard.BrokenError{Call: "Barrier", Rank: 2, Cause: context.DeadlineExceeded}
	const text = "Barrier on rank 2: communicator is broken: context deadline exceeded"
	for _, tc := range []struct {
		missing []int
		want    string
	}{
		{nil, text},
		{[]int{3}, text + "; not entered by rank 3"},
		{[]int{0, 3}, text + "; not entered by rank 0, 3"},
		{[]int{0, 1, 3, 4, 5, 6, 7, 8}, text + "; not entered by rank 0, 1, 3, 4, 5, 6, 7, 8"},
		{[]int{0, 1, 3, 4, 5, 6, 7, 8, 9, 10}, text + "; not entered by rank 0, 1, 3, 4, 5, 6, 7, 8 and 2 more"},
	} {
		e.Missing = tc.missing
		assert.EqualError(t, e, tc.want)
	}
	assert.ErrorIs(t, e, mpiguard.ErrBroken)
	assert.ErrorIs(t, e, context.DeadlineExceeded)
}

func TestTooLongErrorText(t *testing.T) {
	t.Parallel()
	e := &mpiguard.TooLongError{Call: "Isend", Bytes: 1 << 31, LimitBytes: mpiguard.MaxMessageBytes}
	assert.EqualError(t, e, "Isend of 2147483648 bytes: too long for one message (limit 2147483647 bytes)")
	assert.ErrorIs(t, e, mpiguard.ErrTooLong)
}
