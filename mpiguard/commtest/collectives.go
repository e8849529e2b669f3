package commtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/mpiguard"
)

var commChecks = []check[mpiguard.Comm]{
	{"ranks are 0 to size-1", checkRanks},
	{"barrier holds until all have entered", checkBarrier},
	{"allreduce", checkAllreduce},
	{"allgather", checkAllgather},
	{"zero lengths", checkZeroLengths},
	{"many collectives in a row", checkMany},
	{"lengths that do not fit panic", checkPanics},
	{"results that are too long", checkTooLong},
	{"a ctx that is done still enters", checkDoneContext},
}

func checkRanks(t *testing.T, c mpiguard.Comm) {
	assert.GreaterOrEqual(t, c.Size(), 1)
	seen := make([]uint64, c.Size())
	seen[c.Rank()] = 1
	if assert.NoError(t, c.AllreduceUint64(patient(t), seen, seen, mpiguard.OpSum)) {
		for _, n := range seen {
			assert.EqualValues(t, 1, n, "ranks by number: %v", seen)
		}
	}
}

func checkBarrier(t *testing.T, c mpiguard.Comm) {
	for last := range c.Size() {
		if c.Rank() == last {
			time.Sleep(20 * time.Millisecond)
		}
		entered := uint64(time.Now().UnixNano())
		if !assert.NoError(t, c.Barrier(patient(t))) {
			return
		}
		left := uint64(time.Now().UnixNano())
		both := []uint64{entered, math.MaxUint64 - left} // the latest, and the earliest as a maximum
		if !assert.NoError(t, c.AllreduceUint64(patient(t), both, both, mpiguard.OpMax)) {
			return
		}
		assert.LessOrEqual(t, both[0], math.MaxUint64-both[1], "a rank left before another entered")
	}
}

// value is element i of the given rank in some call: any bits, also large ones.
func value(call, rank, i int) uint64 {
	x := uint64(call+1)*0x9e3779b97f4a7c15 ^ uint64(rank+1)*0xbf58476d1ce4e5b9 ^ uint64(i+1)*0x94d049bb133111eb
	x ^= x >> 29
	return x * 0xd6e8feb86659fd93
}

func values(call, rank, n int) []uint64 {
	v := make([]uint64, n)
	for i := range v {
		v[i] = value(call, rank, i)
	}
	return v
}

func row(call, rank, n int) []byte {
	b := make([]byte, 0, n+8)
	for i := 0; len(b) < n; i++ {
		b = binary.LittleEndian.AppendUint64(b, value(call, rank, i))
	}
	return b[:n]
}

func reduced(call, size, n int, op mpiguard.Op) []uint64 {
	out := values(call, 0, n)
	for rank := 1; rank < size; rank++ {
		for i := range out {
			switch v := value(call, rank, i); op {
			case mpiguard.OpSum:
				out[i] += v
			case mpiguard.OpMin:
				out[i] = min(out[i], v)
			case mpiguard.OpMax:
				out[i] = max(out[i], v)
			}
		}
	}
	return out
}

func gathered(call, size, n int) []byte {
	var rows [][]byte
	for rank := range size {
		rows = append(rows, row(call, rank, n))
	}
	return bytes.Join(rows, nil)
}

func checkAllreduce(t *testing.T, c mpiguard.Comm) {
	call := 0
	for _, n := range []int{1, 2, 7, 64, 1000, 20_000} {
		for _, op := range []mpiguard.Op{mpiguard.OpSum, mpiguard.OpMin, mpiguard.OpMax} {
			call++
			src, dst := values(call, c.Rank(), n), make([]uint64, n)
			want := reduced(call, c.Size(), n, op)
			if !assert.NoError(t, c.AllreduceUint64(patient(t), dst, src, op)) {
				return
			}
			same := assert.Equal(t, want, dst, "op %d of %d elements", op, n) &&
				assert.Equal(t, values(call, c.Rank(), n), src, "src was changed")
			if !assert.NoError(t, c.AllreduceUint64(patient(t), src, src, op)) ||
				!assert.Equal(t, want, src, "in place") || !same {
				return
			}
		}
	}
}

func checkAllgather(t *testing.T, c mpiguard.Comm) {
	for call, n := range []int{1, 3, 8, 128, 4096, 10_000, 1 << 20, 128} {
		src, dst := row(call, c.Rank(), n), make([]byte, n*c.Size())
		if !assert.NoError(t, c.Allgather(patient(t), dst, src)) ||
			!assert.True(t, bytes.Equal(gathered(call, c.Size(), n), dst), "rows of %d bytes", n) ||
			!assert.True(t, bytes.Equal(row(call, c.Rank(), n), src), "row was changed") {
			return
		}
	}
}

func checkZeroLengths(t *testing.T, c mpiguard.Comm) {
	assert.NoError(t, c.AllreduceUint64(patient(t), nil, nil, mpiguard.OpSum))
	assert.NoError(t, c.AllreduceUint64(patient(t), []uint64{}, []uint64{}, mpiguard.OpMax))
	assert.NoError(t, c.Allgather(patient(t), nil, nil))
	assert.NoError(t, c.Allgather(patient(t), []byte{}, []byte{}))
	assert.NoError(t, c.Barrier(patient(t)))
}

