package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/doctor"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

// deadline is for ranks that are goroutines of one process, with other work beside.
const deadline = 2 * time.Second

func newExam(c mpiguard.Messenger) *exam {
	return &exam{mail: mail{comm: c}, deadline: deadline, hosts: []string{"a", "b", "c", "d"}, library: "Open MPI v4.1.4", threadLevel: "MPI_THREAD_SINGLE"}
}

// examined is what rank 0 and the others report.
type examined struct {
	report   *doctor.Report
	together bool
}

// examineAll runs an examination; leave, where it says so, has a rank do
// something else, and be gone.
func examineAll(t *testing.T, ranks int, leave func(e *exam) bool) map[int]examined {
	var mu sync.Mutex
	all := map[int]examined{}
	start := time.Now()
	require.NoError(t, inproc.Run(ranks, func(c mpiguard.Messenger) error {
		e := newExam(c)
		if leave(e) {
			return nil
		}
		report, together := e.examine()
		mu.Lock()
		defer mu.Unlock()
		all[c.Rank()] = examined{report, together}
		return nil
	}))
	assert.Less(t, time.Since(start), 2*deadline)
	return all
}

func TestExamine(t *testing.T) {
	for _, ranks := range []int{1, 4} {
		all := examineAll(t, ranks, func(*exam) bool { return false })
		for _, x := range all {
			assert.True(t, x.together)
			assert.Empty(t, x.report.Silent)
			assert.NoError(t, x.report.Err)
		}
		r := all[0].report
		host, err := os.Hostname()
		require.NoError(t, err)
		require.Len(t, r.Nodes, 1)
		assert.Equal(t, host, r.Nodes[0].Host)
		assert.Greater(t, r.Nodes[0].LimitBytes, doctor.Bytes(1<<20))
		assert.Equal(t, "/dev/shm", r.Nodes[0].Shm.Path)
		require.Len(t, r.Ranks, ranks)
		for i, k := range r.Ranks {
			assert.Equal(t, i, k.Rank)
			assert.Equal(t, os.Getpid(), k.PID)
			assert.Equal(t, "Open MPI v4.1.4", k.Library)
			assert.Greater(t, k.ShareBytes, doctor.Bytes(1<<20))
			assert.LessOrEqual(t, k.ShareBytes, k.LimitBytes/doctor.Bytes(ranks))
		}
	}
}

// A rank that is gone is named, wherever it went; the others say nothing.
func TestGone(t *testing.T) {
	for when, leave := range map[string]func(e *exam){
		"when the ranks told their limits": func(*exam) {},
		"at the end":                       func(e *exam) { _ = e.gather(&doctor.Report{}) },
	} {
		all := examineAll(t, 4, func(e *exam) bool {
			if e.comm.Rank() != 2 {
				return false
			}
			leave(e)
			return true
		})
		assert.False(t, all[0].together)
		assert.Equal(t, []doctor.Silent{{Rank: 2, Host: "c", When: "within 2s " + when}}, all[0].report.Silent)
	}
}

func TestLeaderIsGone(t *testing.T) {
	for when, leave := range map[string]func(e *exam){
		"when the ranks told their limits": func(*exam) {},
		"when it was to give orders":       func(e *exam) { _ = e.gather(&doctor.Report{}) },
	} {
		all := examineAll(t, 3, func(e *exam) bool {
			if e.comm.Rank() != 0 {
				return false
			}
			leave(e)
			return true
		})
		for _, rank := range []int{1, 2} {
			assert.False(t, all[rank].together)
			assert.Equal(t, []doctor.Silent{{Rank: 0, Host: "a", When: "within 2s " + when}}, all[rank].report.Silent)
		}
	}
}

// What is wrong on one rank before it can start is an error on all, in order.
func TestCannotStart(t *testing.T) {
	t.Setenv("MPIGUARD_KEEP_FREE", "lots")
	for _, x := range examineAll(t, 3, func(*exam) bool { return false }) {
		assert.True(t, x.together)
		assert.ErrorContains(t, x.report.Err, "MPIGUARD_KEEP_FREE")
	}
}

// spread is the report of a job with two ranks on each node.
func spread(nodes int) *doctor.Report {
	r := &doctor.Report{Nodes: make([]doctor.Node, nodes)}
	for rank := range 2 * nodes {
		r.Ranks = append(r.Ranks, doctor.Rank{Rank: rank, Node: rank / 2})
	}
	return r
}

