package inproc

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// mailbox holds what waits at one rank, oldest first: sends to it that no
// receive has matched, and its receives that no send has. MPI's rule that
// messages of one sender do not overtake each other follows from the order.
type mailbox struct {
	mu           sync.Mutex
	sends, recvs []*request
}

// request is a send or a receive.
type request struct {
	comm  *Comm    // whose request it is
	box   *mailbox // of the rank that receives
	queue *[]*request
	buf   []byte
	// source and tag are those of the message, or what a receive matches.
	source, tag int

	done atomic.Bool
	// Of a request that is done:
	envelope mpiguard.Envelope
	err      error
}

// Isend starts to send buf to rank dest. It is complete when a receive has
// taken it.
func (c *Comm) Isend(buf []byte, dest, tag int) (mpiguard.Request, error) {
	switch {
	case dest < 0 || dest >= c.Size():
		return nil, fmt.Errorf("inproc: Isend to rank %d of %d", dest, c.Size())
	case tag < 0 || tag > mpiguard.MaxTag:
		return nil, fmt.Errorf("inproc: Isend with tag %d, want 0 to %d", tag, mpiguard.MaxTag)
	}
	if err := checkLength("Isend", int64(len(buf))); err != nil {
		return nil, err
	}
	box := &c.world.boxes[dest]
	send := &request{comm: c, box: box, queue: &box.sends, buf: buf, source: c.rank, tag: tag}
	return c.start(send, &box.recvs, func(recv *request) (*request, *request) { return send, recv })
}

// Irecv starts to receive into buf a message from rank source, or AnySource,
// with the given tag, or AnyTag.
func (c *Comm) Irecv(buf []byte, source, tag int) (mpiguard.Request, error) {
	if err := c.checkPattern("Irecv", source, tag); err != nil {
		return nil, err
	}
	if err := checkLength("Irecv", int64(len(buf))); err != nil {
		return nil, err
	}
	box := &c.world.boxes[c.rank]
	recv := &request{comm: c, box: box, queue: &box.recvs, buf: buf, source: source, tag: tag}
	return c.start(recv, &box.sends, func(send *request) (*request, *request) { return send, recv })
}

// start completes r with the oldest request of others that matches it, or
// queues it for one that comes later. The copy is made outside the lock.
func (c *Comm) start(r *request, others *[]*request, pair func(*request) (send, recv *request)) (mpiguard.Request, error) {
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	if err := c.world.failure(); err != nil {
		return nil, err
	}
	r.box.mu.Lock()
	i := slices.IndexFunc(*others, func(other *request) bool { return matches(pair(other)) })
	if i < 0 {
		*r.queue = append(*r.queue, r)
		r.box.mu.Unlock()
		return r, nil
	}
	other := (*others)[i]
	*others = slices.Delete(*others, i, i+1)
	r.box.mu.Unlock()
	deliver(pair(other))
	return r, nil
}

// Iprobe reports whether a message that Irecv would match is there.
func (c *Comm) Iprobe(source, tag int) (mpiguard.Envelope, bool, error) {
	if err := c.checkPattern("Iprobe", source, tag); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	if err := c.acquire(); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	defer c.release()
	box := &c.world.boxes[c.rank]
	box.mu.Lock()
	defer box.mu.Unlock()
	pattern := &request{source: source, tag: tag}
	for _, send := range box.sends {
		if matches(send, pattern) {
			return send.message(), true, nil
		}
	}
	return mpiguard.Envelope{}, false, c.world.failure()
}

func (c *Comm) checkPattern(call string, source, tag int) error {
	switch {
	case source != mpiguard.AnySource && (source < 0 || source >= c.Size()):
		return fmt.Errorf("inproc: %s from rank %d of %d", call, source, c.Size())
	case tag != mpiguard.AnyTag && (tag < 0 || tag > mpiguard.MaxTag):
		return fmt.Errorf("inproc: %s with tag %d, want AnyTag or 0 to %d", call, tag, mpiguard.MaxTag)
	}
	return nil
}

func matches(send, recv *request) bool {
	return (recv.source == mpiguard.AnySource || recv.source == send.source) &&
		(recv.tag == mpiguard.AnyTag || recv.tag == send.tag)
}

// message is the envelope of a send.
func (r *request) message() mpiguard.Envelope {
	return mpiguard.Envelope{Source: r.source, Tag: r.tag, Bytes: int64(len(r.buf))}
}

// deliver completes two requests that were taken from their queues.
func deliver(send, recv *request) {
	if copy(recv.buf, send.buf) < len(send.buf) {
		recv.err = fmt.Errorf("inproc: %d bytes from rank %d into a buffer of %d: %w",
			len(send.buf), send.source, len(recv.buf), mpiguard.ErrTruncated)
	}
	recv.envelope = send.message()
	recv.done.Store(true)
	send.done.Store(true)
}

// Test reports whether the request is complete. Where a rank of the world has
// left with an error, a request that is not complete ends with that error.
func (r *request) Test() (mpiguard.Envelope, bool, error) {
	if err := r.comm.acquire(); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	defer r.comm.release()
	if !r.done.Load() {
		if err := r.comm.world.failure(); err == nil || !r.withdraw(err) {
			return mpiguard.Envelope{}, false, nil
		}
	}
	return r.envelope, true, r.err
}

// Cancel ends a receive that no message has matched; Test then returns
// ErrCancelled. On a send it does nothing.
func (r *request) Cancel() error {
	if err := r.comm.acquire(); err != nil {
		return err
	}
	defer r.comm.release()
	if r.queue == &r.box.recvs {
		r.withdraw(fmt.Errorf("inproc: receive on rank %d: %w", r.comm.rank, mpiguard.ErrCancelled))
	}
	return nil
}

// withdraw completes a request with err unless another has matched it.
func (r *request) withdraw(err error) bool {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	i := slices.Index(*r.queue, r)
	if i < 0 {
		return false
	}
	*r.queue = slices.Delete(*r.queue, i, i+1)
	r.err = err
	r.done.Store(true)
	return true
}
