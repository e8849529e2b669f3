package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/blackbox"
	"github.com/mpiguard/mpiguard/internal/kernellog"
)

// Fate is how a rank ended.
type Fate uint8

// The fates.
const (
	Unknown   Fate = iota // nothing tells
	Running               // it lives
	Closed                // it closed its guard
	Crashed               // the Go runtime wrote a crash
	OOMKilled             // the kernel killed it for memory
	Ended                 // without Close: os.Exit or a signal
)

var fates = [...]string{"unknown", "running", "closed", "crashed", "OOM-killed", "ended without Close"}

// String returns the fate in words.
func (f Fate) String() string { return fates[f] }

// MarshalText returns the fate in words.
func (f Fate) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// silence is how long the record of a living rank stands still at most: the
// watcher samples every second, and a machine under pressure is slow.
const silence = 10 * time.Second

// killMatches is how far apart the kernel's word on a kill and the last sample
// of the rank may be: the clock of the kernel's log drifts.
const killMatches = time.Minute

// settle finds out how each rank of the node ended.
func (n *Node) settle(e Evidence) {
	for _, r := range n.Ranks {
		r.settle(e)
	}
	n.Limit = n.tightest()
	var gone []*Rank // ended in a way that a kill would explain
	for _, r := range n.Ranks {
		if r.Fate == Ended || r.Fate == Unknown {
			gone = append(gone, r)
		}
		if r.Last != nil {
			n.Killed = max(n.Killed, r.Last.OOMKills)
		}
	}
	logged := n.byLog(gone, e)
	if !logged && n.Killed > 0 {
		n.byCount(gone)
	}
}

