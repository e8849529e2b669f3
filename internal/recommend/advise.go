package recommend

import (
	"fmt"
	"math"
)

// Query is what is asked. The zero value asks for a run like those recorded.
type Query struct {
	InputBytes   int64 // 0: as recorded
	RanksPerNode int   // 0: as recorded
	NodeBytes    int64 // the memory of a node; 0: as recorded
}

// Advice is how much memory to ask for, for each node.
type Advice struct {
	Runs         int     `json:"runs"`
	RanksPerNode int     `json:"ranks_per_node"`
	PeakBytes    int64   `json:"peak_bytes"` // what is expected to be used
	Margin       float64 `json:"margin"`     // on top of it
	MemBytes     int64   `json:"mem_bytes"`  // to ask for: whole MiB
	RankBytes    int64   `json:"rank_bytes"` // the part of each rank of it, without the margin
	// MaxRanks is how many ranks fit a node of NodeBytes, 0 where that is unknown.
	MaxRanks  int      `json:"max_ranks,omitempty"`
	NodeBytes int64    `json:"node_bytes,omitempty"`
	Fit       *Fit     `json:"fit,omitempty"` // nil where nothing had to be predicted over the input size
	Notes     []string `json:"notes,omitempty"`
}

const (
	mebi = 1 << 20
	// beyond is how far past the largest recorded size an extrapolation goes
	// without a word.
	beyond = 4
	// keptFreeBytes is the least that a guard keeps free of a limit. In large
	// limits it is part of the margin.
	keptFreeBytes = 8 << 20
)

// Margins: what is added to the expected peak. One run says nothing of how runs
// differ.
const (
	leastMargin  = 0.10
	oneRunMargin = 0.30
	mostMargin   = 0.50
)

// Advise says how much memory a node needs. It returns ErrCutShort,
// ErrTooFewSizes or ErrPoorFit where the records do not tell.
func Advise(ms []Measurement, q Query) (*Advice, error) {
	if len(ms) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrTooFewSizes)
	}
	for i := range ms {
		if m := &ms[i]; m.CutShort != "" {
			return nil, fmt.Errorf("%w: %s of run %s: at least %d MiB a node were needed, and nobody knows how much more; record it with a larger limit",
				ErrCutShort, m.CutShort, m.Run, ceilMiB(m.PeakBytes))
		}
	}
	largest := &ms[0]
	a := &Advice{Runs: len(ms), RanksPerNode: q.RanksPerNode, NodeBytes: q.NodeBytes}
	var heldBack bool
	for i := range ms {
		m := &ms[i]
		heldBack = heldBack || m.HeldBack
		if m.InputBytes > largest.InputBytes || m.InputBytes == largest.InputBytes && m.PeakBytes > largest.PeakBytes {
			largest = m
		}
		if q.NodeBytes == 0 && m.NodeBytes > 0 && (a.NodeBytes == 0 || m.NodeBytes < a.NodeBytes) {
			a.NodeBytes = m.NodeBytes
		}
	}
	if a.RanksPerNode == 0 {
		a.RanksPerNode = largest.RanksPerNode
	}
	input := q.InputBytes
	if input == 0 {
		input = largest.InputBytes
	}
	points := make([]point, len(ms))
	var same []float64 // peaks at the size that is asked for
	var missed float64
	for i := range ms {
		m := &ms[i]
		points[i] = point{float64(m.InputBytes), float64(m.needs(a.RanksPerNode))}
		if m.InputBytes == input {
			same = append(same, points[i].y)
		}
		missed = max(missed, float64(m.MissedBytes)/float64(max(m.PeakBytes, 1)))
	}
	var y float64
	switch {
	case len(same) > 0:
		for _, v := range same {
			y = max(y, v)
		}
		a.Margin = oneRunMargin + missed
		if len(same) > 1 {
			a.Margin = leastMargin + 2*spread(same)/math.Sqrt(float64(len(same)-1)) + missed
		}
	case len(ms) > 0:
		f, predicted, err := fit(points, float64(input), float64(a.RanksPerNode)*noiseRankBytes)
		if err != nil {
			return nil, err
		}
		a.Fit, y = f, predicted
		a.Margin = oneRunMargin + f.Residual + f.Uncertain + missed
		if f.Times > beyond {
			a.Notes = append(a.Notes, fmt.Sprintf("extrapolated ×%.3g, steps not visible", f.Times))
		}
	}
	a.Margin = min(max(a.Margin, leastMargin), mostMargin)
	a.PeakBytes = int64(y)
	a.MemBytes = ceilMiB(int64(y*(1+a.Margin))+keptFreeBytes) * mebi
	shared := float64(largest.SharedBytes)
	a.RankBytes = int64(max(y-shared, 0) / float64(a.RanksPerNode))
	if a.NodeBytes > 0 && a.RankBytes > 0 {
		// The operating system has to live as well.
		usable := float64(a.NodeBytes-min(a.NodeBytes*8/100, 2<<30)-keptFreeBytes)/(1+a.Margin) - shared
		a.MaxRanks = max(int(usable/float64(a.RankBytes)), 0)
	}
	if len(ms) == 1 {
		a.Notes = append(a.Notes, "one run only: how much runs differ is not known")
	}
	if a.RanksPerNode != largest.RanksPerNode {
		a.Notes = append(a.Notes, fmt.Sprintf("measured with %d ranks a node: holds where each rank works on as much data as it did", largest.RanksPerNode))
	}
	if heldBack {
		a.Notes = append(a.Notes, "memory was short in a recorded run (level high): with more it may use more")
	}
	return a, nil
}

func ceilMiB(n int64) int64 { return (n + mebi - 1) / mebi }

// Slurm is the lines of a batch script.
func (a *Advice) Slurm() string {
	return fmt.Sprintf("#SBATCH --ntasks-per-node=%d\n#SBATCH --mem=%dM\n", a.RanksPerNode, a.MemBytes/mebi)
}

// Kubernetes is the memory of the worker container of an MPIJob, which holds as
// many ranks as a node. It counts what the ranks keep in /dev/shm.
func (a *Advice) Kubernetes() string {
	return fmt.Sprintf("resources:\n  requests:\n    memory: %[1]dMi\n  limits:\n    memory: %[1]dMi\n", a.MemBytes/mebi)
}
