package chunk

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The end of a long line is found beyond what is read at once, and a rank whose
// span lies within such a line looks for it no second time.
func TestLineSpanOfLongLines(t *testing.T) {
	const longest = 20 << 10
	data := strings.Repeat(strings.Repeat("x", longest-1)+"\n", 5)
	size := int64(len(data))
	for ranks := 1; ranks < 12; ranks++ {
		at := int64(0)
		for rank := range ranks {
			of := Partition(size, ranks, rank)
			c := &countingReaderAt{ReaderAt: strings.NewReader(data)}
			s, err := LineSpan(t.Context(), c, size, of)
			require.NoError(t, err)
			require.Equal(t, at, s.Offset, "after the rank before")
			require.Zero(t, s.Offset%longest, "a start of a line")
			require.True(t, s.Length == 0 || s.Offset >= of.Offset && s.Offset < of.End(), "%v of %v", s, of)
			if s.Length == 0 && of.Offset > 0 {
				require.LessOrEqual(t, c.bytes, s.Offset-of.Offset+(4<<10)+1)
			}
			at = s.End()
		}
		require.Equal(t, size, at)
	}
}

func TestLineSpanRefusesSpansOutside(t *testing.T) {
	for _, s := range []Span{{-1, 1}, {0, -1}, {0, 3}, {3, 0}, {1, 2}} {
		_, err := LineSpan(t.Context(), strings.NewReader("a\nb\n"), 2, s)
		require.ErrorContains(t, err, "is not within [0, 2)", "%v", s)
	}
}
