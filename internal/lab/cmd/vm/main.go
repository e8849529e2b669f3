//go:build linux

// Command vm runs a command in the virtual machine of the lab:
//
//	vm [-t 5m] [-m MiB] [-c CPUS] [-swap MiB] [-w DIR] COMMAND [ARGUMENT...]
//	vm -fetch
//
// Output and exit code are those of the command; 125 says that the machine did
// not finish. It serves as go test -exec.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/mpiguard/mpiguard/internal/lab/vm"
)

func main() {
	fetch := flag.Bool("fetch", false, "fetch the kernel if it is missing, and end")
	limit := flag.Duration("t", 5*time.Minute, "`time` limit")
	memory := flag.Int64("m", 2048, "memory in `MiB`")
	cpus := flag.Int("c", 0, "number of processors (default 2 at most)")
	swap := flag.Int64("swap", 0, "swap in `MiB`")
	share := flag.String("w", "", "`folder` shared for writing")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	os.Exit(run(ctx, *fetch, vm.Config{MemoryBytes: *memory << 20, CPUs: *cpus, SwapBytes: *swap << 20, Share: *share}))
}

func run(ctx context.Context, fetch bool, c vm.Config) int {
	if fetch {
		if err := vm.Fetch(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "vm:", err)
			return 1
		}
		return 0
	}
	if flag.NArg() == 0 {
		flag.Usage()
		return 2
	}
	r, err := vm.Run(ctx, c, flag.Arg(0), flag.Args()[1:]...)
	fmt.Print(r.Stdout)
	fmt.Fprint(os.Stderr, r.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		return 125
	}
	return r.Exit
}
