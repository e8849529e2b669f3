package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linked is a report of so many nodes with one rank each, all linked with each
// other as cost says.
func linked(nodes int, cost func(a, b int) (latencySeconds, bytesPerSecond float64)) *Report {
	r := &Report{Nodes: make([]Node, nodes), Ranks: make([]Rank, nodes)}
	for i := range nodes {
		r.Nodes[i] = Node{Host: string(rune('a' + i)), Memory: unlimited, Place: Place{
			Shm: FileSystem{"/dev/shm", UnknownBytes, UnknownBytes}, Session: FileSystem{"/tmp", UnknownBytes, UnknownBytes}}}
		r.Ranks[i] = Rank{Rank: i, Node: i, OpenFiles: -1}
	}
	for _, pairs := range Rounds(nodes) {
		for _, p := range pairs {
			l := Link{Nodes: p}
			l.LatencySeconds, l.BytesPerSecond = cost(p[0], p[1])
			r.Links = append(r.Links, l)
		}
	}
	return r
}

var unlimited = Memory{UnlimitedBytes, UnknownBytes, UnlimitedBytes, ""}

// marks are the hosts that are outliers by latency and by bandwidth.
func marks(r *Report) (slow, narrow string) {
	for i, n := range r.Network() {
		if n.Slow {
			slow += r.Nodes[i].Host
		}
		if n.Narrow {
			narrow += r.Nodes[i].Host
		}
	}
	return slow, narrow
}

func TestOutliers(t *testing.T) {
	const ms, gb = 1e-3, 1e9
	// Samples of a healthy network, one for each pair of four nodes or fewer.
	healthy := []float64{10 * ms, 11 * ms, 9 * ms, 12 * ms, 10 * ms, 14 * ms, 8 * ms}
	sample := func(a, b int) float64 { return healthy[(3*a+b)%len(healthy)] }
	between := func(node int, bad float64, good func(a, b int) float64) func(a, b int) float64 {
		return func(a, b int) float64 {
			if a == node || b == node {
				return bad
			}
			return good(a, b)
		}
	}
	full := func(int, int) float64 { return gb }
	for _, c := range []struct {
		name         string
		nodes        int
		latency, bps func(a, b int) float64
		slow, narrow string
	}{
		{"healthy", 4, sample, full, "", ""},
		{"one at 200 ms among 10 ms", 4, between(2, 200*ms, sample), full, "c", ""},
		{"of three", 3, between(2, 200*ms, sample), full, "c", ""},
		{"the first, which leads", 3, between(0, 200*ms, sample), full, "a", ""},
		{"of twelve, of which each meets seven", 12, between(5, 200*ms, sample), full, "f", ""},
		{"of two either may be", 2, between(1, 200*ms, sample), full, "", ""},
		{"one on a slow interface", 4, sample, between(3, gb/100, full), "", "d"},
		{"slow in both ways", 5, between(1, 30*ms, sample), between(1, gb/4, full), "b", "b"},
		{"twice as slow is no outlier", 4, between(1, 20*ms, sample), between(1, gb/2, full), "", ""},
		{"alone", 1, sample, full, "", ""},
	} {
		r := linked(c.nodes, func(a, b int) (float64, float64) { return c.latency(a, b), c.bps(a, b) })
		slow, narrow := marks(r)
		assert.Equal(t, c.slow, slow, c.name)
		assert.Equal(t, c.narrow, narrow, c.name)
		assert.Len(t, r.Findings(), len(c.slow)+len(c.narrow), c.name)
		for i, l := range r.Links {
			a, b := r.Nodes[l.Nodes[0]].Host, r.Nodes[l.Nodes[1]].Host
			bad := strings.ContainsAny(a+b, slow+narrow)
			assert.Equal(t, bad, slices.Contains(r.Doubtful(), i), "%s: %s to %s", c.name, a, b)
		}
	}
}

// A link that is bad though its nodes are not, and one that is blocked.
func TestLinks(t *testing.T) {
	r := linked(5, func(a, b int) (float64, float64) {
		if a == 1 && b == 3 {
			return 5e-3, 1e6
		}
		return 10e-6, 1e9
	})
	slow, narrow := marks(r)
	assert.Empty(t, slow+narrow)
	require.Len(t, r.Doubtful(), 1)
	assert.Equal(t, [2]int{1, 3}, r.Links[r.Doubtful()[0]].Nodes)
	r.Links[0] = Link{Nodes: [2]int{0, 4}, Blocked: true}
	assert.Equal(t, []Finding{
		{Failure, []string{"a"}, "rank 0 cannot talk to rank 4 on e, though both answer rank 0: look for a firewall, or another interface that is used between them"},
		{Warning, []string{"b"}, "latency 5.0 ms to d, where 10 µs is typical"},
		{Warning, []string{"b"}, "bandwidth 977 KiB/s to d, where 954 MiB/s is typical"},
	}, r.Findings())

	r.Silent = []Silent{{Rank: 4, Host: "e", When: "within 20s at the end"}}
	assert.Equal(t, []Finding{
		{Failure, []string{"e"}, "rank 4 did not answer within 20s at the end: it is stopped, or cannot be reached"},
	}, r.Findings()[:1])
	assert.Len(t, r.Findings(), 3, "that a link to it is blocked needs no saying")
	assert.Zero(t, (&Report{Nodes: make([]Node, 1), Links: []Link{{Nodes: [2]int{0, 0}, Blocked: true}}}).Network()[0].BytesPerSecond)
}

func TestRounds(t *testing.T) {
	assert.Empty(t, Rounds(0))
	assert.Empty(t, Rounds(1))
	for nodes := range 40 {
		met := map[[2]int]bool{}
		peers := make([]int, nodes)
		for _, pairs := range Rounds(nodes) {
			busy := map[int]bool{}
			for _, p := range pairs {
				require.True(t, 0 <= p[0] && p[0] < p[1] && p[1] < nodes, "%d nodes: %v", nodes, p)
				require.False(t, met[p], "%d nodes: %v meet twice", nodes, p)
				require.False(t, busy[p[0]] || busy[p[1]], "%d nodes: %v are busy", nodes, p)
				met[p], busy[p[0]], busy[p[1]] = true, true, true
				peers[p[0]]++
				peers[p[1]]++
			}
			require.Len(t, pairs, nodes/2)
		}
		for _, n := range peers {
			require.GreaterOrEqual(t, n, min(nodes-1, maxPeers-nodes%2), "%d nodes", nodes)
			require.LessOrEqual(t, n, maxPeers)
		}
		if nodes <= maxPeers+1 {
			require.Len(t, met, nodes*(nodes-1)/2, "each meets each")
		}
	}
}
