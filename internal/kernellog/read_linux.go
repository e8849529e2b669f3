package kernellog

import (
	"bytes"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Read is the kills in the log of the running kernel, and the time of the first
// line that the log still has. It needs CAP_SYSLOG, or a kernel with
// kernel.dmesg_restrict=0. See syslog(2).
func Read() (kills []Kill, since time.Time, err error) {
	const readAll, size = 3, 10 // SYSLOG_ACTION_READ_ALL, SYSLOG_ACTION_SIZE_BUFFER
	n, err := unix.Klogctl(size, nil)
	if err != nil {
		return nil, since, fmt.Errorf("syslog(2): %w", err)
	}
	text := make([]byte, n)
	if n, err = unix.Klogctl(readAll, text); err != nil {
		return nil, since, fmt.Errorf("syslog(2): %w", err)
	}
	text = text[:n]
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &up); err != nil {
		return nil, since, fmt.Errorf("clock_gettime: %w", err)
	}
	bootedAt := time.Now().Add(-time.Duration(up.Nano()))
	first, _, _ := bytes.Cut(text, []byte("\n"))
	_, since = splitTime(string(first), bootedAt)
	kills, err = Parse(bytes.NewReader(text), bootedAt)
	return kills, since, err
}
