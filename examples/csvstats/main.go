// Command csvstats groups the rows of a delimited file by one column and prints
// count, minimum, mean and maximum of another, over all ranks of an MPI job:
//
//	csvstats -generate 1GiB measurements.csv
//	mpirun -n 4 csvstats measurements.csv
//
// It works in chunks within the memory that its ranks have (-mode guarded), or
// reads each rank's part whole, as programs often do (-mode naive). Both give the
// same answer to the last digit. Without cgo it is built as a program of one rank.
//
// Values are decimal numbers with up to six digits after the point; sums are
// exact and means are rounded to six digits. Quoted columns are not supported: a
// double quote anywhere is an error. See the package groupby for the grammar.
//
// Errors are one line on standard error, from the lowest rank that has one, which
// is the first error of the file. The exit code is 1 for what failed and 2 for
// bad usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/mpiguard/mpiguard/examples/csvstats/groupby"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// MPI is called from the thread that started it.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) (exitCode int) {
	o, err := parseOptions(args)
	if err == nil && o.generateBytes > 0 {
		if err := generate(o); err != nil {
			fmt.Fprintln(os.Stderr, "csvstats:", err)
			return exitFailed
		}
		return 0
	}
	comm, stopMPI := startMPI()
	if errors.Is(err, flag.ErrHelp) {
		if comm.Rank() == 0 {
			fmt.Print(usage())
		}
		stopMPI()
		return 0
	}
	ctx := context.Background()
	if err = agree(ctx, comm, err, 0); err == nil {
		err = work(ctx, comm, o, os.Stdout)
	}
	exitCode = tell(comm.Rank(), err)
	if a, ok := comm.(mpiguard.Aborter); ok && errors.Is(err, mpiguard.ErrBroken) {
		a.Abort(exitCode) // the ranks cannot meet any more, not even to stop MPI
	}
	stopMPI()
	return exitCode
}

// tell prints the error, if this rank is the one to do so, and returns the exit
// code.
func tell(rank int, err error) int {
	var agreed *agreedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &agreed):
		if agreed.err != nil {
			fmt.Fprintln(os.Stderr, "csvstats:", agreed.err)
		}
		return agreed.code
	}
	fmt.Fprintf(os.Stderr, "csvstats: rank %d: %v\n", rank, err)
	return exitFailed
}

func generate(o options) (err error) {
	f, err := os.Create(o.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return groupby.Generate(f, o.generateBytes, o.seed)
}
