package promguard

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// still is a guard that does not move.
type still struct {
	usage  mpiguard.Usage
	budget *mpiguard.Budget
	stats  mpiguard.Stats
}

func (s *still) Usage() mpiguard.Usage    { return s.usage }
func (s *still) Budget() *mpiguard.Budget { return s.budget }
func (s *still) Stats() mpiguard.Stats    { return s.stats }

func fourRanks() *still {
	const mib = 1 << 20
	s := &still{
		usage: mpiguard.Usage{AnonBytes: 50 * mib, GoBytes: 40 * mib, NonGoBytes: 10 * mib, ShmemBytes: 4 * mib, FileBytes: 3 * mib,
			PeakBytes: 60 * mib, UntouchedBytes: mpiguard.UnknownBytes, UnaccountedBytes: 5 * mib},
		budget: &mpiguard.Budget{KeepFree: 0.08, Constraints: []mpiguard.Constraint{
			{Source: "cgroup v2 memory.max", Path: "/job", Scope: mpiguard.ScopeCgroup, LimitBytes: 200 * mib, UsedBytes: 190 * mib},
			{Source: "cgroup v2 memory.max", Path: "/job", Scope: mpiguard.ScopeCgroup, LimitBytes: 200 * mib, UsedBytes: 190 * mib},
			{Source: "RLIMIT_AS", Path: "RLIMIT_AS", Scope: mpiguard.ScopeProcess, LimitBytes: mpiguard.UnlimitedBytes, UsedBytes: mpiguard.UnknownBytes},
		}},
		stats: mpiguard.Stats{Rank: 0, Size: 8, Reservations: 2, ChunkBytes: mib, OOMKills: 1,
			Transitions: [4]uint64{0, 2, 1, 0},
			Survey:      mpiguard.CollectiveStats{Count: 3, Total: 1500 * time.Millisecond, SlowestRank: 5, Lag: 400 * time.Millisecond},
			Pulse:       mpiguard.CollectiveStats{SlowestRank: -1}},
	}
	for rank := range 4 {
		s.stats.Node = append(s.stats.Node, mpiguard.NodeRank{Rank: rank, PID: 10 + rank, Level: mpiguard.High, AnonBytes: 50 * mib, ReservedBytes: 8 * mib, HeadroomBytes: -mib})
	}
	return s
}

var pools = map[string]func() PoolStats{
	"read": func() PoolStats {
		return PoolStats{Idle: 3, Out: 4, Trimmed: 1, Waiting: 2, ResidentBytes: 7 << 20, Waits: 9, Trims: 5}
	},
}

