package main

import (
	"context"
	"time"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// patience is how long a rank waits for the others to give memory back, before
// it says that there is none.
const patience = 3 * time.Second

// patient is a reservation whose waits end, since what it waits for may be held
// by a rank that waits for this one in a collective.
type patient struct{ *mpiguard.Reservation }

// reserve returns a reservation of n bytes of the Go heap.
func reserve(ctx context.Context, guard *mpiguard.Guard, name string, n int64) (patient, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := guard.Reserve(ctx, name, n)
	return patient{r}, err
}

func (p patient) Grow(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.Reservation.Grow(ctx, n)
}
