// Command mpi measures what takes several ranks of one node. Run it under
// mpirun; rank 0 writes the rows as JSON, which the table of benchmarks/peers
// takes in.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"

	mpi "github.com/sbromberger/gompi"

	"github.com/mpiguard/mpiguard/benchmarks"
	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

func init() { runtime.LockOSThread() }

func main() {
	rounds := flag.Int("rounds", 31, "`N` batches of each")
	flag.Parse()
	mpi.Start(false)
	if err := run(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "mpi:", err)
		mpicomm.World().Abort(1)
	}
	mpi.Stop()
}

func run(rounds int) (err error) {
	ctx, world := context.Background(), mpicomm.World()
	guard, err := mpiguard.New(ctx, world, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard.Close()) }()
	node, closeNode, err := nodeRow()
	if err != nil {
		return err
	}
	defer closeNode()

	var rows []benchmarks.Measured
	for _, r := range []struct {
		benchmarks.Row
		times int // in a batch, the same on all ranks: some 2 ms
	}{
		{node, 5000},
		{pulseRow(ctx, guard), 2000},
		{surveyRow(ctx, guard, world.Size()), 100},
	} {
		rows = append(rows, r.Measure(pairs.Config{Rounds: rounds, Times: r.times}))
	}
	if world.Rank() != 0 {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(rows)
}

// pulseRow compares a Pulse with the collective that it makes.
func pulseRow(ctx context.Context, g *mpiguard.Guard) benchmarks.Row {
	const words = 3
	return benchmarks.Row{
		Name: "Pulse, 2 ranks",
		Goal: benchmarks.Goal{MoreThanPrimitive: 500, Allocs: benchmarks.AnyAllocs, Reference: 750},
		Ours: pairs.Wall("Pulse", func(n int) {
			for range n {
				_, err := g.Pulse(ctx)
				must(err)
			}
		}),
		Primitive: pairs.Wall("C Iallreduce + Test", func(n int) { bareAllreduce(n, words) }),
		Rivals:    []pairs.Contender{gompiAllreduce(words)},
	}
}

// surveyRow compares a Survey, which samples first, with its collective.
func surveyRow(ctx context.Context, g *mpiguard.Guard, ranks int) benchmarks.Row {
	const rowBytes = 250 // about what a rank says
	return benchmarks.Row{
		Name: "Survey, 2 ranks",
		Goal: benchmarks.Goal{MoreThanPrimitive: 15e3, Allocs: benchmarks.AnyAllocs, Reference: 800},
		Ours: pairs.Wall("Survey", func(n int) {
			for range n {
				_, err := g.Survey(ctx)
				must(err)
			}
		}),
		Primitive: pairs.Wall("C Iallgather + Test", func(n int) { bareAllgather(n, rowBytes, ranks) }),
	}
}

// gompiAllreduce is the blocking call that programs have today.
func gompiAllreduce(words int) pairs.Contender {
	w := mpi.NewCommunicator(nil)
	src, dst := make([]uint64, words), make([]uint64, words)
	return pairs.Wall("gompi Allreduce", func(n int) {
		for range n {
			must(w.AllreduceUint64s(dst, src, mpi.OpMax, 0))
		}
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
