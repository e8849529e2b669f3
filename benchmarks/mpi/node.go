package main

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/mpiguard/mpiguard/benchmarks"
	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/internal/ledger"
)

const slots = 32

var sink int64

// nodeRow compares the ledger of a node with 32 ranks, read by each rank for
// itself, with asking all ranks.
func nodeRow() (r benchmarks.Row, closeAll func() error, err error) {
	l, err := ledger.Create(slots)
	if err != nil {
		return r, nil, err
	}
	for i := range slots {
		s, err := l.Join(i, ledger.Member{IDs: []uint64{1}, Measure: func(room []int64) { room[0] = math.MaxInt64 }})
		if err != nil {
			return r, nil, errors.Join(err, l.Close())
		}
		s.Publish(ledger.Row{Rank: i, PrivateBytes: 1 << 20})
	}
	rows := make([]ledger.Row, 0, slots)
	var lines [slots]struct {
		bytes atomic.Int64
		_     [120]byte
	}
	return benchmarks.Row{
		Name: "usage of 32 ranks of a node",
		Goal: benchmarks.Goal{AtMost: 150, Reference: 28},
		Ours: pairs.CPU("ledger", func(n int) {
			for range n {
				rows = l.Rows(rows[:0])
				sink += int64(len(rows))
			}
		}),
		Primitive: pairs.CPU("32 loads", func(n int) {
			var sum int64
			for range n {
				for i := range lines {
					sum += lines[i].bytes.Load()
				}
			}
			sink += sum
		}),
		Rivals: []pairs.Contender{gompiAllreduce(1)},
	}, l.Close, nil
}