func TestMeasure(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 5} {
		report := spread(nodes)
		require.NoError(t, inproc.Run(2*nodes, func(c mpiguard.Messenger) error {
			e := newExam(c)
			if c.Rank() != 0 {
				return e.obey(report)
			}
			r := spread(nodes)
			e.measure(r)
			assert.Len(t, r.Links, nodes*(nodes-1)/2)
			for _, l := range r.Links {
				assert.False(t, l.Blocked)
				assert.Greater(t, l.LatencySeconds, 0.0)
				assert.Less(t, l.LatencySeconds, 0.5)
				assert.Greater(t, l.BytesPerSecond, 1e6)
			}
			e.order(doStop)
			e.flush(t.Context())
			return nil
		}))
	}
}

// Of three nodes one does not answer: that shows on its links alone, and each is
// waited for but once.
func TestMeasureBlocked(t *testing.T) {
	for _, gone := range []int{2, 4} { // one that measures, one that answers
		report := spread(3)
		require.NoError(t, inproc.Run(6, func(c mpiguard.Messenger) error {
			e := newExam(c)
			switch c.Rank() {
			case gone:
				return nil
			case 0:
			default:
				return e.obey(report)
			}
			start := time.Now()
			r := spread(3)
			e.measure(r)
			assert.Less(t, time.Since(start), deadline)
			for _, l := range r.Links {
				assert.Equal(t, l.Nodes[0] == gone/2 || l.Nodes[1] == gone/2, l.Blocked, "%+v", l)
			}
			assert.NotEmpty(t, r.Links)
			e.order(doStop)
			return nil
		}))
	}
}

func TestExchange(t *testing.T) {
	require.NoError(t, inproc.Run(4, func(c mpiguard.Messenger) error {
		mine := func(length int) row {
			return row{Rank: doctor.Rank{Rank: c.Rank(), Library: strings.Repeat("x", length)}}
		}
		rows, err := exchange(t.Context(), c, mine(100*c.Rank()))
		require.NoError(t, err)
		for i, r := range rows {
			assert.Equal(t, i, r.Rank.Rank)
			assert.Len(t, r.Rank.Library, 100*i)
			assert.Nil(t, r.Node)
		}
		length := 1
		if c.Rank() == 2 {
			length = maxRowBytes
		}
		_, err = exchange(t.Context(), c, mine(length))
		assert.ErrorContains(t, err, fmt.Sprintf("more than %d", maxRowBytes))
		return c.Barrier(t.Context())
	}))
}

// A receive that is given up takes nothing that comes later.
func TestReceiveGivenUp(t *testing.T) {
	require.NoError(t, inproc.Run(2, func(c mpiguard.Messenger) error {
		m := &mail{comm: c}
		if c.Rank() == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			var n int
			_, err := m.receive(ctx, &n, 1, tagReply)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, c.Barrier(t.Context()))
			_, err = m.receive(t.Context(), &n, 1, tagReply)
			assert.NoError(t, err)
			assert.Equal(t, 5, n)
			return nil
		}
		require.NoError(t, c.Barrier(t.Context()))
		return m.sendBytes(t.Context(), []byte("5"), 0, tagReply)
	}))
}

func TestNotes(t *testing.T) {
	long := mpiguard.Constraint{Source: "MemTotal", Notes: []string{strings.Repeat("x", 1000)}}
	b := &mpiguard.Budget{Notes: []string{"hybrid"}, Constraints: []mpiguard.Constraint{long, long}}
	assert.Equal(t, []string{"hybrid", "MemTotal: " + strings.Repeat("x", 246)}, notes(b))
	assert.Equal(t, []string{}, notes(&mpiguard.Budget{}))
	assert.Len(t, notes(&mpiguard.Budget{Notes: make([]string, 100)}), 16)
}

func TestLimitedGroup(t *testing.T) {
	group := func(path string, limit int64) mpiguard.Constraint {
		return mpiguard.Constraint{Scope: mpiguard.ScopeCgroup, Path: path, LimitBytes: limit}
	}
	leaf := group("/job/step/task", mpiguard.UnlimitedBytes)
	node := mpiguard.Constraint{Scope: mpiguard.ScopeNode, Path: "/proc/meminfo", LimitBytes: 1}
	assert.Equal(t, "/job/step", limitedGroup(&mpiguard.Budget{Constraints: []mpiguard.Constraint{leaf, group("/job/step", 5), group("/job", 9), node}}))
	assert.Empty(t, limitedGroup(&mpiguard.Budget{Constraints: []mpiguard.Constraint{leaf, group("/job", mpiguard.UnknownBytes), node}}))
}
