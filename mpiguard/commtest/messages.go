package commtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mpiguard/mpiguard/mpiguard"
)

var messengerChecks = []check[mpiguard.Messenger]{
	{"messages to self", checkSelf},
	{"messages of one sender keep their order", checkOrder},
	{"receives of one pattern keep their order", checkWindow},
	{"a receive takes the tag that it asked for", checkTags},
	{"head to head", checkHeadToHead},
	{"ring", checkRing},
	{"any source and any tag", checkWildcards},
	{"random messages", checkRandom},
	{"a message longer than its buffer", checkTruncation},
	{"cancel", checkCancel},
	{"arguments out of range", checkArguments},
	{"messages around collectives", checkAroundCollectives},
	{"every call makes progress", checkProgress},
	{"a ctx that ends while waiting", checkEndedWait},
	{"concurrent calls", checkConcurrent},
}

// poll calls test until it reports done or fails.
func poll(test func() (mpiguard.Envelope, bool, error)) (mpiguard.Envelope, error) {
	deadline := time.Now().Add(patience)
	for tests := 0; ; tests++ {
		envelope, done, err := test()
		switch {
		case done || err != nil:
			return envelope, err
		case time.Now().After(deadline):
			return envelope, context.DeadlineExceeded
		case tests > 1000:
			time.Sleep(50 * time.Microsecond)
		default:
			runtime.Gosched()
		}
	}
}

// wait returns when r is complete.
func wait(r mpiguard.Request) (mpiguard.Envelope, error) { return poll(r.Test) }

// probe returns the envelope of the next message, whatever it is.
func probe(t *testing.T, m mpiguard.Messenger) (mpiguard.Envelope, bool) {
	envelope, err := poll(func() (mpiguard.Envelope, bool, error) {
		return m.Iprobe(mpiguard.AnySource, mpiguard.AnyTag)
	})
	return envelope, assert.NoError(t, err)
}

// send starts and completes a send.
func send(t *testing.T, m mpiguard.Messenger, buf []byte, dest, tag int) bool {
	r, err := m.Isend(buf, dest, tag)
	if !assert.NoError(t, err) {
		return false
	}
	envelope, err := wait(r)
	return assert.NoError(t, err) && assert.Zero(t, envelope, "the envelope of a send")
}

// receive starts and completes a receive.
func receive(t *testing.T, m mpiguard.Messenger, buf []byte, source, tag int) (mpiguard.Envelope, bool) {
	r, err := m.Irecv(buf, source, tag)
	if !assert.NoError(t, err) {
		return mpiguard.Envelope{}, false
	}
	envelope, err := wait(r)
	return envelope, assert.NoError(t, err)
}

// exchange sends out to dest while a message of the same length from source
// comes into a buffer that it returns.
func exchange(t *testing.T, m mpiguard.Messenger, out []byte, dest, source, tag int) ([]byte, bool) {
	in := make([]byte, len(out))
	s, err := m.Isend(out, dest, tag)
	if !assert.NoError(t, err) {
		return nil, false
	}
	envelope, ok := receive(t, m, in, source, tag)
	want := mpiguard.Envelope{Source: source, Tag: tag, Bytes: int64(len(in))}
	if _, err := wait(s); !ok || !assert.NoError(t, err) || !assert.Equal(t, want, envelope) {
		return nil, false
	}
	return in, true
}

var lengths = []int{0, 1, 100, 4095, 4096, 65537, 1 << 20, 4 << 20}

func checkSelf(t *testing.T, m mpiguard.Messenger) {
	for _, n := range lengths {
		out := row(n, m.Rank(), n)
		in, ok := exchange(t, m, out, m.Rank(), m.Rank(), 5)
		if !ok || !assert.True(t, bytes.Equal(out, in), "%d bytes", n) {
			return
		}
	}
}

