package pairs

import (
	"runtime"
	"sync"
	"time"
)

// Sample is what one operation took in a batch.
type Sample struct {
	Nanoseconds float64 `json:"ns"`
	Allocs      float64 `json:"allocs"`
}

// Contender is an operation to measure.
type Contender struct {
	Name string
	// Run does the operation n times and returns what one took.
	Run func(n int) Sample
}

// CPU is an operation that takes the time of the processor alone. do is timed by
// the processor time of its thread: other work on the machine, which makes it
// wait, does not count. Where a system does not tell it, CPU is Wall.
func CPU(name string, do func(n int)) Contender {
	return Contender{name, func(n int) Sample {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return sample(n, func() time.Duration {
			begun := threadTime()
			do(n)
			return threadTime() - begun
		})
	}}
}

// Wall is an operation that waits for others.
func Wall(name string, do func(n int)) Contender {
	return Contender{name, func(n int) Sample {
		return sample(n, func() time.Duration {
			begun := time.Now()
			do(n)
			return time.Since(begun)
		})
	}}
}

// Parallel is an operation that several goroutines do at the same time, n times
// each. It takes what it took the mean of them.
func Parallel(name string, do ...func(n int)) Contender {
	return Contender{name, func(n int) Sample {
		return sample(n, func() time.Duration {
			var wg sync.WaitGroup
			start := make(chan struct{})
			took := make([]time.Duration, len(do))
			for i, do := range do {
				wg.Go(func() {
					<-start
					begun := time.Now()
					do(n)
					took[i] = time.Since(begun)
				})
			}
			close(start)
			wg.Wait()
			var sum time.Duration
			for _, d := range took {
				sum += d
			}
			return sum / time.Duration(len(do))
		})
	}}
}

// sample divides what timed took and allocated, in all goroutines, by n.
func sample(n int, timed func() time.Duration) Sample {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took := timed()
	runtime.ReadMemStats(&after)
	return Sample{
		Nanoseconds: float64(took) / float64(n),
		Allocs:      float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}
