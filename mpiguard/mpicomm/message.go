//go:build cgo

package mpicomm

// #cgo noescape mg_iprobe
// #cgo nocallback mg_iprobe
// #cgo noescape mg_test
// #cgo nocallback mg_test
// #include "mpicomm.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// request is a message under way.
type request struct {
	message  *C.mg_message
	receive  bool
	rank     int            // whose request it is
	bytes    int            // of its buffer
	pinner   runtime.Pinner // holds the buffer where MPI looks for it
	done     bool
	envelope mpiguard.Envelope
	err      error
}

// underWay holds the requests that are not complete, so that the buffer of one
// which the program forgot stays MPI's. It belongs to who has set inMPI.
var underWay = map[*request]struct{}{}

// Isend starts to send buf to rank dest; see mpiguard.Messenger.
func (c *Comm) Isend(buf []byte, dest, tag int) (mpiguard.Request, error) {
	switch {
	case dest < 0 || dest >= c.size:
		return nil, fmt.Errorf("mpicomm: Isend to rank %d of %d", dest, c.size)
	case tag < 0 || tag > mpiguard.MaxTag:
		return nil, fmt.Errorf("mpicomm: Isend with tag %d, want 0 to %d", tag, mpiguard.MaxTag)
	}
	return c.start("Isend", buf, func(first *C.char, r *request) C.int {
		return C.mg_isend(c.c, first, C.int(len(buf)), C.int(dest), C.int(tag), &r.message)
	})
}

// Irecv starts to receive into buf; see mpiguard.Messenger.
func (c *Comm) Irecv(buf []byte, source, tag int) (mpiguard.Request, error) {
	if err := c.checkPattern("Irecv", source, tag); err != nil {
		return nil, err
	}
	return c.start("Irecv", buf, func(first *C.char, r *request) C.int {
		r.receive = true
		return C.mg_irecv(c.c, first, C.int(len(buf)), C.int(source), C.int(tag), &r.message)
	})
}

func (c *Comm) start(call string, buf []byte, start func(*C.char, *request) C.int) (mpiguard.Request, error) {
	if int64(len(buf)) > mpiguard.MaxMessageBytes {
		return nil, tooLong(call, int64(len(buf)))
	}
	if err := acquire(); err != nil {
		return nil, err
	}
	defer release()
	if err := c.reachable(call); err != nil {
		return nil, err
	}
	r := &request{rank: c.rank, bytes: len(buf)}
	first := (*C.char)(unsafe.Pointer(unsafe.SliceData(buf)))
	if len(buf) > 0 {
		r.pinner.Pin(first)
	}
	if state := start(first, r); state != C.MG_DONE {
		r.pinner.Unpin()
		return nil, failure(call, state)
	}
	underWay[r] = struct{}{}
	return r, nil
}

// reachable returns why no message can be sent or received, if that is so.
func (c *Comm) reachable(call string) error {
	if c.closed == nil && c.opening {
		switch state := C.mg_wait(c.c, 0); state {
		case C.MG_DONE:
			c.opened(call)
		case C.MG_PENDING:
			return fmt.Errorf("mpicomm: %s before every rank has called World", call)
		default:
			return failure(call, state)
		}
	}
	return c.closed
}

// Iprobe reports whether a message that Irecv would match is there.
func (c *Comm) Iprobe(source, tag int) (mpiguard.Envelope, bool, error) {
	if err := c.checkPattern("Iprobe", source, tag); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	if err := acquire(); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	defer release()
	if err := c.reachable("Iprobe"); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	var e C.mg_envelope
	switch state := C.mg_iprobe(c.c, C.int(source), C.int(tag), &e); state {
	case C.MG_DONE:
		return envelope(e), true, nil
	case C.MG_PENDING:
		return mpiguard.Envelope{}, false, nil
	default:
		return mpiguard.Envelope{}, false, failure("Iprobe", state)
	}
}

func (c *Comm) checkPattern(call string, source, tag int) error {
	switch {
	case source != mpiguard.AnySource && (source < 0 || source >= c.size):
		return fmt.Errorf("mpicomm: %s from rank %d of %d", call, source, c.size)
	case tag != mpiguard.AnyTag && (tag < 0 || tag > mpiguard.MaxTag):
		return fmt.Errorf("mpicomm: %s with tag %d, want AnyTag or 0 to %d", call, tag, mpiguard.MaxTag)
	}
	return nil
}

func envelope(e C.mg_envelope) mpiguard.Envelope {
	return mpiguard.Envelope{Source: int(e.source), Tag: int(e.tag), Bytes: int64(e.bytes)}
}

// Test reports whether the message has been sent or received.
func (r *request) Test() (mpiguard.Envelope, bool, error) {
	if err := acquire(); err != nil {
		return mpiguard.Envelope{}, false, err
	}
	defer release()
	if r.done {
		return r.envelope, true, r.err
	}
	var e C.mg_envelope
	switch state := C.mg_test(r.message, &e); state {
	case C.MG_PENDING:
		return mpiguard.Envelope{}, false, nil
	case C.MG_FINALIZED, C.MG_WRONG_THREAD:
		return mpiguard.Envelope{}, false, failure("Test", state)
	case C.MG_DONE:
		if r.receive {
			r.envelope = envelope(e)
		}
	case C.MG_TRUNCATED:
		r.err = fmt.Errorf("mpicomm: %d bytes from rank %d into a buffer of %d: %w",
			e.bytes, e.source, r.bytes, mpiguard.ErrTruncated)
	case C.MG_CANCELLED:
		r.err = fmt.Errorf("mpicomm: receive on rank %d: %w", r.rank, mpiguard.ErrCancelled)
	default:
		r.err = failure("Test", state)
	}
	r.done = true
	r.pinner.Unpin()
	delete(underWay, r)
	return r.envelope, true, r.err
}

// Cancel ends a receive that no message has matched; Test then returns
// ErrCancelled. On a send it does nothing.
func (r *request) Cancel() error {
	if err := acquire(); err != nil {
		return err
	}
	defer release()
	if r.done || !r.receive {
		return nil
	}
	if state := C.mg_cancel(r.message); state != C.MG_DONE {
		return failure("Cancel", state)
	}
	return nil
}