func checkOrder(t *testing.T, m mpiguard.Messenger) {
	const messages = 500
	if m.Rank() != 0 {
		for i := range uint64(messages) {
			// Lengths on both sides of where a library switches its protocol.
			buf := binary.LittleEndian.AppendUint64(make([]byte, 0, 20_000), i)[:8+int(i%3)*9996]
			if !send(t, m, buf, 0, 1) {
				return
			}
		}
		return
	}
	buf := make([]byte, 20_000)
	for source := 1; source < m.Size(); source++ {
		for i := range uint64(messages) {
			if _, ok := receive(t, m, buf, source, 1); !ok ||
				!assert.Equal(t, i, binary.LittleEndian.Uint64(buf), "message of rank %d", source) {
				return
			}
		}
	}
}

// checkWindow: of several receives that a message fits the oldest takes it, in
// whatever order they are tested.
func checkWindow(t *testing.T, m mpiguard.Messenger) {
	const messages = 8
	next, previous := (m.Rank()+1)%m.Size(), (m.Rank()+m.Size()-1)%m.Size()
	for _, n := range []int{10, 100_000} {
		var recvs, sends []mpiguard.Request
		var bufs [][]byte
		for i := range messages {
			source, tag := previous, 1
			if i%3 == 1 { // a wider pattern in between
				source, tag = mpiguard.AnySource, mpiguard.AnyTag
			}
			buf := make([]byte, n)
			r, err := m.Irecv(buf, source, tag)
			if !assert.NoError(t, err) {
				return
			}
			recvs, bufs = append(recvs, r), append(bufs, buf)
		}
		for i := range messages {
			r, err := m.Isend(row(i, m.Rank(), n), next, 1)
			if !assert.NoError(t, err) {
				return
			}
			sends = append(sends, r)
		}
		for i, r := range slices.Backward(recvs) {
			_, err := wait(r)
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(row(i, previous, n), bufs[i]), "message %d of %d bytes", i, n)
		}
		for _, r := range sends {
			_, err := wait(r)
			assert.NoError(t, err)
		}
	}
}

func checkTags(t *testing.T, m mpiguard.Messenger) {
	var sends []mpiguard.Request
	tags := []int{0, 7, mpiguard.MaxTag}
	for _, tag := range tags {
		r, err := m.Isend([]byte{byte(tag)}, m.Rank(), tag)
		if !assert.NoError(t, err) {
			return
		}
		sends = append(sends, r)
	}
	for _, tag := range slices.Backward(tags) {
		buf := make([]byte, 1)
		envelope, ok := receive(t, m, buf, m.Rank(), tag)
		if !ok || !assert.Equal(t, tag, envelope.Tag) || !assert.Equal(t, byte(tag), buf[0]) {
			return
		}
	}
	for _, r := range sends {
		_, err := wait(r)
		assert.NoError(t, err)
	}
}

func checkHeadToHead(t *testing.T, m mpiguard.Messenger) {
	peer := m.Rank() ^ 1
	if peer >= m.Size() {
		return
	}
	for n := 1; n <= 4<<20; n *= 4 {
		in, ok := exchange(t, m, row(n, m.Rank(), n), peer, peer, 2)
		if !ok || !assert.True(t, bytes.Equal(row(n, peer, n), in), "%d bytes", n) {
			return
		}
	}
}

func checkRing(t *testing.T, m mpiguard.Messenger) {
	next, previous := (m.Rank()+1)%m.Size(), (m.Rank()+m.Size()-1)%m.Size()
	for _, n := range lengths {
		in, ok := exchange(t, m, row(n, m.Rank(), n), next, previous, 3)
		if !ok || !assert.True(t, bytes.Equal(row(n, previous, n), in), "%d bytes", n) {
			return
		}
	}
}

