package mpiguard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

// Pulse, agree, shrink together: every rank takes the same decision at the same
// step, so a loop with collectives in it cannot fall apart.
func ExampleGuard_PulseEvery() {
	err := inproc.Run(4, func(c mpiguard.Messenger) error {
		ctx := context.Background()
		g, err := mpiguard.New(ctx, c, mpiguard.Config{LimitBytes: 8 << 30})
		if err != nil {
			return err
		}
		defer g.Close()
		agreed := g.PulseEvery(10)
		batch := 1 << 20
		for range 100 {
			p, err := agreed(ctx)
			if err != nil {
				return err
			}
			switch p.Level { // the same on all ranks, whichever of them is short
			case mpiguard.High:
				batch = max(batch/2, 64<<10)
			case mpiguard.Critical:
				return errors.New("all ranks stop here, at the same step")
			}
			// ... work on batch bytes, exchange with the other ranks ...
		}
		if c.Rank() == 0 {
			fmt.Println("batches of", batch)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// batches of 1048576
	// <nil>
}

// Rank 0 waits for memory that rank 1 gives back only after a barrier which rank 0
// has not entered: without a deadline both would wait for ever. With one, rank 0
// gets an error that says who holds the memory, tells the others in the next
// collective, and nobody hangs.
func ExampleGuard_Reserve() {
	err := inproc.Run(2, func(c mpiguard.Messenger) error {
		ctx := context.Background()
		g, err := mpiguard.New(ctx, c, mpiguard.Config{LimitBytes: 8 << 30})
		if err != nil {
			return err
		}
		defer g.Close()
		var held *mpiguard.Reservation
		if c.Rank() == 1 {
			if held, err = g.TryReserve("mesh of rank 1", 5<<30); err != nil {
				return err
			}
		}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		if c.Rank() == 0 {
			soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := g.Reserve(soon, "table", 4<<30)
			var refused *mpiguard.RefusedError
			if errors.As(err, &refused) {
				fmt.Printf("%q was refused, largest is %q\n", refused.Name, refused.Holders[0].Name)
			}
		}
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		if held != nil {
			held.Release()
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// "table" was refused, largest is "mesh of rank 1"
	// <nil>
}
