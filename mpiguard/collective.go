package mpiguard

import (
	"context"
	"errors"
	"fmt"
)

// vote is what a rank says in every collective: that it takes part as asked, or
// why it cannot. The first byte of a row is the vote.
type vote byte

const (
	voteYes       vote = iota
	voteCanceled       // its ctx was cancelled before the call
	voteDeadline       // the deadline of its ctx had passed before the call
	voteClosed         // its guard is closed
	voteExhausted      // its memory is exhausted
	voteFailed         // anything else, said in a message that follows
)

// ownVote is what this rank says in a collective with the given ctx.
func (g *Guard) ownVote(ctx context.Context) vote {
	switch err := ctx.Err(); {
	case g.closed.Load():
		return voteClosed
	case errors.Is(err, context.DeadlineExceeded):
		return voteDeadline
	case err != nil:
		return voteCanceled
	}
	return voteYes
}

func (v vote) err() error {
	switch v {
	case voteYes:
		return nil
	case voteCanceled:
		return context.Canceled
	case voteDeadline:
		return context.DeadlineExceeded
	case voteClosed:
		return ErrClosed
	case voteExhausted:
		return ErrExhausted
	}
	return errors.New("failed")
}

// CollectiveError is the error of a collective call. Where the ranks agreed on
// it, it is the same on all of them.
type CollectiveError struct {
	Op   string // "new", "survey" or "pulse"
	Rank int    // the lowest rank that is the cause, -1 where that is not known
	Err  error
}

// Error names the call, the rank and the cause.
func (e *CollectiveError) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("mpiguard: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("mpiguard: %s: rank %d: %v", e.Op, e.Rank, e.Err)
}

// Unwrap returns the cause.
func (e *CollectiveError) Unwrap() error { return e.Err }

// collective runs one collective of the guard. A rank that cannot take part as
// asked (its ctx is done, its guard is closed) enters all the same, with its vote,
// so that no other rank waits for it. exchange does the communication with the
// ctx given to it and returns the lowest rank whose vote is not yes, and that
// vote.
func (g *Guard) collective(ctx context.Context, op string, exchange func(ctx context.Context, mine vote) (int, vote, error)) error {
	if !g.inCollective.CompareAndSwap(false, true) {
		return &CollectiveError{op, g.rank, ErrConcurrent}
	}
	defer g.inCollective.Store(false)
	mine := g.ownVote(ctx)
	asked := ctx
	if mine != voteYes {
		asked = context.WithoutCancel(ctx)
	}
	wait := bound(asked, g.cfg.CollectiveTimeout)
	defer wait.release()
	rank, v, err := exchange(wait, mine)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && asked.Err() == nil {
			err = fmt.Errorf("not all ranks took part within %v: %w", g.cfg.CollectiveTimeout, err)
		}
		return &CollectiveError{op, -1, err}
	}
	if v == voteYes {
		return nil
	}
	agreed := &CollectiveError{op, rank, v.err()}
	if v == voteExhausted && rank == g.rank {
		agreed.Err = context.Cause(g.proc.exhaustion.over)
		g.abort(agreed)
	}
	return agreed
}

// gathered is what an Allgather of rows brought.
type gathered[T any] struct {
	rows  []T  // by rank
	worst int  // the lowest rank whose vote is not yes, -1 if there is none
	vote  vote // of that rank
}

// gather exchanges rows of n bytes in one Allgather and decodes each into the
// element of its rank; code lists the fields of a row. Ranks of one process get
// the same slice, which none may change.
func gather[T any](ctx context.Context, c Comm, n int, mine vote, row *T, code func(*T, *coder)) (gathered[T], error) {
	const header = 1
	enc := coder{buf: make([]byte, header+n), off: header}
	enc.buf[0] = byte(mine)
	code(row, &enc)
	decode := func(all []byte) any {
		g := gathered[T]{rows: make([]T, c.Size()), worst: -1}
		for i := range g.rows {
			b := all[i*len(enc.buf):][:len(enc.buf)]
			if v := vote(b[0]); v != voteYes && g.worst < 0 {
				g.worst, g.vote = i, v
			}
			code(&g.rows[i], &coder{buf: b, off: header, decode: true})
		}
		return g
	}
	if s, ok := c.(SharedProcess); ok {
		all, err := s.AllgatherShared(ctx, enc.buf)
		if err != nil {
			return gathered[T]{}, err
		}
		return all.memo(decode).(gathered[T]), nil
	}
	all := make([]byte, c.Size()*len(enc.buf))
	if err := c.Allgather(ctx, all, enc.buf); err != nil {
		return gathered[T]{}, err
	}
	return decode(all).(gathered[T]), nil
}