// checkWildcards: rank 0 probes for anything and then receives just that.
func checkWildcards(t *testing.T, m mpiguard.Messenger) {
	const messages = 20
	_, found, err := m.Iprobe(mpiguard.AnySource, 9999)
	assert.NoError(t, err)
	assert.False(t, found, "a message that nobody sent")
	if m.Rank() != 0 {
		for i := range messages {
			if !send(t, m, row(i, m.Rank(), 10*i+m.Rank()), 0, i) {
				return
			}
		}
		return
	}
	next := make([]int, m.Size())
	for range messages * (m.Size() - 1) {
		envelope, ok := probe(t, m)
		if !ok {
			return
		}
		i := next[envelope.Source]
		next[envelope.Source]++
		want := mpiguard.Envelope{Source: envelope.Source, Tag: i, Bytes: int64(10*i + envelope.Source)}
		buf := make([]byte, envelope.Bytes)
		got, ok := receive(t, m, buf, envelope.Source, envelope.Tag)
		if !ok || !assert.Equal(t, want, envelope) || !assert.Equal(t, want, got) ||
			!assert.Equal(t, row(i, envelope.Source, len(buf)), buf) {
			return
		}
	}
}

// checkRandom: every rank sends to every other in its own order, of which all
// know the seed, and receives from anyone.
func checkRandom(t *testing.T, m mpiguard.Messenger) {
	const messages = 60
	plan := func(source int) (dests, lengths []int) {
		rnd := rand.New(rand.NewPCG(uint64(source), 1))
		for range messages {
			dests = append(dests, rnd.IntN(m.Size()))
			lengths = append(lengths, rnd.IntN(1<<rnd.IntN(18)))
		}
		return dests, lengths
	}
	type key struct{ source, tag int }
	want := map[key]int{} // lengths of what comes here
	for source := range m.Size() {
		dests, lengths := plan(source)
		for i, dest := range dests {
			if dest == m.Rank() {
				want[key{source, i}] = lengths[i]
			}
		}
	}
	var sends []mpiguard.Request
	dests, lengths := plan(m.Rank())
	for i, dest := range dests {
		r, err := m.Isend(row(i, m.Rank(), lengths[i]), dest, i)
		if !assert.NoError(t, err) {
			return
		}
		sends = append(sends, r)
	}
	buf := make([]byte, 1<<18)
	for len(want) > 0 {
		envelope, ok := receive(t, m, buf, mpiguard.AnySource, mpiguard.AnyTag)
		k := key{envelope.Source, envelope.Tag}
		if !ok || !assert.Contains(t, want, k) || !assert.EqualValues(t, want[k], envelope.Bytes) ||
			!assert.True(t, bytes.Equal(row(k.tag, k.source, want[k]), buf[:envelope.Bytes])) {
			return
		}
		delete(want, k)
	}
	for _, r := range sends {
		_, err := wait(r)
		assert.NoError(t, err)
	}
	assert.NoError(t, m.Barrier(patient(t)))
	_, found, err := m.Iprobe(mpiguard.AnySource, mpiguard.AnyTag)
	assert.NoError(t, err)
	assert.False(t, found, "a message too many")
}

func checkTruncation(t *testing.T, m mpiguard.Messenger) {
	for _, n := range []int{100, 1 << 20} {
		guarded := bytes.Repeat([]byte{0xaa}, 30)
		s, err := m.Isend(row(n, m.Rank(), n), m.Rank(), 1)
		assert.NoError(t, err)
		r, err := m.Irecv(guarded[10:20], m.Rank(), 1)
		if !assert.NoError(t, err) {
			return
		}
		_, err = wait(r)
		assert.ErrorIs(t, err, mpiguard.ErrTruncated, "%d bytes into 10", n)
		_, done, again := r.Test()
		assert.True(t, done)
		assert.Equal(t, err, again, "the same answer again")
		assert.Equal(t, bytes.Repeat([]byte{0xaa}, 10), guarded[:10], "before the buffer")
		assert.Equal(t, bytes.Repeat([]byte{0xaa}, 10), guarded[20:], "behind the buffer")
		_, err = wait(s)
		assert.NoError(t, err, "the sender has done nothing wrong")

		in, ok := exchange(t, m, row(n, m.Rank(), n), m.Rank(), m.Rank(), 1)
		assert.True(t, ok && bytes.Equal(row(n, m.Rank(), n), in), "the next message")
	}
}

