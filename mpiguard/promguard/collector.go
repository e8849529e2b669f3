// Package promguard exports a guard to Prometheus. It makes no MPI call.
//
// One target a node is enough: the lowest rank of a node exports the level, the
// private memory, the reservations and the headroom of all ranks there, which it
// reads from the memory that they share.
package promguard

import (
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// Guard is what a Collector reads; *mpiguard.Guard is one.
type Guard interface {
	// Usage measures the memory of the process.
	Usage() mpiguard.Usage
	// Budget is what limits it.
	Budget() *mpiguard.Budget
	// Stats are the counters, and the ranks of the node.
	Stats() mpiguard.Stats
}

var _ Guard = (*mpiguard.Guard)(nil)

// PoolStats are figures of a buffer pool: those of bufpool.Stats.
type PoolStats struct {
	Idle, Out, Trimmed, Waiting int
	ResidentBytes               int64
	Waits, Trims                uint64
}

// Collector is a prometheus.Collector of a guard. Each scrape measures the
// memory of the process, which takes some 10 µs.
type Collector struct {
	guard Guard
	pools map[string]func() PoolStats
}

// NewCollector makes a Collector. pools may be nil; its keys name the pools, and
// its functions are called with each scrape.
func NewCollector(g Guard, pools map[string]func() PoolStats) *Collector {
	return &Collector{g, pools}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mpiguard_"+name, help, labels, nil)
}

var (
	rankLevel    = desc("rank_level", "Memory pressure of a rank of this node: 0 normal, 1 elevated, 2 high, 3 critical.", "rank")
	rankPrivate  = desc("rank_private_bytes", "Private memory of a rank's process.", "rank")
	rankReserved = desc("rank_reserved_bytes", "What the reservations of a rank hold.", "rank")
	rankHeadroom = desc("rank_headroom_bytes", "What a rank could reserve; +Inf where nothing limits it.", "rank")

	usage     = desc("usage_bytes", "Memory of the exporting process: anon (which is go and native), shmem, file; untouched is promised and not resident, unaccounted resident and in no reservation.", "rank", "kind")
	usagePeak = desc("usage_peak_bytes", "High-water mark of the resident set of the exporting process.", "rank")
	limit     = desc("limit_bytes", "A limit that the exporting process is under; +Inf where it is not set.", "source", "path", "scope")
	limitUsed = desc("limit_used_bytes", "What counts against a limit; page cache does not.", "source", "path", "scope")
	keptFree  = desc("limit_kept_free_bytes", "The part of a limit that is not given out.", "source", "path", "scope")

	reservations = desc("reservations", "Open reservations of the exporting rank.", "rank")
	chunkSize    = desc("chunk_bytes", "Size of the last chunk that the exporting rank read.", "rank")
	transitions  = desc("level_transitions_total", "Changes of the level of the exporting rank, by the level that it changed to.", "rank", "to")
	oomKills     = desc("oom_kills_total", "Processes that the kernel killed for memory in the cgroups of the exporting process, since the guard was made.")
	collective   = desc("collective_duration_seconds", "Time that the exporting rank spent in a collective of the guard.", "op")
	slowest      = desc("collective_slowest_rank", "The rank that entered the last call of a collective latest.", "op")
	lag          = desc("collective_lag_seconds", "How long after the first rank the slowest one entered the last call of a collective.", "op")

	poolBuffers  = desc("pool_buffers", "Buffers of a pool: idle, out, or trimmed (without memory).", "pool", "state")
	poolResident = desc("pool_resident_bytes", "Memory of the buffers of a pool.", "pool")
	poolWaiting  = desc("pool_waiting", "Calls that wait for a buffer of a pool.", "pool")
	poolWaits    = desc("pool_waits_total", "Calls that had to wait for a buffer of a pool.", "pool")
	poolTrims    = desc("pool_trims_total", "Buffers of a pool that had their memory taken.", "pool")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		rankLevel, rankPrivate, rankReserved, rankHeadroom, usage, usagePeak, limit, limitUsed, keptFree, reservations,
		chunkSize, transitions, oomKills, collective, slowest, lag, poolBuffers, poolResident, poolWaiting, poolWaits, poolTrims,
	} {
		ch <- d
	}
}

// sink sends metrics of one scrape. What is unknown is left out.
type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sink) bytes(d *prometheus.Desc, n int64, labels ...string) {
	switch n {
	case mpiguard.UnknownBytes:
	case mpiguard.UnlimitedBytes:
		s.gauge(d, math.Inf(1), labels...)
	default:
		s.gauge(d, float64(n), labels...)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := sink(ch)
	u, st := c.guard.Usage(), c.guard.Stats()
	me := strconv.Itoa(st.Rank)
	for _, r := range st.Node {
		rank := strconv.Itoa(r.Rank)
		s.gauge(rankLevel, float64(r.Level), rank)
		s.bytes(rankPrivate, r.AnonBytes, rank)
		s.bytes(rankReserved, r.ReservedBytes, rank)
		s.bytes(rankHeadroom, r.HeadroomBytes, rank)
	}
	for kind, n := range map[string]int64{
		"anon": u.AnonBytes, "go": u.GoBytes, "native": u.NonGoBytes, "shmem": u.ShmemBytes, "file": u.FileBytes,
		"untouched": u.UntouchedBytes, "unaccounted": u.UnaccountedBytes,
	} {
		s.bytes(usage, n, me, kind)
	}
	s.bytes(usagePeak, u.PeakBytes, me)
	b := c.guard.Budget()
	seen := map[[3]string]bool{}
	for _, l := range b.Constraints {
		labels := [3]string{l.Source, l.Path, scopes[l.Scope]}
		if seen[labels] {
			continue // a name twice would lose the whole scrape
		}
		seen[labels] = true
		s.bytes(limit, l.LimitBytes, labels[:]...)
		s.bytes(limitUsed, l.UsedBytes, labels[:]...)
		s.bytes(keptFree, l.KeptFreeBytes(b.KeepFree), labels[:]...)
	}
	s.gauge(reservations, float64(st.Reservations), me)
	if st.ChunkBytes > 0 {
		s.bytes(chunkSize, st.ChunkBytes, me)
	}
	for to, n := range st.Transitions {
		s.counter(transitions, float64(n), me, mpiguard.Level(to).String())
	}
	if st.OOMKills >= 0 {
		s.counter(oomKills, float64(st.OOMKills))
	}
	for op, t := range map[string]mpiguard.CollectiveStats{"survey": st.Survey, "pulse": st.Pulse} {
		s <- prometheus.MustNewConstSummary(collective, t.Count, t.Total.Seconds(), nil, op)
		if t.Count > 0 && t.SlowestRank >= 0 {
			s.gauge(slowest, float64(t.SlowestRank), op)
			s.gauge(lag, t.Lag.Seconds(), op)
		}
	}
	for name, stats := range c.pools {
		p := stats()
		for state, n := range map[string]int{"idle": p.Idle, "out": p.Out, "trimmed": p.Trimmed} {
			s.gauge(poolBuffers, float64(n), name, state)
		}
		s.bytes(poolResident, p.ResidentBytes, name)
		s.gauge(poolWaiting, float64(p.Waiting), name)
		s.counter(poolWaits, float64(p.Waits), name)
		s.counter(poolTrims, float64(p.Trims), name)
	}
}

var scopes = map[mpiguard.Scope]string{
	mpiguard.ScopeProcess: "process", mpiguard.ScopeCgroup: "cgroup", mpiguard.ScopeJob: "job", mpiguard.ScopeNode: "node",
}