func TestCollector(t *testing.T) {
	c := NewCollector(fourRanks(), pools)
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
	const want = `
# HELP mpiguard_collective_duration_seconds Time that the exporting rank spent in a collective of the guard.
# TYPE mpiguard_collective_duration_seconds summary
mpiguard_collective_duration_seconds_sum{op="pulse"} 0
mpiguard_collective_duration_seconds_count{op="pulse"} 0
mpiguard_collective_duration_seconds_sum{op="survey"} 1.5
mpiguard_collective_duration_seconds_count{op="survey"} 3
# HELP mpiguard_collective_slowest_rank The rank that entered the last call of a collective latest.
# TYPE mpiguard_collective_slowest_rank gauge
mpiguard_collective_slowest_rank{op="survey"} 5
# HELP mpiguard_level_transitions_total Changes of the level of the exporting rank, by the level that it changed to.
# TYPE mpiguard_level_transitions_total counter
mpiguard_level_transitions_total{rank="0",to="critical"} 0
mpiguard_level_transitions_total{rank="0",to="elevated"} 2
mpiguard_level_transitions_total{rank="0",to="high"} 1
mpiguard_level_transitions_total{rank="0",to="normal"} 0
# HELP mpiguard_limit_bytes A limit that the exporting process is under; +Inf where it is not set.
# TYPE mpiguard_limit_bytes gauge
mpiguard_limit_bytes{path="/job",scope="cgroup",source="cgroup v2 memory.max"} 2.097152e+08
mpiguard_limit_bytes{path="RLIMIT_AS",scope="process",source="RLIMIT_AS"} +Inf
# HELP mpiguard_limit_used_bytes What counts against a limit; page cache does not.
# TYPE mpiguard_limit_used_bytes gauge
mpiguard_limit_used_bytes{path="/job",scope="cgroup",source="cgroup v2 memory.max"} 1.9922944e+08
# HELP mpiguard_pool_buffers Buffers of a pool: idle, out, or trimmed (without memory).
# TYPE mpiguard_pool_buffers gauge
mpiguard_pool_buffers{pool="read",state="idle"} 3
mpiguard_pool_buffers{pool="read",state="out"} 4
mpiguard_pool_buffers{pool="read",state="trimmed"} 1
# HELP mpiguard_rank_headroom_bytes What a rank could reserve; +Inf where nothing limits it.
# TYPE mpiguard_rank_headroom_bytes gauge
mpiguard_rank_headroom_bytes{rank="0"} -1.048576e+06
mpiguard_rank_headroom_bytes{rank="1"} -1.048576e+06
mpiguard_rank_headroom_bytes{rank="2"} -1.048576e+06
mpiguard_rank_headroom_bytes{rank="3"} -1.048576e+06
# HELP mpiguard_rank_level Memory pressure of a rank of this node: 0 normal, 1 elevated, 2 high, 3 critical.
# TYPE mpiguard_rank_level gauge
mpiguard_rank_level{rank="0"} 2
mpiguard_rank_level{rank="1"} 2
mpiguard_rank_level{rank="2"} 2
mpiguard_rank_level{rank="3"} 2
`
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(want), "mpiguard_collective_duration_seconds", "mpiguard_collective_slowest_rank",
		"mpiguard_level_transitions_total", "mpiguard_limit_bytes", "mpiguard_limit_used_bytes", "mpiguard_pool_buffers", "mpiguard_rank_headroom_bytes", "mpiguard_rank_level"))
}

// headroom -1 MiB is a number; only UnknownBytes is unknown.
func TestUnknownIsLeftOut(t *testing.T) {
	s := fourRanks()
	s.stats.OOMKills = mpiguard.UnknownBytes
	s.stats.ChunkBytes = 0
	c := NewCollector(s, nil)
	assert.Zero(t, testutil.CollectAndCount(c, "mpiguard_oom_kills_total"))
	assert.Zero(t, testutil.CollectAndCount(c, "mpiguard_chunk_bytes"))
	assert.Equal(t, 6, testutil.CollectAndCount(c, "mpiguard_usage_bytes"), "all but untouched")
	assert.NoError(t, prometheus.NewPedanticRegistry().Register(c))
}

func scrape(t *testing.T, addr net.Addr) string {
	resp, err := http.Get("http://" + addr.String() + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop, err := serve(l, NewCollector(fourRanks(), pools))
	require.NoError(t, err)
	text := scrape(t, l.Addr())
	assert.Contains(t, text, `mpiguard_rank_level{rank="3"} 2`)
	t.Run("promtool", func(t *testing.T) {
		promtool, err := exec.LookPath("promtool")
		lab.Need(t, err == nil, "promtool is in Debian's package prometheus")
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err)
		assert.Empty(t, string(out))
	})
	stop()
	_, err = http.Get("http://" + l.Addr().String() + "/metrics")
	assert.Error(t, err, "nobody listens after stop")
}

// One rank of a node listens.
func TestServeOnTheLowestRank(t *testing.T) {
	s := fourRanks()
	s.stats.Rank = 2
	stop, err := Serve(s, "256.0.0.1:1", nil) // it would fail if it listened
	require.NoError(t, err)
	stop()
	s.stats.Rank = 0
	_, err = Serve(s, "256.0.0.1:1", nil)
	assert.Error(t, err)
	stop, err = Serve(s, "127.0.0.1:0", nil)
	require.NoError(t, err)
	stop()
}
