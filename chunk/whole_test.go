package chunk

import (
	"bytes"
	"context"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadWhole(t *testing.T) {
	a := newAccount(t, plenty)
	data := bytes.Repeat([]byte("0123456789"), 300_000)
	for _, span := range []Span{{0, 0}, {7, 1}, {5, 2_999_990}, {0, 3_000_000}} {
		w, err := ReadWhole(t.Context(), bytes.NewReader(data), span, a)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data[span.Offset:span.End()], w.Bytes()))
		assert.GreaterOrEqual(t, a.size, span.Length)
		if span.Length > 0 {
			w.Bytes()[0] = 'x'
		}
		w.Release()
		w.Release()
		a.checkEmpty(t)
	}
	w, err := ReadWhole(t.Context(), strings.NewReader("abc"), Span{1, 2}, nil)
	require.NoError(t, err)
	assert.Equal(t, "bc", string(w.Bytes()))
	w.Release()
}

func TestReadWholeErrors(t *testing.T) {
	a := newAccount(t, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	r := &cancelReaderAt{bytes.NewReader(make([]byte, 3<<20)), cancel}
	_, err := ReadWhole(t.Context(), r, Span{0, 4 << 20}, refusing{a})
	require.ErrorIs(t, err, errRefused)
	assert.EqualError(t, err, "chunk: at offset 0: 4194304 bytes do not fit into memory: refused")
	require.NoError(t, ctx.Err(), "nothing was read")

	a.set(plenty, 0)
	_, err = ReadWhole(ctx, r, Span{0, 3 << 20}, a)
	require.ErrorIs(t, err, context.Canceled)
	_, err = ReadWhole(t.Context(), r, Span{5, 3 << 20}, a)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.EqualError(t, err, "chunk: at offset 3145728: the input ends before offset 3145733: unexpected EOF")
	_, err = ReadWhole(t.Context(), r, Span{0, math.MaxInt64}, a)
	require.ErrorContains(t, err, "9223372036854775807 bytes do not fit into memory")
	_, err = ReadWhole(t.Context(), r, Span{-1, 5}, a)
	require.ErrorContains(t, err, "a span of length 5 is not within")
}

// refusing is an account whose Grow does not wait.
type refusing struct{ *account }

func (r refusing) Grow(_ context.Context, n int64) error { return r.TryGrow(n) }
