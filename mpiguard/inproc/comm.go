// Package inproc runs the ranks of a job as goroutines of one process: for
// tests and laptops, without MPI. It follows the rules of MPI and is stricter
// where MPI leaves a choice, so that what runs here runs there: a send is
// complete only once its receive has been posted, whatever its length, and a
// call during a collective of the same rank is refused.
package inproc

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// Comm is one rank of a world. It is a mpiguard.Messenger and, since all ranks
// share one process, a mpiguard.SharedProcess. A rank is used by one goroutine
// at a time; what runs beside a collective of the same rank gets ErrConcurrent.
type Comm struct {
	world  *world
	rank   int
	busy   atomic.Bool           // a call is under way
	next   *round                // the collective that this rank enters next
	broken *mpiguard.BrokenError // set once a collective ended early
}

// world is what the ranks share.
type world struct {
	boxes  []mailbox // by rank
	failed atomic.Pointer[error]
}

// failure returns the first error with which a rank left, if one did.
func (w *world) failure() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

var (
	_ mpiguard.Messenger     = (*Comm)(nil)
	_ mpiguard.SharedProcess = (*Comm)(nil)
)

// World returns the ranks of a new world of n, for goroutines that the caller
// starts; Run starts them too. It panics if n is below 1.
func World(n int) []*Comm {
	if n < 1 {
		panic(fmt.Sprintf("inproc: World of %d ranks", n))
	}
	w := &world{boxes: make([]mailbox, n)}
	first := newRound()
	ranks := make([]*Comm, n)
	for i := range ranks {
		ranks[i] = &Comm{world: w, rank: i, next: first}
	}
	return ranks
}

// Rank returns this rank, from 0 to Size()-1.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks of the world.
func (c *Comm) Size() int { return len(c.world.boxes) }

// World returns a value that is equal for all ranks of this world and differs
// between worlds.
func (c *Comm) World() any { return c.world }

// acquire marks the rank as busy until release, or reports that it is.
func (c *Comm) acquire() error {
	if !c.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("inproc: rank %d: %w", c.rank, mpiguard.ErrConcurrent)
	}
	return nil
}

func (c *Comm) release() { c.busy.Store(false) }

// Barrier returns when every rank has entered it. Collective.
func (c *Comm) Barrier(ctx context.Context) error {
	return c.collective(ctx, call{name: "Barrier"}, func(*round) {}, func(*round) {})
}

// AllreduceUint64 combines src of all ranks element by element into dst; see
// mpiguard.Comm. Collective.
func (c *Comm) AllreduceUint64(ctx context.Context, dst, src []uint64, op mpiguard.Op) error {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("inproc: AllreduceUint64: dst has %d elements, src %d", len(dst), len(src)))
	}
	if op > mpiguard.OpMax {
		panic(fmt.Sprintf("inproc: AllreduceUint64: unknown op %d", op))
	}
	if err := checkLength("AllreduceUint64", 8*int64(len(dst))); err != nil || len(dst) == 0 {
		return err
	}
	return c.collective(ctx, call{"AllreduceUint64", len(src), op},
		func(r *round) { r.reduce(src) },
		func(r *round) { copy(dst, r.reduced) })
}

// Allgather stores the row of rank i at dst[i*len(row):]; see mpiguard.Comm.
// Collective.
func (c *Comm) Allgather(ctx context.Context, dst, row []byte) error {
	if int64(len(dst)) != int64(c.Size())*int64(len(row)) {
		panic(fmt.Sprintf("inproc: Allgather: dst has %d bytes, want %d rows of %d", len(dst), c.Size(), len(row)))
	}
	if err := checkLength("Allgather", int64(len(dst))); err != nil || len(dst) == 0 {
		return err
	}
	return c.collective(ctx, call{name: "Allgather", length: len(row)},
		func(r *round) { r.gather(c.rank, row, len(dst)) },
		func(r *round) { copy(dst, r.shared.Rows) })
}

// AllgatherShared is Allgather with one result for all ranks; see
// mpiguard.SharedProcess. Collective.
func (c *Comm) AllgatherShared(ctx context.Context, row []byte) (*mpiguard.SharedRows, error) {
	total := int64(c.Size()) * int64(len(row))
	if err := checkLength("AllgatherShared", total); err != nil {
		return nil, err
	}
	var shared *mpiguard.SharedRows
	err := c.collective(ctx, call{name: "AllgatherShared", length: len(row)},
		func(r *round) { r.gather(c.rank, row, int(total)) },
		func(r *round) { shared = &r.shared })
	return shared, err
}

func checkLength(call string, bytes int64) error {
	if bytes > mpiguard.MaxMessageBytes {
		return fmt.Errorf("inproc: %w",
			&mpiguard.TooLongError{Call: call, Bytes: bytes, LimitBytes: mpiguard.MaxMessageBytes})
	}
	return nil
}

// collective enters the next round, in which bring adds what this rank has, and
// waits for its end; then take reads what all have brought.
func (c *Comm) collective(ctx context.Context, what call, bring, take func(*round)) error {
	if err := c.acquire(); err != nil {
		return err
	}
	defer c.release()
	if c.broken != nil {
		return c.broken
	}
	r := c.next
	next := r.enter(c.rank, c.Size(), what, bring)
	c.next = next

	cause := r.wait(ctx)
	if cause != nil {
		c.broken = &mpiguard.BrokenError{Call: what.name, Rank: c.rank, Missing: r.missing(), Cause: cause}
		return c.broken
	}
	take(r)
	return nil
}