// settle finds out what the rank's own record says.
func (r *Rank) settle(e Evidence) {
	sameKernel := r.Header.BootID != "" && r.Header.BootID == e.BootID
	quiet := e.Now.Sub(r.EndedAt)
	switch {
	case r.closed != nil:
		r.Fate, r.Because = Closed, "it said so"
		if r.closed.Error != "" {
			r.Because = "Close returned: " + r.closed.Error
		}
	case r.crash != "":
		r.Fate, r.Because = Crashed, firstLine(r.crash)
	case r.held:
		r.Fate, r.Because = Running, "its process holds the record"
	case r.Header.Locked && sameKernel:
		r.Fate, r.Because = Ended, "its process is gone"
	case r.Last == nil:
		r.Fate, r.Because = Unknown, "no sample can be read"
	case quiet <= silence:
		r.Fate, r.Because = Running, "its last sample is recent"
	case sameKernel || quiet > 10*silence:
		r.Fate, r.Because = Ended, fmt.Sprintf("no sign of life for %v", quiet.Round(time.Second))
	default:
		r.Fate, r.Because = Unknown, fmt.Sprintf("no sign of life for %v", quiet.Round(time.Second))
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// tightest is the limit that bound at the end. Of ranks under several, the one
// that was used the most.
func (n *Node) tightest() *Limit {
	var limit *Limit
	for _, r := range n.Ranks {
		if r.binding < 0 {
			continue
		}
		l := r.limits[r.binding]
		switch {
		case limit == nil || l.id != limit.id && l.use() > limit.use():
			limit = &l
		case l.id == limit.id:
			limit.UsedBytes = max(limit.UsedBytes, l.UsedBytes)
			limit.PeakUsedBytes = max(limit.PeakUsedBytes, l.PeakUsedBytes)
		}
	}
	return limit
}

// use is the part of the limit that was in use at the end.
func (l *Limit) use() float64 {
	return float64(max(l.UsedBytes, 0)) / float64(max(l.LimitBytes, 1))
}

// byLog goes by the kernel's log. It reports whether that tells of the ranks
// that are gone.
func (n *Node) byLog(gone []*Rank, e Evidence) (told bool) {
	pids := map[int]bool{}
	for _, r := range n.Ranks {
		pids[r.PID] = true
	}
	for i := range e.Logs {
		l := &e.Logs[i]
		covers := false
		for _, r := range gone {
			if l.covers(r) {
				covers = true
				r.Because += ", and the kernel's log has no kill of it"
			}
			for _, k := range l.Kills {
				if (l.BootID == "" || l.BootID == r.Header.BootID) && isOf(&k, r) {
					r.Fate, r.Because = OOMKilled, "the kernel's log says so"
					if k.At.After(r.EndedAt) { // the clock of the log may be behind
						r.EndedAt = k.At
					}
				}
			}
		}
		for _, k := range l.Kills {
			if covers && !pids[k.PID] && n.concerns(k) {
				n.Others = append(n.Others, k)
			}
		}
		told = told || covers
	}
	return told
}

// isOf reports whether k is the kill of the rank. PIDs are used again and differ
// between containers, so all else that is known has to agree.
func isOf(k *kernellog.Kill, r *Rank) bool {
	if r.Header.OwnPIDs || k.PID != r.PID || r.Header.Program != "" && k.Program != comm(r.Header.Program) {
		return false
	}
	grouped := k.Cgroup != "" && r.Header.Cgroup != ""
	if grouped && !sameGroup(k.Cgroup, r.Header.Cgroup) {
		return false
	}
	if k.At.IsZero() || r.EndedAt.IsZero() {
		return grouped // a PID and a name are too little
	}
	return k.At.Sub(r.EndedAt).Abs() <= killMatches
}

// comm is as much of a program's name as the kernel keeps.
func comm(program string) string { return program[:min(len(program), 15)] }

// sameGroup compares a path from the root of the hierarchy with one that may be
// from the root of a cgroup namespace.
func sameGroup(full, seen string) bool {
	full, seen = path.Clean("/"+full), path.Clean("/"+seen)
	return seen == "/" || full == seen || strings.HasSuffix(full, seen)
}

// concerns reports whether a kill is of a process under the node's limit while
// the ranks ran.
func (n *Node) concerns(k kernellog.Kill) bool {
	if n.Limit == nil || n.Limit.Scope != blackbox.ScopeCgroup || k.At.IsZero() {
		return false
	}
	under := strings.HasPrefix(path.Clean(k.Cgroup)+"/", strings.TrimSuffix(path.Clean(n.Limit.Path), "/")+"/")
	start, end := n.Ranks[0].firstSign(), time.Time{}
	for _, r := range n.Ranks {
		if r.EndedAt.After(end) {
			end = r.EndedAt
		}
	}
	return under && n.Limit.Path != "/" && k.At.After(start) && k.At.Before(end.Add(time.Second))
}

// byCount goes by the number of kills that the ranks saw. A rank that saw the
// last of them lives after it, so it was not among them; if that leaves one rank,
// it is the one, and otherwise nothing tells which.
func (n *Node) byCount(gone []*Rank) {
	var fit []*Rank
	for _, r := range gone {
		if r.Last == nil || r.Last.OOMKills < n.Killed {
			fit = append(fit, r)
		}
	}
	if len(fit) == 1 {
		fit[0].Fate = OOMKilled
		fit[0].Because = fmt.Sprintf("oom_kill of its group rose by %d, and no other rank can have been killed", n.Killed)
		return
	}
	for _, r := range fit {
		n.Suspects = append(n.Suspects, r.Rank)
	}
}

// dead are the ranks with a fate, in the order in which they ended.
func (n *Node) with(f Fate) []*Rank {
	var out []*Rank
	for _, r := range n.Ranks {
		if r.Fate == f {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *Rank) int { return cmp.Compare(a.EndedAt.UnixNano(), b.EndedAt.UnixNano()) })
	return out
}

// damage says what is wrong with a file, "" if nothing is. The one record that
// was being written when the process was killed is nothing wrong.
func damage(f *blackbox.File) string {
	var parts []string
	if f.HeaderLost {
		parts = append(parts, "the header is lost")
	}
	if n := f.Damage.Slots; n > 2 || n > 0 && f.Close != nil {
		parts = append(parts, fmt.Sprintf("%d damaged %s", n, plural(n, "slot")))
	}
	if f.Damage.MissingBytes > 0 {
		parts = append(parts, fmt.Sprintf("%s cut off", size(f.Damage.MissingBytes)))
	}
	return strings.Join(parts, ", ")
}
