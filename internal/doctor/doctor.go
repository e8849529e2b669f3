// Package doctor judges the set-up of an MPI job before its work begins: it
// reads what a node has, finds what is wrong with the nodes, the ranks and the
// ways between them, and prints it. It does not communicate; see the command
// mpidoctor.
package doctor

// Report is what was found out about a job.
type Report struct {
	Ranks []Rank // by rank
	Nodes []Node
	Links []Link
	// Silent are the ranks that did not answer in time, in rising order.
	Silent []Silent
	// Err is why the examination ended before its end, nil if it did not.
	Err error
}

// Rank is what a rank has.
type Rank struct {
	Rank int `json:"rank"`
	Node int `json:"node"` // index of Report.Nodes
	PID  int `json:"pid"`
	Memory
	ShareBytes Bytes `json:"share_bytes"` // its part of the limit, with all ranks that share it
	// SaidRanks is the number of ranks on the node that variables say, 0 where
	// none does, and SaidBy the variable.
	SaidRanks   int    `json:"said_ranks"`
	SaidBy      string `json:"said_by"`
	LockedBytes Bytes  `json:"locked_memory_bytes"` // RLIMIT_MEMLOCK
	OpenFiles   int64  `json:"open_files"`          // RLIMIT_NOFILE, -1 if unknown
	Library     string `json:"library"`             // of MPI, as it says itself
	ThreadLevel string `json:"thread_level"`
}

// Memory is the limit with the least headroom.
type Memory struct {
	LimitBytes    Bytes  `json:"limit_bytes"`
	UsedBytes     Bytes  `json:"used_bytes"` // by all that is under the limit
	HeadroomBytes Bytes  `json:"headroom_bytes"`
	Binding       string `json:"binding"` // what the limit is
}

// Node is what the ranks of a node share, as the first of them sees it.
type Node struct {
	Host string `json:"host"`
	Memory
	Notes []string `json:"notes"` // on its limits
	Place
}

// Silent is a rank that did not answer.
type Silent struct {
	Rank int    `json:"rank"`
	Host string `json:"host"` // "" if it never said
	When string `json:"when"` // how long it was waited for, and with what
}

// Link is the way between the first ranks of two nodes.
type Link struct {
	Nodes [2]int `json:"nodes"` // indices of Report.Nodes
	// LatencySeconds is half of the best round trip of a short message,
	// BytesPerSecond what the best of long messages reached.
	LatencySeconds float64 `json:"latency_seconds"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Blocked: a message was not answered in time; nothing else is known then.
	Blocked bool `json:"blocked"`
}

// ranksOn are the ranks of a node, in rising order.
func (r *Report) ranksOn(node int) []int {
	var ranks []int
	for _, k := range r.Ranks {
		if k.Node == node {
			ranks = append(ranks, k.Rank)
		}
	}
	return ranks
}
