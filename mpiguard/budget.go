package mpiguard

// Machine says whose limits to read. The zero value is this process on the
// machine that it runs on.
type Machine struct {
	// Root is the directory below which proc and sys are found, "" for /: a tree
	// that was saved elsewhere, or the mount of another machine.
	Root string
	// PID is the process below Root, 0 for proc/self.
	PID int
	// Environ holds the variables of the process as "KEY=value". nil is
	// os.Environ, or what proc/PID/environ says when Root or PID is set.
	Environ []string
}

// Budget is what a process may use and why: every limit that was found, with the
// usage that belongs to it. A Budget that was handed out never changes.
type Budget struct {
	// Constraints are the levels of the cgroup hierarchy from the group of the
	// process to the root, then RLIMITs, then limits of the job (advisory), then
	// the memory of the node. Those that are unlimited or unknown are among them.
	Constraints []Constraint
	// KeepFree is the fraction of each limit that is kept free.
	KeepFree float64
	// ShareBytes is this rank's share, UnknownBytes outside a Guard.
	ShareBytes int64
	// Notes say what detection met: a hybrid host, the boundary of a namespace, a
	// file that could not be read.
	Notes []string
}

// DetectBudget reads the limits and the usage of a process. It never fails: what
// cannot be read is unknown and noted. KeepFree has its default, 0.08.
//
// Of the ranks of the job on the node it knows this process alone, whose private
// and shared memory is what counts here against a limit of the job.
func DetectBudget(m Machine) *Budget {
	mon := openMonitor(m, defaultKeepFree, 0)
	defer mon.close()
	mon.own = true
	b, _ := mon.refresh()
	for i := range b.Constraints {
		if c := &b.Constraints[i]; c.Scope == ScopeJob {
			c.UsedBytes = mon.ownBytes()
		}
	}
	return b
}

// LimitBytes is the smallest limit, hard, soft or advisory, over the cgroup, the job and the node,
// UnlimitedBytes when there is none and UnknownBytes when none can be read.
func (b *Budget) LimitBytes() int64 {
	limit := UnknownBytes
	for _, c := range b.Constraints {
		if c.Scope != ScopeProcess && c.LimitBytes >= 0 && (limit == UnknownBytes || c.LimitBytes < limit) {
			limit = c.LimitBytes
		}
	}
	return limit
}

// Binding is the constraint with the least headroom, nil where nothing limits.
// One whose usage is unknown is taken to have all of its limit left. RLIMITs,
// which count address space and not memory, never bind.
func (b *Budget) Binding() *Constraint {
	var binding *Constraint
	for i := range b.Constraints {
		c := &b.Constraints[i]
		if c.Scope == ScopeProcess || !c.limited() {
			continue
		}
		if binding == nil || c.slackBytes(b.KeepFree) < binding.slackBytes(b.KeepFree) {
			binding = c
		}
	}
	return binding
}

// HeadroomBytes is the headroom of the binding constraint, UnlimitedBytes when
// none binds.
func (b *Budget) HeadroomBytes() int64 {
	if c := b.Binding(); c != nil {
		return c.HeadroomBytes(b.KeepFree)
	}
	return b.LimitBytes()
}
