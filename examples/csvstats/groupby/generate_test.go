package groupby

import (
	"bytes"
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func generated(t *testing.T, sizeBytes int64, seed uint64) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Generate(&out, sizeBytes, seed))
	return out.Bytes()
}

func TestGenerateIsDeterministic(t *testing.T) {
	a := generated(t, 100_000, 7)
	assert.Equal(t, a, generated(t, 100_000, 7))
	assert.NotEqual(t, a, generated(t, 100_000, 8))
	assert.Equal(t, a[:50_000], generated(t, 200_000, 7)[:50_000], "a larger file begins like a smaller one")
	const first = "Dunland;37.6\nØstholm;-20.5\nLundton;22.3\n"
	assert.Equal(t, first, string(a[:len(first)]), "the rows of a seed never change")
}

func TestGenerateLayout(t *testing.T) {
	const size = 1 << 20
	data := generated(t, size, 1)
	assert.LessOrEqual(t, len(data), size)
	assert.Greater(t, len(data), size-32)
	assert.Regexp(t, regexp.MustCompile(`^([^;"\n]+;-?[0-9]{1,2}\.[0-9]\n)+$`), string(data))

	rows := Rows{Layout: Layout{1, 2, ';'}, Table: NewTable(nil)}
	require.NoError(t, rows.Add(t.Context(), data))
	assert.Equal(t, stations, rows.Table.Len())
}

func TestGenerateSmall(t *testing.T) {
	for _, size := range []int64{0, 1, 4} {
		assert.Empty(t, generated(t, size, 1))
	}
}

type failingWriter struct{ error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.error }

func TestGenerateReportsAFullDisk(t *testing.T) {
	full := errors.New("no space left")
	assert.Equal(t, full, Generate(failingWriter{full}, 1<<10, 1))
	assert.Equal(t, full, Generate(failingWriter{full}, 8<<20, 1))
}
