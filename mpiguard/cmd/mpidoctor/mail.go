package main

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// mail sends and receives messages, each within the time of a ctx.
type mail struct {
	comm mpiguard.Messenger
	sent []mpiguard.Request // what was posted and is not complete
}

// The tags of messages.
const (
	tagOrder = iota // of rank 0, to do something
	tagReply        // to rank 0, that it was done
	tagHere         // to rank 0, in a roll call
	tagPing         // between first ranks
	tagPong
)

// post sends a small message and does not wait for its end.
func (m *mail) post(v any, dest, tag int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r, err := m.comm.Isend(text, dest, tag)
	if err == nil {
		m.sent = append(m.sent, r)
	}
	return err
}

// flush waits until what was posted is on its way.
func (m *mail) flush(ctx context.Context) {
	for len(m.sent) > 0 && ctx.Err() == nil {
		oldest := m.sent[0]
		m.sent = m.sent[1:]
		_, _ = m.wait(ctx, oldest)
	}
}

// receive waits for what was posted, of one rank or mpiguard.AnySource.
func (m *mail) receive(ctx context.Context, v any, source, tag int) (mpiguard.Envelope, error) {
	buf := make([]byte, 1<<10)
	e, err := m.receiveBytes(ctx, buf, source, tag)
	if err == nil {
		err = json.Unmarshal(buf[:e.Bytes], v)
	}
	return e, err
}

// receiveBytes waits for a message. After an error of ctx the buffer may still be
// written to.
func (m *mail) receiveBytes(ctx context.Context, buf []byte, source, tag int) (mpiguard.Envelope, error) {
	r, err := m.comm.Irecv(buf, source, tag)
	if err != nil {
		return mpiguard.Envelope{}, err
	}
	e, err := m.wait(ctx, r)
	if err == nil || ctx.Err() == nil {
		return e, err
	}
	if err := r.Cancel(); err != nil {
		return mpiguard.Envelope{}, err
	}
	if e, done, err := r.Test(); done && !errors.Is(err, mpiguard.ErrCancelled) {
		return e, err // in the last moment
	}
	return mpiguard.Envelope{}, ctx.Err()
}

// sendBytes sends a message and waits until the buffer is free. After an error of
// ctx it is not.
func (m *mail) sendBytes(ctx context.Context, buf []byte, dest, tag int) error {
	r, err := m.comm.Isend(buf, dest, tag)
	if err != nil {
		return err
	}
	_, err = m.wait(ctx, r)
	return err
}

const (
	// A wait tests without a pause for longer than a message takes whose receiver
	// must first be given a core: who sleeps is found asleep by the next message,
	// and the whole exchange becomes as slow as that. Then it sleeps for ever
	// longer, so that ranks that have nothing to do leave the cores to others.
	spin   = 10 * time.Millisecond
	maxNap = time.Millisecond
)

// wait tests a request until it is complete or ctx is done.
func (m *mail) wait(ctx context.Context, r mpiguard.Request) (mpiguard.Envelope, error) {
	for start := time.Now(); ; {
		if e, done, err := r.Test(); done || err != nil {
			return e, err
		}
		if err := ctx.Err(); err != nil {
			return mpiguard.Envelope{}, err
		}
		waited := time.Since(start)
		if waited < spin {
			runtime.Gosched()
			continue
		}
		m.sent = slices.DeleteFunc(m.sent, func(r mpiguard.Request) bool {
			_, done, _ := r.Test()
			return done
		})
		time.Sleep(min(waited/32, maxNap))
	}
}
