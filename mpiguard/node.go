package mpiguard

import (
	"errors"

	"github.com/mpiguard/mpiguard/internal/ledger"
)

// neighbours are the processes on the kernel of rank me, each by its lowest rank,
// in rising order, and the place of the process of me among them.
func neighbours(peers []peer, me int) (ranks []int, place int) {
	seen := map[uint64]int{}
	for i, p := range peers {
		if _, ok := seen[p.process]; !ok && p.kernel == peers[me].kernel {
			seen[p.process] = len(ranks)
			ranks = append(ranks, i)
		}
	}
	return ranks, seen[peers[me].process]
}

// offer makes the ledger of this kernel if this process is its first, and
// returns what the others need to open it; zero where there is none to offer.
func (p *process) offer(peers []peer, me int) ledger.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.neighbours == nil {
		p.neighbours, p.place = neighbours(peers, me)
	}
	if len(p.neighbours) == 1 || p.place != 0 || p.cfg.noLedger {
		return ledger.Handle{}
	}
	if p.ledger == nil {
		l, err := ledger.Create(len(p.neighbours))
		if err != nil {
			p.cfg.Logger.Warn("no shared ledger of promises", "error", err)
			return ledger.Handle{}
		}
		p.ledger = l
	}
	return p.ledger.Handle()
}

// join learns what the process shares with others from the rows of all ranks, and
// takes its slot in the ledger of the kernel. An error means that the processes
// of the kernel must do without.
func (p *process) join(peers []peer, me int, rows []scopeRow) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.neighbours[0]
	h := ledger.Handle{PID: int(peers[first].pid), FD: int(rows[first].ledgerFD), Nonce: rows[first].ledgerNonce}
	alone := len(p.neighbours) == 1
	if p.slot != nil && (alone || p.ledger.Handle().Nonce == h.Nonce) {
		return nil // joined by another guard of the process
	}
	p.setShares(rows, me)
	p.host = make([]bool, len(peers))
	for i := range peers {
		p.host[i] = peers[i].node == peers[me].node
	}
	switch {
	case alone:
		return p.enter(ledger.InProcess(1), 0)
	case h.Nonce == 0:
		return errors.New("the first process of the node has none")
	case p.slot != nil:
		return errors.New("an open guard of this process is in another one")
	}
	l := p.ledger
	if l == nil {
		var err error
		if l, err = ledger.Open(h); err != nil {
			return err
		}
	}
	return p.enter(l, p.place)
}

// enter makes the process the owner of a slot of l.
func (p *process) enter(l *ledger.Ledger, slot int) (err error) {
	p.ids, p.binds = nil, nil
	for _, c := range p.budget.Load().Constraints {
		if c.id != 0 && c.Scope != ScopeProcess && len(p.ids) < ledger.MaxConstraints-1 {
			p.ids = append(p.ids, c.id)
		}
	}
	p.ids = append(p.ids, 0)
	p.binds = make([]int, len(p.ids))
	p.ledger = l
	p.slot, err = l.Join(slot, ledger.Member{
		IDs: p.ids, Measure: p.measure, Recall: p.recall, MinimumBytes: p.minimum(),
	})
	return err
}

// recall gives back what a neighbour is short of: leases that nobody uses, and
// memory that can be freed.
func (p *process) recall() {
	p.pool.Recall()
	p.reclaim(reclaimGrowth)
}

// minimumPart of its static share is what a rank may always hold, however long
// others have waited for more.
const minimumPart = 8

func (p *process) minimum() int64 {
	least := UnlimitedBytes
	for _, s := range p.shares {
		least = min(least, s.bytes()/minimumPart)
	}
	return least
}

// settle ends the joining, and begins to watch: where a process of the kernel
// could not join, all of them use static shares.
func (p *process) settle(all bool) error {
	var old *ledger.Ledger
	defer func() {
		if old != nil {
			_ = old.Close() // unmapping what is mapped does not fail; it waits for calls that may want p.mu
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched { // for another guard of the process, which stays where it is
		return nil
	}
	if !all {
		old = p.ledger
		p.static = true
		if err := p.enter(ledger.InProcess(1), 0); err != nil {
			return err
		}
		p.cfg.Logger.Warn("the ranks of this node share no ledger: each has a static share of the budget")
	}
	if !p.cfg.KeepGoLimit {
		if p.goLimit = newGoLimit(); p.goLimit != nil {
			p.cfg.Logger.Info("the Go memory limit follows the budget", "rank", p.rank)
		}
	}
	p.watched = true
	p.stopped.Go(p.watch)
	p.stopped.Go(p.reliefs)
	return nil
}

// scope is what the other ranks need to know to divide the constraints.
func (p *process) scope(peers []peer, me int) scopeRow {
	h := p.offer(peers, me)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(full)
	row := scopeRow{process: peers[me].process, anonBytes: p.meter.last.AnonBytes,
		ledgerFD: int64(h.FD), ledgerNonce: h.Nonce}
	n := 0
	b := p.budget.Load()
	for i, c := range b.Constraints {
		if _, binds := p.view(b, i); binds && n < len(row.constraints) {
			row.constraints[n] = scopeEntry{c.id, c.LimitBytes, p.used[i]}
			n++
		}
	}
	return row
}

// setShares learns from the rows of all ranks which constraints this process
// shares with others.
func (p *process) setShares(rows []scopeRow, me int) {
	b := p.budget.Load()
	p.shares = map[uint64]share{}
	for _, c := range b.Constraints {
		if s := shareOf(rows, me, c.id, c.KeptFreeBytes(b.KeepFree)); s.ranks > 0 {
			p.shares[c.id] = s
		}
	}
	p.publish(b)
}
