package mpiguard

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mpiguard/mpiguard/internal/procfs"
	"github.com/mpiguard/mpiguard/internal/sched"
	"github.com/mpiguard/mpiguard/internal/size"
)

// The sources of a limit that is not the scheduler's.
const (
	limitVariable = "MPIGUARD_LIMIT"
	limitField    = "Config.LimitBytes"
)

// openJob finds the limits of the job on this node that were asked for, in the
// configuration or of the scheduler. What counts against them, the memory of the
// ranks of the job here, is for the guard to say.
func (m *monitor) openJob(environ []string, nodeLimitBytes int64) {
	source := limitField
	if v, ok := lookup(environ, limitVariable); ok {
		source = limitVariable
		if n, err := size.Parse(v); err != nil {
			m.notes = append(m.notes, limitVariable+": "+err.Error()) // New refuses it
		} else {
			nodeLimitBytes = n
		}
	}
	if nodeLimitBytes > 0 {
		m.addJob(source, nodeLimitBytes)
	}
	job := sched.Detect(environ, m.host.name)
	for _, l := range job.Limits {
		c := m.addJob(l.Source, l.Bytes)
		if job.Ranks > 1 {
			c.Notes = append(c.Notes, fmt.Sprintf("%d ranks on this node by %s, %s for each", job.Ranks, job.RanksSource, sizeText(l.Bytes/int64(job.Ranks))))
		}
	}
	m.notes = append(m.notes, job.Notes...)
}

func (m *monitor) addJob(source string, limitBytes int64) *Constraint {
	m.job = append(m.job, Constraint{
		Source: source, Path: source, Scope: ScopeJob, Kind: KindAdvisory,
		LimitBytes: limitBytes, id: m.id("job "+source, m.host.name),
	})
	return &m.job[len(m.job)-1]
}

// addJobs adds the limits of the job, with what the other constraints say of them.
func (m *monitor) addJobs(b *Budget) {
	enforced := UnlimitedBytes
	for _, c := range b.Constraints {
		if c.Scope == ScopeCgroup && c.Kind == KindHard && c.LimitBytes >= 0 {
			enforced = min(enforced, c.LimitBytes)
		}
	}
	for _, c := range m.job {
		notes := slices.Clip(c.Notes)
		scheduled := c.Source != limitVariable && c.Source != limitField
		if scheduled && enforced > c.LimitBytes+c.LimitBytes/8 { // schedulers round, and may allow a little more
			notes = append(notes, "requested, not enforced: no cgroup has this limit")
		}
		if total := m.ram.memory.TotalBytes; total > 0 && enforced == UnlimitedBytes && c.LimitBytes > total/5*4 {
			notes = append(notes, "looks like the size of the node, as a Kubernetes variable does in a pod without a limit")
		}
		c.Notes = notes
		m.add(b, row{}, c)
	}
}

// environment is that of the process on the machine; nil when it cannot be read.
func (m *monitor) environment(machine Machine) []string {
	if machine.Environ != nil {
		return machine.Environ
	}
	if m.ownProcess() {
		return os.Environ()
	}
	text, err := m.fsys.Read(procfs.Dir(m.pid)+"/environ", nil)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

func lookup(environ []string, key string) (string, bool) {
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key && v != "" {
			return v, true
		}
	}
	return "", false
}
