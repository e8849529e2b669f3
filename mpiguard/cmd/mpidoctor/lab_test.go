//go:build cgo && linux

package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/doctor"
	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/hosts"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

func TestLabTwoHosts(t *testing.T) {
	c := lab.Hosts(t,
		hosts.Host{Name: "tight", Slots: 2, Limits: lab.Limits{MaxBytes: 128 << 20}},
		hosts.Host{Name: "wide", Slots: 2, Limits: lab.Limits{MaxBytes: 512 << 20}})
	r := examineJob(t, c.Spread(mpirun.Config{Ranks: 4}))
	require.Len(t, r.Nodes, 2)
	for i, want := range []struct {
		host       string
		limitBytes doctor.Bytes
	}{{"tight", 128 << 20}, {"wide", 512 << 20}} {
		n := r.Nodes[i]
		assert.Equal(t, want.host, n.Host)
		assert.Equal(t, want.limitBytes, n.LimitBytes)
		assert.Contains(t, n.Binding, c.Group(want.host).Dir()[len("/sys/fs/cgroup/memory"):])
		assert.Equal(t, []string{"orted"}, n.Helpers.Names, "mpirun is outside")
		for _, k := range r.Ranks[2*i:][:2] {
			assert.Equal(t, i, k.Node)
			assert.Equal(t, want.limitBytes, k.LimitBytes)
			assert.Less(t, k.ShareBytes, want.limitBytes/2)
			assert.Equal(t, 2, k.SaidRanks)
		}
	}
	require.Len(t, r.Links, 1)
	assert.Equal(t, [2]int{0, 1}, r.Links[0].Nodes)
	assert.Greater(t, r.Links[0].LatencySeconds, 1e-6)
	assert.Greater(t, r.Links[0].BytesPerSecond, 1e6)
}

func TestLabThrottledHost(t *testing.T) {
	c := lab.Hosts(t, hosts.Host{Name: "a", Slots: 2}, hosts.Host{Name: "b", Slots: 1}, hosts.Host{Name: "c", Slots: 1})
	require.NoError(t, c.Run("b", "tc qdisc add dev eth0 root tbf rate 10mbit burst 64kb latency 400ms"))
	r := examineJob(t, c.Spread(mpirun.Config{Ranks: 4}))
	require.Len(t, r.Network, 3)
	for i, n := range r.Network {
		assert.Equal(t, r.Nodes[i].Host == "b", n.Narrow, "%+v", r.Links)
	}
	assert.Less(t, r.Network[1].BytesPerSecond, 100e6/8, "what the interface lets through at once counts too")
	found := false
	for _, f := range r.Findings {
		t.Log(f)
		found = found || len(f.Hosts) == 1 && f.Hosts[0] == "b" && f.Severity == "warning"
	}
	assert.True(t, found)
}

// A node that does not answer in the midst of measuring is named.
func TestLabStoppedHost(t *testing.T) {
	c := lab.Hosts(t, hosts.Host{Name: "a", Slots: 1}, hosts.Host{Name: "b", Slots: 1}, hosts.Host{Name: "c", Slots: 1})
	self, err := os.Executable()
	require.NoError(t, err)
	for _, at := range []string{"ping", "pong"} {
		r := lab.Mpirun(t, c.Spread(mpirun.Config{Ranks: 3, Env: []string{stopRankVariable + "=1", stopAtVariable + "=" + at}}), self)
		assert.Equal(t, exitErrors, r.Exit)
		assert.Contains(t, r.Stdout, "\nerror: b: rank 1 did not answer within 6s at the end")
		assert.Less(t, r.Elapsed, 2*jobDeadline)
	}
}

func TestLabSlurm(t *testing.T) {
	c := lab.Slurm(t, 2)
	out, err := c.Command(t.Context(), "srun", "-N2", "--ntasks-per-node=2", "--mem=200M", "--mpi=pmix", program(t), "-json").Output()
	require.NoError(t, err, "%s", out)
	var r reported
	require.NoError(t, json.Unmarshal(out, &r), "%s", out)
	require.Len(t, r.Nodes, 2)
	for i, n := range r.Nodes {
		assert.Equal(t, c.Nodes()[i], n.Host)
		assert.Equal(t, doctor.Bytes(200<<20), n.LimitBytes)
		assert.Contains(t, n.Binding, "/slurm_"+n.Host+"/uid_0/job_")
		assert.Equal(t, []string{"slurmstepd"}, n.Helpers.Names)
		assert.Contains(t, n.Helpers.Group, "/step_0")
	}
	require.Len(t, r.Ranks, 4)
	for _, k := range r.Ranks {
		assert.Equal(t, doctor.Bytes(200<<20), k.LimitBytes)
		assert.Equal(t, 2, k.SaidRanks)
		assert.Equal(t, "SLURM_STEP_TASKS_PER_NODE", k.SaidBy)
		assert.Less(t, k.ShareBytes, doctor.Bytes(100<<20))
	}
}
