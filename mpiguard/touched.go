package mpiguard

// memory is what one kind of private memory of the process is for: the Go heap,
// or everything outside it. A kind starts at a baseline, the memory that was
// there before any reservation (the MPI library included). What is above it is
// touched, which belongs to reservations of the kind, or unaccounted.
type memory struct {
	baselineBytes    int64
	touchedBytes     int64
	unaccountedBytes int64
}

// observe takes in a sample: privateBytes of this kind are resident now, and
// reservations of the kind hold reservedBytes. Growth since the last sample goes
// to what is reserved and not touched yet, the rest is unaccounted; a fall comes
// out of the unaccounted part first. What was there before a reservation is
// therefore never taken for that reservation's.
func (m *memory) observe(privateBytes, reservedBytes int64) {
	m.release(reservedBytes)
	above := max(privateBytes-m.baselineBytes, 0)
	switch growth := above - m.touchedBytes - m.unaccountedBytes; {
	case growth > 0:
		t := min(growth, reservedBytes-m.touchedBytes)
		m.touchedBytes += t
		m.unaccountedBytes += growth - t
	case growth < 0:
		u := min(-growth, m.unaccountedBytes)
		m.unaccountedBytes -= u
		m.touchedBytes -= -growth - u
	}
}

// release lowers what is touched to what is still reserved: memory that stays
// resident after its reservation ended is unaccounted until it falls.
func (m *memory) release(reservedBytes int64) {
	if over := m.touchedBytes - reservedBytes; over > 0 {
		m.touchedBytes -= over
		m.unaccountedBytes += over
	}
}

// untouched is what reservations of reservedBytes were promised and have not
// touched yet.
func (m *memory) untouched(reservedBytes int64) int64 {
	return max(reservedBytes-m.touchedBytes, 0)
}