func checkMany(t *testing.T, c mpiguard.Comm) {
	ctx := patient(t)
	sums, rows := make([]uint64, 4), make([]byte, 16*c.Size())
	for call := range 1000 {
		err := c.AllreduceUint64(ctx, sums, values(call, c.Rank(), 4), mpiguard.OpSum)
		if err == nil {
			err = c.Allgather(ctx, rows, row(call, c.Rank(), 16))
		}
		if err == nil && call%8 == 0 {
			err = c.Barrier(ctx)
		}
		if !assert.NoError(t, err) ||
			!assert.Equal(t, reduced(call, c.Size(), 4, mpiguard.OpSum), sums) ||
			!assert.Equal(t, gathered(call, c.Size(), 16), rows) {
			return
		}
	}
}

func checkPanics(t *testing.T, c mpiguard.Comm) {
	for name, call := range map[string]func() error{
		"dst shorter than src": func() error {
			return c.AllreduceUint64(patient(t), make([]uint64, 1), make([]uint64, 2), mpiguard.OpSum)
		},
		"no dst": func() error { return c.AllreduceUint64(patient(t), nil, make([]uint64, 2), mpiguard.OpSum) },
		"no src": func() error { return c.AllreduceUint64(patient(t), make([]uint64, 2), nil, mpiguard.OpSum) },
		"no such op": func() error {
			return c.AllreduceUint64(patient(t), make([]uint64, 2), make([]uint64, 2), mpiguard.OpMax+1)
		},
		"dst below Size rows": func() error { return c.Allgather(patient(t), make([]byte, 3*c.Size()-1), make([]byte, 3)) },
		"dst above Size rows": func() error { return c.Allgather(patient(t), make([]byte, 3*c.Size()+1), make([]byte, 3)) },
		"no row":              func() error { return c.Allgather(patient(t), make([]byte, c.Size()), nil) },
	} {
		func() {
			defer func() {
				assert.Regexp(t, `^[a-z]+: `, fmt.Sprint(recover()), "%s: want a panic that names the package", name)
			}()
			assert.NoError(t, call(), "%s", name)
		}()
	}
	assert.NoError(t, c.Barrier(patient(t)), "after the panics")
}

// tooLong returns a slice of which only the length is real: for calls that
// must refuse it unread.
func tooLong[T any](bytes int64) []T {
	n := int(bytes / int64(unsafe.Sizeof(*new(T))))
	header := struct {
		first    *T
		len, cap int
	}{new(T), n, n}
	return *(*[]T)(unsafe.Pointer(&header))
}

const above = mpiguard.MaxMessageBytes + 1

func checkTooLong(t *testing.T, c mpiguard.Comm) {
	if math.MaxInt < above {
		return // no slice on this system is that long
	}
	words := tooLong[uint64](above)
	isTooLong(t, c.AllreduceUint64(patient(t), words, words, mpiguard.OpSum), above)
	size := int64(c.Size())
	rowBytes := above/size + size
	isTooLong(t, c.Allgather(patient(t), tooLong[byte](size*rowBytes), tooLong[byte](rowBytes)), size*rowBytes)
	assert.NoError(t, c.Barrier(patient(t)), "after the refusals")
}

func isTooLong(t *testing.T, err error, wantBytes int64) {
	var long *mpiguard.TooLongError
	if assert.ErrorIs(t, err, mpiguard.ErrTooLong) && assert.ErrorAs(t, err, &long) {
		assert.Equal(t, wantBytes, long.Bytes)
		assert.EqualValues(t, mpiguard.MaxMessageBytes, long.LimitBytes)
	}
}

// checkDoneContext: the others finish whether or not the rank with the done ctx
// still sees the end, and it is broken only if it does not.
func checkDoneContext(t *testing.T, c mpiguard.Comm) {
	rows, mine := make([]byte, 8*c.Size()), binary.LittleEndian.AppendUint64(nil, value(0, c.Rank(), 0))
	ctx := patient(t)
	impatient := c.Rank() == c.Size()-1
	if impatient {
		done, cancel := context.WithCancel(ctx)
		cancel()
		ctx = done
	}
	err := c.Allgather(ctx, rows, mine)
	clear(mine) // the row was the call's only while it ran
	if !impatient || err == nil {
		assert.NoError(t, err)
		for rank := range c.Size() {
			assert.Equal(t, value(0, rank, 0), binary.LittleEndian.Uint64(rows[8*rank:]), "row %d", rank)
		}
		return
	}
	isBroken(t, c, err, context.Canceled)
}

// isBroken checks the error of a wait that ended early, and all later ones.
func isBroken(t *testing.T, c mpiguard.Comm, err, cause error) {
	var broken *mpiguard.BrokenError
	if assert.ErrorIs(t, err, mpiguard.ErrBroken) && assert.ErrorIs(t, err, cause) && assert.ErrorAs(t, err, &broken) {
		assert.Equal(t, c.Rank(), broken.Rank)
		assert.NotEmpty(t, broken.Call)
	}
	start := time.Now()
	one := make([]uint64, 1)
	assert.Equal(t, err, c.Barrier(patient(t)), "the first cause")
	assert.Equal(t, err, c.AllreduceUint64(patient(t), one, one, mpiguard.OpSum), "the first cause")
	assert.Equal(t, err, c.Allgather(patient(t), make([]byte, c.Size()), make([]byte, 1)), "the first cause")
	assert.Less(t, time.Since(start), time.Second, "a broken communicator does not wait")
}
