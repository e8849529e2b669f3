// Package recommend says how much memory to ask for, by what runs were recorded
// to need. It is pure.
package recommend

import (
	"fmt"
	"time"

	"github.com/mpiguard/mpiguard/internal/level"
	"github.com/mpiguard/mpiguard/internal/report"
)

// Measurement is what one run needed.
type Measurement struct {
	Run          string    `json:"run"`
	Start        time.Time `json:"start"`
	InputBytes   int64     `json:"input_bytes,omitempty"` // 0: not recorded
	RanksPerNode int       `json:"ranks_per_node"`        // of the fullest node
	// PeakBytes is the peak of the node that needed the most.
	PeakBytes int64 `json:"peak_bytes"`
	// RankBytes is the largest private memory of one rank, SharedBytes what a node
	// needs besides that of its ranks: shared memory, the launcher, the kernel.
	RankBytes   int64 `json:"rank_bytes"`
	SharedBytes int64 `json:"shared_bytes"`
	// MissedBytes bounds what rose and fell between two samples, on the worst node.
	MissedBytes int64 `json:"missed_bytes"`
	NodeBytes   int64 `json:"-"` // the memory of the smallest node, 0 where it was not recorded

	CutShort string `json:"-"` // why the run needed more than was measured, "" if it did not
	HeldBack bool   `json:"-"` // the level was High or more: with more memory it may use more
}

// Measure reads off a run what it needed.
func Measure(run *report.Run) Measurement {
	m := Measurement{Run: run.ID, Start: run.Start, InputBytes: run.InputBytes}
	if len(run.Missing) > 0 {
		m.CutShort = fmt.Sprintf("there is no record of %d of its %d ranks", len(run.Missing), run.Size)
	}
	for _, n := range run.Nodes {
		m.RanksPerNode = max(m.RanksPerNode, len(n.Ranks))
		peak, ranks, missed := n.PeakBytes(), int64(0), int64(0)
		inProcess := map[int]bool{}
		for _, r := range n.Ranks {
			if r.Fate != report.Closed && m.CutShort == "" {
				m.CutShort = fmt.Sprintf("rank %d did not close its guard (%s)", r.Rank, r.Fate)
			}
			for _, t := range r.Transitions {
				m.HeldBack = m.HeldBack || t.To >= level.High
			}
			if r.Last == nil || inProcess[r.PID] {
				continue
			}
			inProcess[r.PID] = true
			ranks += r.PeakAnonBytes
			missed += max(r.HighWaterBytes-r.PeakAnonBytes-max(r.Last.ShmemBytes, 0)-max(r.Last.FileBytes, 0), 0)
			m.RankBytes = max(m.RankBytes, r.PeakAnonBytes)
		}
		if len(n.Ranks) > 1 && len(inProcess) == 1 { // one process holds all ranks: its memory is divided
			m.RankBytes = max(m.RankBytes/int64(len(n.Ranks)), 1)
		}
		m.PeakBytes = max(m.PeakBytes, peak)
		m.MissedBytes = max(m.MissedBytes, missed)
		m.SharedBytes = max(m.SharedBytes, peak-ranks)
		if ram := n.RAMBytes(); ram > 0 && (m.NodeBytes == 0 || ram < m.NodeBytes) {
			m.NodeBytes = ram
		}
	}
	return m
}

// needs is what a node with so many ranks would have needed.
func (m *Measurement) needs(ranksPerNode int) int64 {
	if ranksPerNode == m.RanksPerNode {
		return m.PeakBytes
	}
	return m.SharedBytes + int64(ranksPerNode)*m.RankBytes
}
