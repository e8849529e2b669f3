package benchmarks

import (
	"context"
	"errors"

	"github.com/mpiguard/mpiguard/mpiguard"
)

// Bench holds what the operations of the rows work on.
type Bench struct {
	Rows []Row
	// Missing says, for each row that cannot be measured here, why.
	Missing []string

	guard   *mpiguard.Guard
	closers []func() error
}

// Open prepares the rows. Files go into dir, which the caller removes.
func Open(dir string) (*Bench, error) {
	g, err := mpiguard.New(context.Background(), nil, mpiguard.Config{})
	if err != nil {
		return nil, err
	}
	b := &Bench{guard: g}
	b.onClose(g.Close)
	for _, open := range []func(dir string) error{b.openGuard, b.openKernel, b.openPool, b.openFile, b.openSlice} {
		if err := open(dir); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// Close ends what Open began, the last first.
func (b *Bench) Close() error {
	var err error
	for i := len(b.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, b.closers[i]())
	}
	return err
}

func (b *Bench) add(r ...Row) { b.Rows = append(b.Rows, r...) }

func (b *Bench) onClose(f func() error) { b.closers = append(b.closers, f) }

// reserve opens an account that is released by Close.
func (b *Bench) reserve(name string, bytes int64) (*mpiguard.Reservation, error) {
	r, err := b.guard.TryReserve(name, bytes)
	if err != nil {
		return nil, err
	}
	b.onClose(func() error { r.Release(); return nil })
	return r, nil
}

// must stops a benchmark whose operation fails: its time would mean nothing.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// sink keeps the compiler from dropping what is computed.
var sink int64
