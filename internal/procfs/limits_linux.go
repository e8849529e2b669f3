package procfs

import "golang.org/x/sys/unix"

// OwnLimits returns the limits of this process, as its limits file has them, a
// tenth of the time. Source: prlimit(2).
func OwnLimits() Limits {
	return Limits{AddressSpaceBytes: own(unix.RLIMIT_AS), DataBytes: own(unix.RLIMIT_DATA)}
}

func own(resource int) int64 {
	var l unix.Rlimit
	if unix.Prlimit(0, resource, nil, &l) != nil {
		return UnknownBytes
	}
	if l.Cur >= 1<<63-1 {
		return UnlimitedBytes
	}
	return int64(l.Cur)
}