func checkCancel(t *testing.T, m mpiguard.Messenger) {
	buf := bytes.Repeat([]byte{0xaa}, 10)
	r, err := m.Irecv(buf, mpiguard.AnySource, 1)
	if !assert.NoError(t, err) {
		return
	}
	_, done, err := r.Test()
	assert.NoError(t, err)
	assert.False(t, done, "a message that nobody sent")
	assert.NoError(t, r.Cancel())
	for range 2 { // the same answer again
		_, err = wait(r)
		assert.ErrorIs(t, err, mpiguard.ErrCancelled)
	}
	assert.NoError(t, r.Cancel(), "again")
	assert.Equal(t, bytes.Repeat([]byte{0xaa}, 10), buf)

	// A send that is cancelled arrives all the same, at a receive that is
	// cancelled only afterwards.
	s, err := m.Isend([]byte("abc"), m.Rank(), 1)
	if !assert.NoError(t, err) {
		return
	}
	assert.NoError(t, s.Cancel())
	r, err = m.Irecv(buf, m.Rank(), 1)
	if !assert.NoError(t, err) {
		return
	}
	want := mpiguard.Envelope{Source: m.Rank(), Tag: 1, Bytes: 3}
	envelope, err := wait(r)
	assert.NoError(t, err)
	assert.Equal(t, want, envelope)
	assert.NoError(t, r.Cancel())
	envelope, done, err = r.Test()
	assert.True(t, done)
	assert.NoError(t, err)
	assert.Equal(t, want, envelope, "the same answer again")
	assert.Equal(t, "abc", string(buf[:3]))
	_, err = wait(s)
	assert.NoError(t, err)
	assert.NoError(t, s.Cancel())
}

func checkArguments(t *testing.T, m mpiguard.Messenger) {
	for _, rank := range []int{-2, -1, m.Size(), math.MaxInt} {
		_, err := m.Isend(nil, rank, 0)
		assert.Error(t, err, "Isend to rank %d", rank)
		if rank == mpiguard.AnySource {
			continue
		}
		_, err = m.Irecv(nil, rank, 0)
		assert.Error(t, err, "Irecv from rank %d", rank)
		_, _, err = m.Iprobe(rank, 0)
		assert.Error(t, err, "Iprobe of rank %d", rank)
	}
	for _, tag := range []int{-2, -1, mpiguard.MaxTag + 1, math.MaxInt} {
		_, err := m.Isend(nil, 0, tag)
		assert.Error(t, err, "Isend with tag %d", tag)
		if tag == mpiguard.AnyTag {
			continue
		}
		_, err = m.Irecv(nil, 0, tag)
		assert.Error(t, err, "Irecv with tag %d", tag)
		_, _, err = m.Iprobe(0, tag)
		assert.Error(t, err, "Iprobe with tag %d", tag)
	}
	if math.MaxInt >= above {
		_, err := m.Isend(tooLong[byte](above), m.Rank(), 0)
		isTooLong(t, err, above)
		_, err = m.Irecv(tooLong[byte](above), m.Rank(), 0)
		isTooLong(t, err, above)
	}
	assert.NoError(t, m.Barrier(patient(t)))
}

func checkAroundCollectives(t *testing.T, m mpiguard.Messenger) {
	next, previous := (m.Rank()+1)%m.Size(), (m.Rank()+m.Size()-1)%m.Size()
	in := make([]byte, 1<<20)
	r, err := m.Irecv(in, previous, 1)
	if !assert.NoError(t, err) || !assert.NoError(t, m.Barrier(patient(t))) {
		return
	}
	s, err := m.Isend(row(1, m.Rank(), len(in)), next, 1)
	sums := values(2, m.Rank(), 3)
	if !assert.NoError(t, err) || !assert.NoError(t, m.AllreduceUint64(patient(t), sums, sums, mpiguard.OpSum)) {
		return
	}
	assert.Equal(t, reduced(2, m.Size(), 3, mpiguard.OpSum), sums)
	_, err = wait(r)
	assert.NoError(t, err)
	_, err = wait(s)
	assert.NoError(t, err)
	assert.True(t, bytes.Equal(row(1, previous, len(in)), in))
}

