package memgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kills is how many processes of g, and of the groups below it, the kernel
// killed for memory.
func (g *Group) Kills() (int64, error) {
	if g.version == 2 {
		return g.row("memory.events", "oom_kill")
	}
	// v1 counts in the group of the process alone.
	var sum int64
	err := g.walk(func(c *Group) error {
		n, err := c.row("memory.oom_control", "oom_kill")
		sum += n
		return err
	})
	return sum, err
}

// AnonBytes is what nothing but a kill gives back: the anonymous and the shared
// memory of all processes of g and of the groups below it.
func (g *Group) AnonBytes() (int64, error) {
	text, err := g.read("memory.stat")
	if err != nil {
		return 0, err
	}
	keys := [2]string{"anon", "shmem"}
	if g.version == 1 {
		keys = [2]string{"total_rss", "total_shmem"}
	}
	anon, err := row(text, keys[0])
	shmem, err2 := row(text, keys[1])
	return anon + shmem, errors.Join(err, err2)
}

// UsageBytes is all that is charged to g, the page cache included.
func (g *Group) UsageBytes() (int64, error) {
	return g.number("memory.usage_in_bytes", "memory.current")
}

// PeakBytes is the highest usage so far, the page cache included.
func (g *Group) PeakBytes() (int64, error) {
	return g.number("memory.max_usage_in_bytes", "memory.peak")
}

// Peak is the highest AnonBytes among so many samples.
type Peak struct {
	AnonBytes int64
	Samples   int
}

// Watch samples AnonBytes from now on, every so often, until stop is called or a
// sample fails. Call stop once, before g is removed.
func (g *Group) Watch(every time.Duration) (stop func() (Peak, error)) {
	quit, done := make(chan struct{}), make(chan struct{})
	var (
		peak Peak
		err  error
	)
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			n, e := g.AnonBytes()
			if e != nil {
				err = e
				return
			}
			peak.AnonBytes = max(peak.AnonBytes, n)
			peak.Samples++
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() (Peak, error) {
		close(quit)
		<-done
		return peak, err
	}
}

// number reads a file that holds one number.
func (g *Group) number(v1, v2 string) (int64, error) {
	file := v1
	if g.version == 2 {
		file = v2
	}
	text, err := g.read(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
}

// row reads one row of a file of keys and values.
func (g *Group) row(file, key string) (int64, error) {
	text, err := g.read(file)
	if err != nil {
		return 0, err
	}
	return row(text, key)
}

func row(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), " "); k == key {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("memgroup: no row %q", key)
}
