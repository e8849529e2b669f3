package chunk

import (
	"context"
	"iter"
)

// Stepper agrees with all other ranks whether to take another step.
type Stepper interface {
	// AnyMore reports whether any rank called it with more. A ctx that is done is
	// this rank's refusal: all ranks return an error. Collective.
	AnyMore(ctx context.Context, more bool) (bool, error)
}

// Turn is what a rank has for one step of Lockstep.
type Turn[T any] struct {
	Value T
	// OK is false on a rank that has no more values, while another has.
	OK bool
}

// Lockstep yields the values of seq in as many steps as the rank with the most of
// them needs. All ranks take the same number of steps, so the loop may call
// collectives. One collective, AnyMore, comes before each step and one at the end.
//
// An error of seq on one rank ends the loop on all: that rank is yielded this error
// and the others that of AnyMore. So it is when one rank leaves the loop early, or
// when its ctx is done: the others learn of it at their next step. A panic in the
// loop is not told to the others. Collective.
func Lockstep[T any](ctx context.Context, s Stepper, seq iter.Seq2[T, error]) iter.Seq2[Turn[T], error] {
	return func(yield func(Turn[T], error) bool) {
		// refuse tells the others that this rank takes no further step. What they
		// answer changes nothing here.
		refuse := func() {
			done, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = s.AnyMore(done, false)
		}
		step := func(turn Turn[T]) bool {
			more, err := s.AnyMore(ctx, turn.OK)
			if err != nil {
				yield(Turn[T]{}, err)
				return false
			}
			if !more {
				return false
			}
			if !yield(turn, nil) {
				refuse()
				return false
			}
			return true
		}
		for v, err := range seq {
			if err != nil {
				refuse()
				yield(Turn[T]{}, err)
				return
			}
			if !step(Turn[T]{v, true}) {
				return
			}
		}
		for step(Turn[T]{}) {
		}
	}
}
