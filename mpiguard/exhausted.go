package mpiguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/ledger"
)

// ErrExhausted: the level stayed Critical, nothing can be reduced, and the
// checkpoint functions have run. The job should stop; the text says who holds
// what.
var ErrExhausted = errors.New("memory is exhausted")

// ErrCannotReduce: the level stays where it is although all was reclaimed that
// can be; the text says whose the memory is.
var ErrCannotReduce = errors.New("nothing more can be reduced")

// stuckPatience is how long WaitBelow waits where nothing can be reduced.
const stuckPatience = 10 * time.Second

// exhaustion is the way of a process to a clean stop: rounds of reclaim without
// effect at High or above, then a while at Critical, then the checkpoint
// functions, once, and then ErrExhausted from every call that waits.
type exhaustion struct {
	stuck       time.Time // since when nothing can be reduced; zero: it can, or need not
	critical    time.Time // since when that is so at Critical
	begun       bool      // the checkpoint functions run, or have run
	checkpoints []checkpoint

	over context.Context // done when the memory is exhausted; its cause says who holds what
	end  context.CancelCauseFunc
}

type checkpoint struct {
	guard *Guard
	f     func()
}

// Checkpoint registers what saves the program's state before it must stop. When
// the level has been Critical for Config.ExhaustedAfter and nothing can be
// reduced, the functions of a rank run once, in order, on a goroutine of their
// own; after that Reserve, Grow and WaitBelow of the rank return an error that
// wraps ErrExhausted where they would wait, and Pulse does so on all ranks. f must be
// quick, need little memory, make no MPI call and not call Close. A panic in f is
// logged.
func (g *Guard) Checkpoint(f func()) {
	g.proc.mu.Lock()
	defer g.proc.mu.Unlock()
	g.proc.exhaustion.checkpoints = append(g.proc.exhaustion.checkpoints, checkpoint{g, f})
}

// WaitBelow waits until the level of this rank is below l. It returns the error
// of ctx, one that wraps ErrExhausted or ErrClosed, or, where nothing can be
// reduced any more and the level has not fallen within 10 seconds, one that wraps
// ErrCannotReduce and says whose the memory is. The level of a rank that waits
// here falls only by what others do: do not wait for memory that this goroutine
// holds.
func (g *Guard) WaitBelow(ctx context.Context, l Level) error {
	p := g.proc
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if g.Level() < l {
			return nil
		}
		if err := context.Cause(p.exhaustion.over); err != nil {
			return fmt.Errorf("mpiguard: rank %d: waiting for a level below %v: %w", g.rank, l, err)
		}
		p.mu.Lock()
		stuck, why := p.exhaustion.stuck, ""
		if !stuck.IsZero() && time.Since(stuck) >= stuckPatience {
			why = p.breakdown()
		}
		p.mu.Unlock()
		if why != "" {
			return fmt.Errorf("mpiguard: rank %d: level %v: %w: %s", g.rank, g.Level(), ErrCannotReduce, why)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("mpiguard: rank %d: waiting for a level below %v: %w", g.rank, l, context.Cause(ctx))
		case <-g.closing.Done():
			return fmt.Errorf("mpiguard: rank %d: waiting for a level below %v: %w", g.rank, l, ErrClosed)
		case <-p.exhaustion.over.Done():
		}
	}
}

// relieve follows the level: at High and above it lets memory be reclaimed, and it
// takes the steps towards a clean stop where that has no effect. The watcher calls
// it after each sample; the caller holds p.mu.
func (p *process) relieve(now time.Time) {
	e := &p.exhaustion
	level := p.ladder.level
	if level < High {
		e.stuck, e.critical = time.Time{}, time.Time{}
		return
	}
	select {
	case p.relief <- struct{}{}:
	default:
	}
	if !p.reclaimer.gaveUp() {
		e.stuck, e.critical = time.Time{}, time.Time{}
		return
	}
	if e.stuck.IsZero() {
		e.stuck = now
		t := Transition{From: level, To: level, At: now, Reason: fmt.Sprintf("%v: %s", ErrCannotReduce, p.breakdown())}
		p.cfg.Logger.Warn("memory cannot be reduced", "rank", p.rank, "level", level, "reason", t.Reason)
		p.post(t)
	}
	switch {
	case level < Critical:
		e.critical = time.Time{}
	case e.critical.IsZero():
		e.critical = now
	case !e.begun && now.Sub(e.critical) >= p.cfg.ExhaustedAfter:
		e.begun = true
		p.stopped.Go(p.exhaust)
	}
}

// exhaust runs the checkpoint functions and then ends all that waits.
func (p *process) exhaust() {
	p.mu.Lock()
	checkpoints := slices.Clone(p.exhaustion.checkpoints)
	err := fmt.Errorf("%w: %s; %s", ErrExhausted, p.breakdown(), p.holders())
	p.mu.Unlock()
	p.cfg.Logger.Error("memory is exhausted", "rank", p.rank, "error", err)
	for _, c := range checkpoints {
		if c.guard.closed.Load() {
			continue
		}
		if err := guarded(c.f); err != nil {
			p.cfg.Logger.Error("checkpoint function failed", "rank", p.rank, "error", err)
		}
	}
	p.exhaustion.end(err)
}

// abort ends the job where the configuration says so. It is called on the one rank
// that the others name in their error.
func (g *Guard) abort(why error) {
	a, ok := g.comm.(Aborter)
	if g.cfg.AbortCode == 0 || !ok {
		return
	}
	log := g.cfg.Logger
	if !log.Enabled(context.Background(), slog.LevelError) {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)) // nobody would learn why the job ended
	}
	log.Error("the job ends for lack of memory", "rank", g.rank, "exit_code", g.cfg.AbortCode, "error", why)
	a.Abort(g.cfg.AbortCode)
}

// reliefs are the rounds of reclaim that relieve asks for.
func (p *process) reliefs() {
	for range p.relief {
		p.mu.Lock()
		want := p.excess()
		p.mu.Unlock()
		p.reclaim(want)
	}
}

// excess is what must go for the level to fall below High.
func (p *process) excess() int64 {
	b := p.budget.Load()
	var most int64
	for i := range b.Constraints {
		if v, ok := p.view(b, i); ok && v.pressure > 0 {
			used := float64(max(p.used[i], 0))
			most = max(most, int64(used*(1-(p.cfg.HighAt-releaseMargin)/v.pressure)))
		}
	}
	return most
}

// breakdown says whose the private memory of the process is.
func (p *process) breakdown() string {
	u := p.meter.last
	return fmt.Sprintf("%s private, of it %s Go and %s other; %s reserved, %s belongs to no reservation",
		sizeText(u.AnonBytes), sizeText(u.GoBytes), sizeText(u.NonGoBytes), sizeText(p.held.reserved()), sizeText(u.UnaccountedBytes))
}

// holders names the processes of the node, the largest first.
func (p *process) holders() string {
	p.rows = p.ledger.Rows(p.rows[:0])
	slices.SortFunc(p.rows, func(a, b ledger.Row) int { return cmp.Compare(b.PrivateBytes, a.PrivateBytes) })
	const named = 8
	var s []string
	for i, r := range p.rows {
		if i == named {
			s = append(s, fmt.Sprintf("and %d more", len(p.rows)-named))
			break
		}
		s = append(s, fmt.Sprintf("rank %d holds %s (%s reserved)", r.Rank, sizeText(r.PrivateBytes), sizeText(r.ReservedBytes)))
	}
	return strings.Join(s, ", ")
}
