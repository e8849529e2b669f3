package mpiguard

import (
	"math"
	"strconv"
)

// Unknown and Unlimited stand in for a number of bytes that could not be read,
// and for a limit that is not set. Both differ from zero, which is a number.
const (
	UnknownBytes   int64 = -1
	UnlimitedBytes int64 = math.MaxInt64
)

// Scope is the set of processes that a constraint counts.
type Scope uint8

// The scopes.
const (
	ScopeProcess Scope = iota // this process alone: an RLIMIT
	ScopeCgroup               // all processes of a cgroup and of those below it
	ScopeJob                  // the ranks of this job on this node
	ScopeNode                 // everything that runs on the node
)

// Kind says what happens above the limit of a constraint.
type Kind uint8

// The kinds.
const (
	KindHard     Kind = iota // the kernel kills, or refuses
	KindSoft                 // the kernel throttles and reclaims (memory.high)
	KindAdvisory             // nothing in the kernel: a request, a variable
)

var (
	scopeNames = [...]string{"process", "cgroup", "job", "node"}
	kindNames  = [...]string{"hard", "soft", "advisory"}
)

// String returns the name of the scope: process, cgroup, job or node.
func (s Scope) String() string { return nameOf(scopeNames[:], int(s)) }

// MarshalText returns the name of the scope.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the name of the kind: hard, soft or advisory.
func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

// MarshalText returns the name of the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return strconv.Itoa(i)
}

// Constraint is one limit with the usage that belongs to it, both of one scope
// and read together. A limit is never compared with the usage of another scope.
type Constraint struct {
	Source string // what the limit is, e.g. "cgroup v2 memory.max", "RLIMIT_AS", "MemTotal"
	Path   string // the cgroup within its hierarchy, or the file or variable that says so
	Scope  Scope
	Kind   Kind
	// LimitBytes is the limit, UnlimitedBytes or UnknownBytes.
	LimitBytes int64
	// UsedBytes is what counts against the limit (page cache does not), or UnknownBytes.
	UsedBytes int64
	// Ranks is how many ranks of the communicator are under the constraint, 0
	// outside a Guard.
	Ranks int
	// Throttled is how often the kernel throttled processes at this limit, of kind
	// soft; Killed is how many processes of a cgroup it killed for memory, those of
	// the groups below included on cgroup v2. Both count from when the group was
	// made, so that a difference tells of this job; 0 where nothing is counted.
	Throttled, Killed int64
	// Notes are remarks for people, e.g. "may include reclaimable slab".
	Notes []string

	// id is the same for every process that the constraint counts, and for no
	// other on any node: ranks with equal ids share it. Zero for ScopeProcess.
	id uint64
	// cpus is the number of CPUs that are online on the constraint's node.
	cpus int
}

// label names the constraint in a line of text.
func (c Constraint) label() string {
	if c.Path == c.Source {
		return c.Source
	}
	return c.Source + " " + c.Path
}

// limited reports whether there is a limit, and it is known.
func (c Constraint) limited() bool {
	return c.LimitBytes >= 0 && c.LimitBytes != UnlimitedBytes
}

// KeptFreeBytes is the part of the limit that is not given out: the fraction of
// it, but at least 8 MiB and 512 KiB for each CPU, by which the kernel's figures
// may lag, and at most 2 GiB. It is zero where there is no limit.
func (c Constraint) KeptFreeBytes(fraction float64) int64 {
	if !c.limited() {
		return 0
	}
	return keptFreeBytes(c.LimitBytes, fraction, c.cpus)
}

// HeadroomBytes is what can still be used when the fraction of the limit is kept
// free: UnlimitedBytes without a limit, UnknownBytes when the limit or the usage
// is unknown, and zero when more is used already.
func (c Constraint) HeadroomBytes(fraction float64) int64 {
	switch {
	case c.LimitBytes == UnlimitedBytes:
		return UnlimitedBytes
	case !c.limited() || c.UsedBytes < 0:
		return UnknownBytes
	}
	return max(c.slackBytes(fraction), 0)
}

// slackBytes is the headroom of a limited constraint, below zero when it is
// passed, and at best where the usage is unknown.
func (c Constraint) slackBytes(fraction float64) int64 {
	return c.LimitBytes - c.KeptFreeBytes(fraction) - max(c.UsedBytes, 0)
}
