package compressed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errRefused = errors.New("refused")

// account grants up to a budget.
type account struct{ budget, size, peak int64 }

func newAccount(t *testing.T, budget int64) *account {
	a := &account{budget: budget}
	t.Cleanup(func() { assert.Zero(t, a.size, "bytes left in the account") })
	return a
}

func (a *account) Grow(ctx context.Context, n int64) error {
	if n > a.budget-a.size {
		return errRefused
	}
	a.size += n
	a.peak = max(a.peak, a.size)
	return ctx.Err()
}

func (a *account) Shrink(n int64) { a.size -= n }

func zstdOf(t testing.TB, data string, opts ...zstd.EOption) string {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, opts...)
	require.NoError(t, err)
	// As from a pipe: its length is not in the header.
	_, err = io.Copy(w, iotest.HalfReader(strings.NewReader(data)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func gzipOf(t testing.TB, data string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(data))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func read(t *testing.T, input string, a Account) (string, error) {
	t.Helper()
	r, err := NewReader(t.Context(), strings.NewReader(input), a)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	return string(data), err
}

// text returns n bytes that compress about fivefold.
func text(n int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	var sb strings.Builder
	for sb.Len() < n {
		fmt.Fprintf(&sb, "station %d;%d.%d\n", rng.IntN(400), rng.IntN(40), rng.IntN(10))
	}
	return sb.String()[:n]
}

func TestFormats(t *testing.T) {
	long := text(1 << 20)
	incompressible := make([]byte, 300<<10)
	for i := range incompressible {
		incompressible[i] = byte(rand.Uint32())
	}
	for name, data := range map[string]string{
		"empty": "", "one byte": "x", "short": "station;1.5\n", "long": long,
		"incompressible": string(incompressible), "zeroes": strings.Repeat("\x00", 3<<20),
	} {
		a := newAccount(t, 64<<20)
		for format, input := range map[string]string{
			"plain":        data,
			"gzip":         gzipOf(t, data),
			"gzip twice":   gzipOf(t, data[:len(data)/2]) + gzipOf(t, data[len(data)/2:]),
			"zstd":         zstdOf(t, data),
			"best":         zstdOf(t, data, zstd.WithEncoderLevel(zstd.SpeedBestCompression)),
			"no checksum":  zstdOf(t, data, zstd.WithEncoderCRC(false)),
			"one segment":  string(encodeAll(t, data)),
			"small window": zstdOf(t, data, zstd.WithWindowSize(zstd.MinWindowSize)),
			// The second frame needs a larger window than the first.
			"zstd twice": zstdOf(t, data[:len(data)/2], zstd.WithWindowSize(zstd.MinWindowSize)) + zstdOf(t, data[len(data)/2:], zstd.WithWindowSize(4<<20)),
			"skippable":  "\x5a\x2a\x4d\x18\x03\x00\x00\x00abc" + zstdOf(t, data) + "\x50\x2a\x4d\x18\x00\x00\x00\x00",
		} {
			got, err := read(t, input, a)
			require.NoError(t, err, "%s, %s", name, format)
			require.True(t, data == got, "%s, %s", name, format)
			require.Zero(t, a.size)
		}
	}
}

func encodeAll(t *testing.T, data string) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	require.NoError(t, err)
	return w.EncodeAll([]byte(data), nil)
}

// TestTruncated: an input that ends too early never looks complete.
func TestTruncated(t *testing.T) {
	data := text(300 << 10)
	for format, input := range map[string]string{
		"gzip": gzipOf(t, data),
		"zstd": zstdOf(t, data),
		"many": zstdOf(t, data) + "\x5a\x2a\x4d\x18\x03\x00\x00\x00abc" + zstdOf(t, data),
	} {
		whole := map[int]bool{len(input): true}
		if format == "many" { // also complete after each frame
			n := len(zstdOf(t, data))
			whole[n], whole[n+11] = true, true
		}
		for _, n := range []int{4, 5, 6, 7, 10, 17, 18, 20, 1000, len(input) / 2, len(input)/2 + 9, len(input) - 5, len(input) - 4, len(input) - 1} {
			got, err := read(t, input[:n], newAccount(t, 64<<20))
			if whole[n] {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s, %d of %d", format, n, len(input))
			assert.True(t, strings.HasPrefix(data+data, got))
		}
	}
}

func TestErrors(t *testing.T) {
	a := newAccount(t, 64<<20)
	input := []byte(zstdOf(t, text(100<<10)))
	input[len(input)-2] ^= 1
	_, err := read(t, string(input), a)
	require.ErrorIs(t, err, zstd.ErrCRCMismatch)
	require.ErrorContains(t, err, "compressed: zstd: ")

	_, err = read(t, gzipOf(t, "abc")+"rubbish that follows", a)
	require.ErrorIs(t, err, gzip.ErrHeader)
	_, err = read(t, zstdOf(t, "abc")+"rubbish that follows", a)
	require.Error(t, err)

	// A window that no machine has.
	_, err = read(t, "\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00", a)
	require.ErrorIs(t, err, zstd.ErrWindowSizeExceeded)

	_, err = NewReader(t.Context(), iotest.ErrReader(io.ErrClosedPipe), a)
	require.ErrorIs(t, err, io.ErrClosedPipe)

	// The account refuses: at the start, and at a window.
	a.budget = 1000
	_, err = read(t, "plain", a)
	require.ErrorIs(t, err, errRefused)
	assert.EqualError(t, err, "compressed: 69632 bytes for the decoder: refused")
	a.budget = inputBytes
	for _, input := range []string{gzipOf(t, "abc"), zstdOf(t, strings.Repeat(text(100<<10), 20))} {
		_, err = read(t, input, a)
		require.ErrorIs(t, err, errRefused)
	}
}

// TestCharge: a reader allocates no more than it charges, and not much less.
func TestCharge(t *testing.T) {
	data := strings.Repeat(text(1<<20), 9)
	for name, input := range map[string]string{
		"plain":      data,
		"gzip":       gzipOf(t, data[:1<<20]),
		"zstd 1 KiB": zstdOf(t, data[:1<<20], zstd.WithWindowSize(1<<10)),
		"zstd 64KiB": zstdOf(t, data[:1<<20], zstd.WithWindowSize(64<<10)),
		"zstd 1 MiB": zstdOf(t, data[:3<<20], zstd.WithWindowSize(1<<20)),
		"zstd 8 MiB": zstdOf(t, data, zstd.WithWindowSize(8<<20)),
	} {
		a := newAccount(t, 64<<20)
		p := make([]byte, 1<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := NewReader(t.Context(), strings.NewReader(input), a)
		require.NoError(t, err)
		for err == nil {
			_, err = r.Read(p)
		}
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, io.EOF)
		allocated := int64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: charged %d, allocated %d", name, a.peak, allocated)
		assert.LessOrEqual(t, allocated, a.peak, name)
		require.NoError(t, r.Close())
	}
}

// FuzzReader: no input makes the reader panic, hang or take more than it charges.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"", "plain", gzipOf(f, "abc"), zstdOf(f, "abcabcabcabc"), zstdOf(f, text(10000)), "\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		a := newAccount(t, 8<<20)
		r, err := NewReader(context.Background(), bytes.NewReader(input), a)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		_ = r.Close()
	})
}
