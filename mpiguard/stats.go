package mpiguard

import (
	"cmp"
	"slices"
	"time"
)

// Stats are figures of a guard for monitoring: counters since New, and the ranks
// of the node as they last wrote themselves into the node's ledger.
type Stats struct {
	Rank, Size int
	// Node are the live ranks of this node, in rising order. Ranks of one process
	// have one entry, that of the lowest; where the node has no ledger it is the
	// entry of this rank alone.
	Node []NodeRank
	// Reservations is how many this rank has open.
	Reservations int
	// ChunkBytes is the size of the last chunk that was read under an account of
	// this rank, 0 if there was none.
	ChunkBytes int64
	// Transitions counts the changes to each level.
	Transitions [Critical + 1]uint64
	// OOMKills is how many processes the kernel killed for memory in the cgroups
	// of this process since New, UnknownBytes where that cannot be read.
	OOMKills int64
	// Survey and Pulse time these collectives: where a rank is late, all wait.
	Survey, Pulse CollectiveStats
}

// NodeRank is one rank of a node as its ledger has it.
type NodeRank struct {
	Rank, PID int
	Level     Level
	// AnonBytes is the private memory of its process.
	AnonBytes, ReservedBytes, HeadroomBytes int64
}

// CollectiveStats are the calls of one collective.
type CollectiveStats struct {
	Count uint64
	Total time.Duration
	// SlowestRank entered the last call latest, by Lag after the first; -1 where
	// that is not known. Clocks of different nodes may differ by more than that.
	SlowestRank int
	Lag         time.Duration
}

// Stats returns the figures of now. It measures nothing and costs a few hundred
// nanoseconds a rank of the node.
func (g *Guard) Stats() Stats {
	p := g.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Rank: g.rank, Size: g.comm.Size(), Transitions: p.transitions, OOMKills: p.kills(), Survey: g.surveys, Pulse: g.pulses}
	for owner := range p.pool.All() {
		if owner.(*Reservation).guard == g {
			s.Reservations++
		}
	}
	p.rows = p.ledger.Rows(p.rows[:0])
	for _, r := range p.rows {
		s.Node = append(s.Node, NodeRank{Rank: r.Rank, PID: r.PID, Level: Level(r.Level),
			AnonBytes: r.PrivateBytes, ReservedBytes: r.ReservedBytes, HeadroomBytes: r.HeadroomBytes})
	}
	slices.SortFunc(s.Node, func(a, b NodeRank) int { return cmp.Compare(a.Rank, b.Rank) })
	return s
}

// note counts a call of the collective that began at start; slowest and lag are as
// in CollectiveStats.
func (c *CollectiveStats) note(start time.Time, slowest int, lag time.Duration) {
	c.Count++
	c.Total += time.Since(start)
	c.SlowestRank, c.Lag = slowest, lag
}

// slowest finds the rank that entered a Survey last, by the moments of the rows.
func slowest(rows []usageRow) (rank int, lag time.Duration) {
	first, last := rows[0].usage.At, rows[0].usage.At
	for i, r := range rows {
		switch at := r.usage.At; {
		case at.After(last):
			last, rank = at, i
		case at.Before(first):
			first = at
		}
	}
	return rank, last.Sub(first)
}
