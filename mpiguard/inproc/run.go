package inproc

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// Run calls f on n goroutines, each with its rank of a new world, waits for
// them and joins their errors, which name their ranks. A panic in f is an error
// with its stack, and so is runtime.Goexit, which t.FailNow calls.
//
// A rank that is gone makes nobody wait: a collective that it has not entered
// breaks on the other ranks, and after an error or a panic their messages that
// are not there yet end with that error. Under MPI the launcher would end the job.
func Run(n int, f func(mpiguard.Messenger) error) error {
	errs := make([]error, n)
	var ranks sync.WaitGroup
	for i, c := range World(n) {
		ranks.Go(func() {
			errs[i] = fmt.Errorf("rank %d: called runtime.Goexit", i)
			defer func() {
				if p := recover(); p != nil {
					errs[i] = panicError(i, p)
				}
				c.leave(errs[i])
			}()
			errs[i] = f(c)
			if errs[i] != nil {
				errs[i] = fmt.Errorf("rank %d: %w", i, errs[i])
			}
		})
	}
	ranks.Wait()
	return errors.Join(errs...)
}

func panicError(rank int, p any) error {
	if err, ok := p.(error); ok {
		return fmt.Errorf("rank %d: panic: %w\n%s", rank, err, debug.Stack())
	}
	return fmt.Errorf("rank %d: panic: %v\n%s", rank, p, debug.Stack())
}

// leave tells the others that this rank makes no further call, because of err
// if that is not nil.
func (c *Comm) leave(err error) {
	if err == nil {
		c.next.abandon(fmt.Errorf("rank %d has returned", c.rank))
		return
	}
	c.world.failed.CompareAndSwap(nil, &err)
	c.next.abandon(err)
}
