package chunk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type particle struct { // the same in a file and in memory
	X, Y, Z float64
	Charge  int32
	Kind    [4]uint8
}

type padded struct { // 1 + 8 + 2 bytes in a file, 24 in memory
	Flag bool
	X    float64
	Code uint16
}

type nested struct {
	ID   uint32
	_    [4]byte
	Grid [2][3]struct {
		A int16
		B complex64
		C bool
	}
}

// allOf reads the records of all ranks.
func allOf[T any](t *testing.T, ra io.ReaderAt, n int64, ranks int, cfg Config) []T {
	t.Helper()
	var all []T
	for rank := range ranks {
		for recs, err := range Records[T](t.Context(), ra, Partition(n, ranks, rank), cfg) {
			require.NoError(t, err)
			require.NotEmpty(t, recs)
			require.Equal(t, len(recs), cap(recs))
			all = append(all, recs...)
		}
	}
	return all
}

func testRecords[T any](t *testing.T) {
	twoCores(t)
	size := binary.Size(*new(T))
	name := filepath.Join(t.TempDir(), "records")
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := rng.IntN(200)
		raw := make([]byte, n*size)
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		require.NoError(t, os.WriteFile(name, append(raw, "beyond the end"...), 0o600))
		f, err := os.Open(name)
		require.NoError(t, err)
		for _, order := range []binary.ByteOrder{nil, binary.LittleEndian, binary.BigEndian, binary.NativeEndian} {
			want := make([]T, n)
			if order == nil {
				_, err = binary.Decode(raw, binary.LittleEndian, want)
			} else {
				_, err = binary.Decode(raw, order, want)
			}
			require.NoError(t, err)
			for _, cfg := range []Config{{}, {ReadAhead: true}, {Mmap: true}} {
				a := newAccount(t, plenty)
				cfg.Account, cfg.ByteOrder, cfg.Sizer = a, order, Pin(1+rng.Int64N(5000))
				got := allOf[T](t, f, int64(n), 1+rng.IntN(4), cfg)
				// Compared by bytes, as a NaN does not equal itself.
				wantBytes, _ := binary.Append(nil, binary.LittleEndian, want)
				gotBytes, _ := binary.Append(nil, binary.LittleEndian, got)
				require.True(t, bytes.Equal(wantBytes, gotBytes), "seed %d, order %v, %+v", seed, order, cfg)
				a.checkEmpty(t)
			}
		}
		f.Close()
	}
}

func TestRecords(t *testing.T) {
	t.Run("uint8", testRecords[uint8])
	t.Run("int16", testRecords[int16])
	t.Run("float64", testRecords[float64])
	t.Run("complex128", testRecords[complex128])
	t.Run("array", testRecords[[3]uint32])
	t.Run("particle", testRecords[particle])
	t.Run("padded", testRecords[padded])
	t.Run("nested", testRecords[nested])
}

// TestRecordsAreNotCopied: where memory and file agree, the yielded slice is the
// buffer.
func TestRecordsAreNotCopied(t *testing.T) {
	a := newAccount(t, plenty)
	data := make([]byte, 10*unsafe.Sizeof(particle{}))
	cfg := Config{Account: a, ByteOrder: binary.NativeEndian}
	for range Records[particle](t.Context(), bytes.NewReader(data), Span{0, 10}, cfg) {
		assert.EqualValues(t, offheapPage, a.size, "one buffer")
	}
	for range Records[padded](t.Context(), bytes.NewReader(data), Span{0, 10}, cfg) {
		assert.EqualValues(t, 2*offheapPage, a.size, "one to read into and one for the values")
	}
}

func TestRecordErrors(t *testing.T) {
	ctx, data := t.Context(), bytes.NewReader(make([]byte, 100))
	type deep struct{ A [2]struct{ Name string } }
	for want, seq := range map[string]error{
		"chunk: int has no fixed size: it is of type int":                                firstError(Records[int](ctx, data, Span{}, Config{})),
		"chunk: *int holds a pointer: it is of type *int":                                firstError(Records[*int](ctx, data, Span{}, Config{})),
		"chunk: chunk.deep.A[0].Name holds a pointer: it is of type string":              firstError(Records[deep](ctx, data, Span{}, Config{})),
		"chunk: struct {} takes no bytes":                                                firstError(Records[struct{}](ctx, data, Span{}, Config{})),
		"chunk: at offset 100: the input ends before offset 104: unexpected EOF":         firstError(Records[uint64](ctx, data, Span{0, 13}, Config{})),
		"chunk: at offset 1: a span of length -1 is not within [0, 1152921504606846975)": firstError(Records[uint64](ctx, data, Span{1, -1}, Config{})),
	} {
		assert.EqualError(t, seq, want)
	}
	// The whole records before the end are yielded.
	n := 0
	var last error
	for recs, err := range Records[[8]byte](ctx, data, Span{0, 13}, Config{Sizer: Pin(24)}) {
		n += len(recs)
		last = err
	}
	assert.Equal(t, 12, n)
	require.ErrorIs(t, last, io.ErrUnexpectedEOF)
}

