package doctor

import (
	"cmp"
	"math"
	"slices"
)

// outlierFactor is how many times worse than what is typical a node or a link is
// told. Healthy nodes of one network differ by less.
const outlierFactor = 3

// NodeNetwork is how well the other nodes reach a node.
type NodeNetwork struct {
	// LatencySeconds and BytesPerSecond are the medians over the links of the
	// node, 0 where none was measured.
	LatencySeconds float64 `json:"latency_seconds"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Slow and Narrow mark a node that is an outlier by its latency, by its
	// bandwidth: at least three times worse than the median of all nodes.
	Slow   bool `json:"latency_outlier"`
	Narrow bool `json:"bandwidth_outlier"`
}

// Network judges the nodes by their links. With fewer than three nodes there is
// nothing to compare, and none is an outlier.
func (r *Report) Network() []NodeNetwork {
	networks := make([]NodeNetwork, len(r.Nodes))
	latency, inverse := r.costs(linkLatency), r.costs(linkInverse)
	slow, narrow := outliers(latency), outliers(inverse)
	for i := range networks {
		n := &networks[i]
		n.Slow, n.Narrow = slow[i], narrow[i]
		if !math.IsNaN(latency[i]) {
			n.LatencySeconds, n.BytesPerSecond = latency[i], 1/inverse[i]
		}
	}
	return networks
}

// What a link costs: the less the better.
func linkLatency(l Link) float64 { return l.LatencySeconds }
func linkInverse(l Link) float64 { return 1 / l.BytesPerSecond }

// costs are those of the nodes, each the median of its links, NaN without any.
func (r *Report) costs(cost func(Link) float64) []float64 {
	costs := make([]float64, len(r.Nodes))
	for node := range costs {
		var own []float64
		for _, l := range r.Links {
			if !l.Blocked && slices.Contains(l.Nodes[:], node) {
				own = append(own, cost(l))
			}
		}
		costs[node] = median(own)
	}
	return costs
}

// median is the middle of the costs, of an even number the better one: so that
// of three nodes one bad one spoils neither of the others.
func median(costs []float64) float64 {
	costs = slices.DeleteFunc(slices.Clone(costs), math.IsNaN)
	if len(costs) == 0 {
		return math.NaN()
	}
	slices.Sort(costs)
	return costs[(len(costs)-1)/2]
}

// outliers marks what is far above the median.
func outliers(costs []float64) []bool {
	typical := median(costs)
	marks := make([]bool, len(costs))
	for i, c := range costs {
		marks[i] = c >= outlierFactor*typical
	}
	return marks
}

// badLinks are the links that are far worse than what is typical of the nodes
// though neither of their nodes is.
func (r *Report) badLinks(cost func(Link) float64) []Link {
	costs := r.costs(cost)
	typical, marks := median(costs), outliers(costs)
	var bad []Link
	for _, l := range r.Links {
		if !l.Blocked && cost(l) >= outlierFactor*typical && !marks[l.Nodes[0]] && !marks[l.Nodes[1]] {
			bad = append(bad, l)
		}
	}
	return bad
}

// Doubtful are the indices of links that are far worse than what is typical of
// the nodes, whatever it is due to: worth a second look.
func (r *Report) Doubtful() []int {
	latency, inverse := median(r.costs(linkLatency)), median(r.costs(linkInverse))
	var doubtful []int
	for i, l := range r.Links {
		if !l.Blocked && (linkLatency(l) >= outlierFactor*latency || linkInverse(l) >= outlierFactor*inverse) {
			doubtful = append(doubtful, i)
		}
	}
	return doubtful
}

// Rounds says which nodes exchange messages at the same time, so that each node
// meets up to maxPeers others and is in one exchange at a time. A node that has
// nobody to talk to in a round is in none of its pairs.
func Rounds(nodes int) [][][2]int {
	if nodes < 2 {
		return nil
	}
	// All but the last seat move on by one in each round, so that everybody meets
	// everybody; with an odd number one seat is empty.
	seats := nodes + nodes%2
	var rounds [][][2]int
	for round := range min(seats-1, maxPeers) {
		var pairs [][2]int
		for i := range seats / 2 {
			a, b := (round+i)%(seats-1), (round+seats-1-i)%(seats-1)
			if i == 0 {
				b = seats - 1
			}
			if a, b := min(a, b), max(a, b); b < nodes {
				pairs = append(pairs, [2]int{a, b})
			}
		}
		slices.SortFunc(pairs, func(x, y [2]int) int { return cmp.Compare(x[0], y[0]) })
		rounds = append(rounds, pairs)
	}
	return rounds
}

// maxPeers bounds what a large job costs.
const maxPeers = 7
