package pairs

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the calling thread: clock_gettime(2),
// CLOCK_THREAD_CPUTIME_ID.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("pairs: clock of the thread: " + err.Error()) // every Linux has it
	}
	return time.Duration(t.Nano())
}
