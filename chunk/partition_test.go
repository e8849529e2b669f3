package chunk

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPartition(t *testing.T) {
	for _, size := range []int64{0, 1, 2, 3, 7, 10, 1000, math.MaxInt64 - 1, math.MaxInt64} {
		for _, ranks := range []int{1, 2, 3, 4, 7, 64, 1001} {
			at := int64(0)
			for rank := range ranks {
				s := Partition(size, ranks, rank)
				require.Equal(t, at, s.Offset, "size %d ranks %d rank %d", size, ranks, rank)
				require.GreaterOrEqual(t, s.Length, size/int64(ranks))
				require.LessOrEqual(t, s.Length-1, (size-1)/int64(ranks))
				at = s.End()
			}
			require.Equal(t, size, at)
		}
	}
	assert.Equal(t, "[4, 7)", Partition(10, 3, 1).String())
	assert.PanicsWithValue(t, "chunk: Partition: negative size", func() { Partition(-1, 1, 0) })
	assert.PanicsWithValue(t, "chunk: Partition: rank 2 of 2", func() { Partition(1, 2, 2) })
	assert.PanicsWithValue(t, "chunk: Partition: rank -1 of 2", func() { Partition(1, 2, -1) })
	assert.PanicsWithValue(t, "chunk: Partition: rank 0 of 0", func() { Partition(1, 0, 0) })
}
