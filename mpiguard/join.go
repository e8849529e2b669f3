package mpiguard

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/mpiguard/mpiguard/internal/procfs"
)

// peer is what New learns of a rank for good.
type peer struct {
	kernel  uint64 // equal for ranks on one kernel
	node    uint64 // equal for ranks of one host name on one kernel
	process uint64 // equal for ranks in one process
	pid     int64
	started int64 // nanoseconds since 1970
	host    string
	steer   steering
}

const (
	hostBytes    = 64
	peerRowBytes = 5*8 + hostBytes + len(steering{})*8
)

func (p *peer) code(c *coder) {
	c.uint64(&p.kernel)
	c.uint64(&p.node)
	c.uint64(&p.process)
	c.int64(&p.pid)
	c.int64(&p.started)
	c.text(&p.host, hostBytes)
	for i := range p.steer {
		c.uint64(&p.steer[i])
	}
}

// self describes this rank to the others.
func (g *Guard) self() peer {
	// What cannot be read is empty; the rest still tells nodes and processes apart.
	host, _ := os.Hostname()
	m := g.cfg.machine
	boot, _ := procfs.BootID(m.Root)
	start, _ := procfs.StartTime(m.Root, m.PID)
	namespace, _ := os.Readlink("/proc/self/ns/pid") // in which a PID means something
	pid := os.Getpid()
	return peer{
		kernel:  constraintID(boot),
		node:    constraintID(boot, host),
		process: constraintID(boot, host, namespace, strconv.Itoa(pid), strconv.FormatUint(start, 10)),
		pid:     int64(pid), started: time.Now().UnixNano(), host: host, steer: g.cfg.steering(),
	}
}

// failure is the message of a rank that cannot take part in New.
type failure struct{ text string }

const failureBytes = 256

func (f *failure) code(c *coder) { c.text(&f.text, failureBytes) }

// meet tells all ranks who is where and whether each could start; local is why
// this rank could not, or nil. All ranks return the same error.
func (g *Guard) meet(ctx context.Context, local error) error {
	var agreed error
	err := g.collective(ctx, "new", func(ctx context.Context, mine vote) (int, vote, error) {
		if local != nil {
			mine = voteFailed
		}
		me := g.self()
		all, err := gather(ctx, g.comm, peerRowBytes, mine, &me, (*peer).code)
		if err != nil || all.vote != voteFailed {
			g.peers = all.rows
			return all.worst, all.vote, err
		}
		why := failure{}
		if local != nil {
			why.text = local.Error()
		}
		texts, err := gather(ctx, g.comm, failureBytes, voteYes, &why, (*failure).code)
		if err != nil {
			return -1, voteYes, err
		}
		agreed = errors.New(texts.rows[all.worst].text)
		if all.worst == g.rank {
			agreed = local // the same text, and the caller can unwrap it
		}
		agreed = &CollectiveError{"new", all.worst, agreed}
		return -1, voteYes, nil
	})
	if err != nil {
		return err
	}
	if agreed != nil {
		return agreed
	}
	for i, p := range g.peers {
		if err := p.steer.mismatch(g.peers[0].steer); err != nil {
			return &CollectiveError{"new", i, err}
		}
	}
	return nil
}

// divide finds what this process shares with others, and joins it to the ledger
// of the node.
func (g *Guard) divide(ctx context.Context) error {
	return g.collective(ctx, "new", func(ctx context.Context, mine vote) (int, vote, error) {
		row := g.proc.scope(g.peers, g.rank)
		all, err := gather(ctx, g.comm, scopeRowBytes, mine, &row, (*scopeRow).code)
		if err != nil || all.vote != voteYes {
			return all.worst, all.vote, err
		}
		var joined joinedRow
		if err := g.proc.join(g.peers, g.rank, all.rows); err != nil {
			g.cfg.Logger.Info("no ledger of the node", "rank", g.rank, "error", err)
		} else {
			joined.yes = 1
		}
		answers, err := gather(ctx, g.comm, 1, voteYes, &joined, (*joinedRow).code)
		if err != nil {
			return -1, voteYes, err
		}
		together := true
		for i, j := range answers.rows {
			together = together && (j.yes == 1 || g.peers[i].kernel != g.peers[g.rank].kernel)
		}
		return -1, voteYes, g.proc.settle(together)
	})
}

// joinedRow says whether a process could join the ledger of its kernel.
type joinedRow struct{ yes byte }

func (j *joinedRow) code(c *coder) { c.byte(&j.yes) }