func firstError[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRecordsInSmallAccount: values that take more memory than their records come
// in smaller batches where the account has no more.
func TestRecordsInSmallAccount(t *testing.T) {
	a := newAccount(t, 3*offheapPage)
	raw, err := binary.Append(nil, binary.LittleEndian, make([]padded, 1000))
	require.NoError(t, err)
	n := 0
	for recs, err := range Records[padded](t.Context(), bytes.NewReader(raw), Span{0, 1000}, Config{Account: a, Sizer: Pin(offheapPage)}) {
		require.NoError(t, err)
		n += len(recs)
	}
	assert.Equal(t, 1000, n)

	a = newAccount(t, offheapPage)
	ctx, cancel := context.WithCancel(t.Context())
	cfg := Config{Account: a, Sizer: Pin(offheapPage)}
	for _, err = range Records[padded](ctx, &cancelReaderAt{bytes.NewReader(raw), cancel}, Span{0, 1000}, cfg) {
	}
	require.ErrorIs(t, err, context.Canceled)
	assert.EqualError(t, err, "chunk: at offset 0: buffer of 24 bytes: context canceled")
}

type cancelReaderAt struct {
	io.ReaderAt
	cancel func()
}

func (c *cancelReaderAt) ReadAt(p []byte, off int64) (int, error) {
	c.cancel()
	return c.ReaderAt.ReadAt(p, off)
}

func TestRecordsBreak(t *testing.T) {
	a := newAccount(t, plenty)
	raw := bytes.NewReader(make([]byte, 1100))
	for at := range 11 {
		i := 0
		for range Records[padded](t.Context(), raw, Span{0, 100}, Config{Account: a, Sizer: Pin(110)}) {
			if i++; i > at {
				break
			}
		}
		a.checkEmpty(t)
	}
}

func TestLoad(t *testing.T) {
	a := newAccount(t, plenty)
	for _, buffer := range []int64{1, 24, 100, 1000, 1 << 20} {
		next := 0
		fill := func(batch []padded) (int, error) {
			require.NotEmpty(t, batch)
			n := min(len(batch), 3, 100-next) // three at a time
			for i := range n {
				batch[i].Code = uint16(next)
				next++
			}
			if next == 100 {
				return n, io.EOF
			}
			return n, nil
		}
		var got []uint16
		for batch, err := range Load(t.Context(), fill, Config{Account: a, Sizer: Pin(buffer)}) {
			require.NoError(t, err)
			full := max(int(buffer/24), 1)
			require.True(t, len(batch) == full || len(got)+len(batch) == 100, "%d of %d", len(batch), full)
			for _, p := range batch {
				got = append(got, p.Code)
			}
		}
		require.Len(t, got, 100)
		for i, c := range got {
			require.EqualValues(t, i, c)
		}
		a.checkEmpty(t)
	}

	_, err := next(Load(t.Context(), func([]string) (int, error) { return 0, nil }, Config{}))
	require.EqualError(t, err, "chunk: string holds a pointer")
	_, err = next(Load(t.Context(), func([][0]int) (int, error) { return 0, nil }, Config{}))
	require.EqualError(t, err, "chunk: [0]int takes no bytes")
	batch, err := next(Load(t.Context(), func(b []int) (int, error) { b[0] = 7; return 1, errDisk }, Config{Account: a}))
	require.NoError(t, err)
	_ = batch
	err = firstError(Load(t.Context(), func(b []int) (int, error) { return 1, errDisk }, Config{Account: a}))
	require.ErrorIs(t, err, errDisk)
	err = firstError(Load(t.Context(), func(b []int) (int, error) { return len(b) + 1, nil }, Config{}))
	require.ErrorContains(t, err, "impossible count")
}

// next returns what a sequence yields first.
func next[T any](seq iter.Seq2[[]T, error]) (int, error) {
	for batch, err := range seq {
		return len(batch), err
	}
	return 0, errors.New("nothing")
}

func TestPointerIn(t *testing.T) {
	type empty struct{ _ [0]string }
	for v, want := range map[any]string{
		1: "", 1.5: "", complex(1, 2): "", true: "", uintptr(1): "", particle{}: "", empty{}: "",
		"s": "x", struct{ P *int }{}: "x.P", [2]struct{ C chan int }{}: "x[0].C", unsafe.Pointer(nil): "x",
		struct{ F interface{ M() } }{}: "x.F",
	} {
		assert.Equal(t, want, pointerIn(reflect.TypeOf(v), "x"), "%T", v)
	}
	for _, v := range []any{[]int{}, map[int]int{}, func() {}} {
		assert.Equal(t, "x", pointerIn(reflect.TypeOf(v), "x"), "%T", v)
	}
}

// FuzzRecords compares with encoding/binary.
func FuzzRecords(f *testing.F) {
	f.Add(strings.Repeat("0123456789", 20), uint8(30), uint8(2), true)
	f.Fuzz(func(t *testing.T, raw string, buffer, ranks uint8, big bool) {
		var order binary.ByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		cfg := Config{Sizer: Pin(int64(buffer) + 1), ByteOrder: order}
		fuzzRecords[padded](t, raw, int(ranks)%8+1, cfg)
		fuzzRecords[particle](t, raw, int(ranks)%8+1, cfg)
	})
}

func fuzzRecords[T any](t *testing.T, raw string, ranks int, cfg Config) {
	n := len(raw) / binary.Size(*new(T))
	want := make([]T, n)
	if _, err := binary.Decode([]byte(raw), cfg.ByteOrder, want); err != nil {
		t.Fatal(err)
	}
	got := allOf[T](t, strings.NewReader(raw), int64(n), ranks, cfg)
	w, _ := binary.Append(nil, cfg.ByteOrder, want)
	g, _ := binary.Append(nil, cfg.ByteOrder, got)
	if !bytes.Equal(w, g) {
		t.Fatalf("%v instead of %v", got, want)
	}
}
