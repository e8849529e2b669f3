package mpiguard

// scopeRow is what a rank tells the others in New about its memory and the
// constraints it is under.
type scopeRow struct {
	process     uint64 // equal for ranks that are goroutines of one process
	anonBytes   int64
	ledgerFD    int64 // of the kernel's first process: where its ledger is
	ledgerNonce uint64
	constraints [maxConstraints]scopeEntry
}

type scopeEntry struct {
	id                    uint64 // 0: no constraint
	limitBytes, usedBytes int64
}

// maxConstraints bounds the constraints of one process that are shared: more
// levels of a hierarchy than this do not occur, and the innermost count most.
const maxConstraints = 16

const scopeRowBytes = 8 * (4 + 3*maxConstraints)

func (r *scopeRow) code(c *coder) {
	c.uint64(&r.process)
	c.int64(&r.anonBytes)
	c.int64(&r.ledgerFD)
	c.uint64(&r.ledgerNonce)
	for i := range r.constraints {
		e := &r.constraints[i]
		c.uint64(&e.id)
		c.int64(&e.limitBytes)
		c.int64(&e.usedBytes)
	}
}

func (r *scopeRow) entry(id uint64) (scopeEntry, bool) {
	for _, e := range r.constraints {
		if e.id == id && id != 0 {
			return e, true
		}
	}
	return scopeEntry{}, false
}

// share is the part of one constraint that belongs to the ranks of one process.
type share struct {
	ranks int // ranks of the job under the constraint, over all nodes that it spans
	here  int // those of them in this process
	// spareBytes is what the ranks under the constraint may use together: what
	// was free when New ran, and their own private memory of that moment.
	spareBytes int64
}

// bytes is the share of this process.
func (s share) bytes() int64 { return s.spareBytes / int64(s.ranks) * int64(s.here) }

// shareOf finds the share of the process of rank me in the constraint id from
// the rows of all ranks; keptFreeBytes is what stays free of the limit. The
// private memory of a process counts once, however many ranks it holds.
func shareOf(rows []scopeRow, me int, id uint64, keptFreeBytes int64) share {
	var s share
	var limitBytes, usedBytes, privateBytes int64
	limitBytes = UnlimitedBytes
	seen := map[uint64]bool{}
	for i := range rows {
		e, ok := rows[i].entry(id)
		if !ok {
			continue
		}
		s.ranks++
		limitBytes = min(limitBytes, e.limitBytes)
		usedBytes = max(usedBytes, e.usedBytes) // UnknownBytes is below any use
		if rows[i].process == rows[me].process {
			s.here++
		}
		if !seen[rows[i].process] {
			seen[rows[i].process] = true
			privateBytes += rows[i].anonBytes
		}
	}
	usedBytes = max(usedBytes, privateBytes) // of the job scope nothing else is known
	s.spareBytes = max(limitBytes-keptFreeBytes-usedBytes+privateBytes, 0)
	return s
}
