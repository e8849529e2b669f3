package mpiguard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
)

// Guard is one rank's view of the memory of its job. It is made by New, and all
// its methods may be called from any goroutine; those marked Collective. call
// the communicator, one at a time and by all ranks in the same order.
type Guard struct {
	comm  Comm
	rank  int
	cfg   Config
	proc  *process
	peers []peer

	closed       atomic.Bool
	closing      context.Context // done when Close begins: ends Reserves that wait
	beginClose   context.CancelFunc
	growing      sync.RWMutex // held for reading by each Grow that may wait
	closeOnce    sync.Once
	closeErr     error
	inCollective atomic.Bool
	recorder     *blackbox.Writer // nil records nothing; guarded by proc.mu

	surveys, pulses CollectiveStats // guarded by proc.mu
	notices         notices
}

// New finds the budget of this rank and of the ranks that share its limits, and
// starts to watch. A nil comm is one rank without MPI. Collective.
//
// A rank that cannot start (a bad Config, a bad MPIGUARD variable, a ctx that is
// done) votes so, and New returns the same *CollectiveError, which names that
// rank and its reason, on all ranks; configurations that differ are
// ErrConfigMismatch. A limit that cannot be read is no error: the budget notes it.
// While a guard is open in the process, New on another communicator returns
// ErrInUse (in-process ranks apart). After an error nothing is left running.
func New(ctx context.Context, comm Comm, cfg Config) (*Guard, error) {
	if comm == nil {
		comm = self{}
	}
	g := &Guard{comm: comm, rank: comm.Rank()}
	g.closing, g.beginClose = context.WithCancel(context.Background())
	err := g.start(cfg)
	if err = g.meet(ctx, err); err == nil {
		err = g.divide(ctx)
	}
	if err != nil {
		g.beginClose()
		if g.proc != nil {
			g.proc.leave(g)
		}
		return nil, err
	}
	g.proc.look(fresh)
	g.startRecord()
	if b := g.Budget(); g.rank == 0 {
		g.cfg.Logger.Info("memory budget", "limit", sizeText(b.LimitBytes()), "headroom", sizeText(b.HeadroomBytes()),
			"share", sizeText(b.ShareBytes), "ranks", comm.Size())
	}
	return g, nil
}

// start does what needs no other rank.
func (g *Guard) start(cfg Config) (err error) {
	if g.cfg, err = cfg.effective(cfg.machine.environ()); err != nil {
		g.cfg, _ = Config{machine: cfg.machine}.effective(nil) // to take part in saying so
		return err
	}
	g.proc, err = joinProcess(g)
	return err
}

// Close ends the guard: it stops what the guard started, ends every Reserve that
// waits with ErrClosed, and releases the reservations that are still held, which
// its error names. It makes no MPI call and waits for no other rank, so it may
// run before or after MPI ends. A second Close returns the same error.
func (g *Guard) Close() error {
	g.closeOnce.Do(func() {
		g.closed.Store(true)
		g.beginClose()
		g.growing.Lock() // so that what is released here is not granted to one that must end
		g.closeErr = g.releaseAll()
		g.growing.Unlock()
		g.notices.close()
		g.proc.reclaimer.forget(g)
		g.proc.leave(g)
		problem := ""
		if g.closeErr != nil {
			problem = g.closeErr.Error()
		}
		g.recorder.Close(time.Now(), problem)
	})
	return g.closeErr
}

// Budget is what this rank may use, and why, as of the last time that the limits
// were read: within the last second or so. The caller must not change it.
func (g *Guard) Budget() *Budget { return g.proc.budget.Load() }

// Level is the memory pressure of this rank. It costs one atomic load.
func (g *Guard) Level() Level { return Level(g.proc.level.Load()) }

// HeadroomBytes is what this rank could reserve as of the last sample;
// UnlimitedBytes where nothing limits it, and negative where more is used than
// what may be used.
func (g *Guard) HeadroomBytes() int64 { return g.proc.headroom.Load() }

// Usage measures the memory of this rank now; HeadroomBytes and Level follow.
func (g *Guard) Usage() Usage {
	g.proc.look(full)
	g.proc.mu.Lock()
	defer g.proc.mu.Unlock()
	return g.usage()
}

// usage is the last sample, with the reservations of this rank.
func (g *Guard) usage() Usage {
	u := g.proc.meter.last
	u.ReservedBytes = g.reservedBytes()
	return u
}

// reservedBytes is what the reservations of this rank hold.
func (g *Guard) reservedBytes() int64 {
	if len(g.proc.guards) == 1 {
		return g.proc.held.reserved()
	}
	var sum int64
	for owner, n := range g.proc.pool.All() {
		if owner.(*Reservation).guard == g {
			sum += n
		}
	}
	return sum
}