// checkProgress: a receive that was posted lets its sender end, whatever the
// receiver calls meanwhile.
func checkProgress(t *testing.T, m mpiguard.Messenger) {
	const n = 1 << 20
	next, previous := (m.Rank()+1)%m.Size(), (m.Rank()+m.Size()-1)%m.Size()
	for _, barrierFirst := range []bool{false, true} {
		in := make([]byte, n)
		r, err := m.Irecv(in, previous, 1)
		if !assert.NoError(t, err) {
			return
		}
		steps := []func() bool{
			func() bool { return send(t, m, row(2, m.Rank(), n), next, 1) },
			func() bool { return assert.NoError(t, m.Barrier(patient(t))) },
		}
		if barrierFirst && m.Rank() == 0 && m.Size() > 1 {
			slices.Reverse(steps) // the others enter the barrier once their sends have ended
		}
		for _, step := range steps {
			if !step() {
				return
			}
		}
		_, err = wait(r)
		assert.NoError(t, err)
		assert.True(t, bytes.Equal(row(2, previous, n), in))
	}
}

// holdBack makes all ranks but 0 wait until rank 0 has returned from f, so that
// a collective which f enters cannot end.
func holdBack(t *testing.T, m mpiguard.Messenger, f func()) {
	if m.Rank() != 0 {
		receive(t, m, nil, 0, 77)
		return
	}
	f()
	for dest := 1; dest < m.Size(); dest++ {
		send(t, m, nil, dest, 77)
	}
}

func checkEndedWait(t *testing.T, m mpiguard.Messenger) {
	if m.Size() == 1 {
		return // there is nobody to wait for
	}
	holdBack(t, m, func() {
		const limit = 100 * time.Millisecond
		start := time.Now()
		ctx, cancel := context.WithTimeout(patient(t), limit)
		defer cancel()
		err := m.AllreduceUint64(ctx, make([]uint64, 1), make([]uint64, 1), mpiguard.OpSum)
		waited := time.Since(start)
		assert.GreaterOrEqual(t, waited, limit)
		assert.Less(t, waited, limit+time.Second)
		isBroken(t, m, err, context.DeadlineExceeded)
	})
	// Messages go on.
	in, ok := exchange(t, m, row(0, m.Rank(), 50_000), m.Size()-1-m.Rank(), m.Size()-1-m.Rank(), 3)
	assert.True(t, ok && bytes.Equal(row(0, m.Size()-1-m.Rank(), 50_000), in))
}

func checkConcurrent(t *testing.T, m mpiguard.Messenger) {
	if m.Size() == 1 {
		return // a collective is over at once
	}
	holdBack(t, m, func() {
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		results := make(chan error)
		for range 2 {
			go func() { results <- m.Barrier(ctx) }()
		}
		assert.ErrorIs(t, <-results, mpiguard.ErrConcurrent, "the second to enter")
		one := make([]uint64, 1)
		assert.ErrorIs(t, m.AllreduceUint64(patient(t), one, one, mpiguard.OpSum), mpiguard.ErrConcurrent)
		_, err := m.Isend(nil, 1, 1)
		assert.ErrorIs(t, err, mpiguard.ErrConcurrent)
		_, err = m.Irecv(nil, 1, 1)
		assert.ErrorIs(t, err, mpiguard.ErrConcurrent)
		_, _, err = m.Iprobe(1, 1)
		assert.ErrorIs(t, err, mpiguard.ErrConcurrent)
		cancel()
		isBroken(t, m, <-results, context.Canceled)
	})
}
