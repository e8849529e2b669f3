package ledger

// Untouched stores in sums[i], for the constraint with Member.IDs[i], what the
// slots under it, this one included, hold untouched. It makes no system call. After Close it stores nothing.
func (s *Slot) Untouched(sums []int64) {
	s.taking.Lock()
	defer s.taking.Unlock()
	if s.open(func() {}) { // else the memory may be gone; while s.taking is held, Close waits
		s.sum(noTicket)
		copy(sums, s.scan.untouched)
	}
}
