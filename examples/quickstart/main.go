// Command quickstart shows what mpiguard does, without MPI: four ranks that are
// goroutines of one process share a budget, survey each other, and read a file
// in chunks that become smaller while one of them takes the memory.
//
//	go run ./examples/quickstart
//
// A real MPI program differs in one line: its communicator is mpicomm.World().
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mpiguard/mpiguard/chunk"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

const (
	ranks        = 4
	limit        = "256MiB"
	line         = "one line of the file\n"
	lines        = 2_000_000
	timeout      = 30 * time.Second
	ballastBytes = 4 << 20
	ballastMost  = 512 << 20 // where the limit is far away, it is not looked for
)

func main() {
	if os.Getenv("MPIGUARD_LIMIT") == "" {
		fmt.Printf("MPIGUARD_LIMIT is not set; this program sets it to %s for itself.\n", limit)
		os.Setenv("MPIGUARD_LIMIT", limit)
	}
	// A rank that waits for memory which nobody gives back would wait for ever.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	file, err := os.CreateTemp("", "quickstart-*.txt")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	w := bufio.NewWriter(file)
	for range lines {
		w.WriteString(line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return inproc.Run(ranks, func(comm mpiguard.Messenger) error {
		r := &rank{out: io.Discard, comm: comm, file: file}
		if comm.Rank() == 0 {
			r.out = out
		}
		return r.work(ctx)
	})
}

type rank struct {
	out   io.Writer // rank 0 prints, the others discard
	comm  mpiguard.Comm
	guard *mpiguard.Guard
	file  *os.File // any io.ReaderAt
}

func (r *rank) work(ctx context.Context) (err error) {
	r.guard, err = mpiguard.New(ctx, r.comm, mpiguard.Config{ReleaseAfter: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.guard.Close()) }()

	r.title("The budget, and why it is what it is")
	fmt.Fprint(r.out, r.guard.Budget().Explain())

	r.title("What all ranks use: they share one process here")
	if err := r.survey(ctx); err != nil {
		return err
	}

	r.title("A file of 40 MiB, each rank a quarter of it, in chunks of whole lines")
	if err := r.read(ctx); err != nil {
		return err
	}

	r.title("Rank 0 takes memory until the level is high")
	stop := r.guard.OnLevel(func(t mpiguard.Transition) {
		fmt.Fprintf(r.out, "level %v -> %v: %s\n", t.From, t.To, t.Reason)
	})
	defer stop()
	release := func() {}
	if r.comm.Rank() == 0 {
		if release, err = r.takeMemory(); err != nil {
			return err
		}
	}
	defer release()
	pulse, err := r.guard.Pulse(ctx) // all ranks take the same decision from it
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "pulse: the worst level is %v, on rank %d\n", pulse.Level, pulse.Rank)

	r.title("The same file: smaller chunks, less memory, the same lines")
	if err := r.read(ctx); err != nil {
		return err
	}

	r.title("Rank 0 gives the memory back")
	release()
	r.waitUntilNormal()
	return r.survey(ctx)
}

func (r *rank) title(text string) { fmt.Fprintf(r.out, "\n== %s\n", text) }

func (r *rank) survey(ctx context.Context) error {
	s, err := r.guard.Survey(ctx)
	if err == nil {
		fmt.Fprint(r.out, s)
	}
	return err
}

// takeMemory reserves and touches memory until an eighth of the headroom is left,
// where the level is high, and then asks for as much again.
func (r *rank) takeMemory() (release func(), err error) {
	ballast, err := r.guard.TryReserve("ballast", 0)
	if err != nil {
		return nil, err
	}
	var blocks [][]byte
	leave := r.guard.HeadroomBytes() / 8
	for r.guard.HeadroomBytes() > leave && ballast.SizeBytes() < ballastMost {
		if ballast.TryGrow(ballastBytes) != nil { // it is asked before it is allocated
			break
		}
		b := make([]byte, ballastBytes)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		blocks = append(blocks, b)
		r.guard.Usage() // measures, so that the level is that of now
	}
	if err := ballast.TryGrow(ballast.SizeBytes()); err != nil {
		fmt.Fprintln(r.out, "refused, and nothing has happened:", err)
	}
	return func() {
		blocks = nil
		debug.FreeOSMemory()
		ballast.Release()
	}, nil
}

// waitUntilNormal gives the level time to fall, which it does not do at once.
func (r *rank) waitUntilNormal() {
	for end := time.Now().Add(5 * time.Second); r.guard.Level() > mpiguard.Normal && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprintf(r.out, "the level is %v\n", r.guard.Level())
}

// read counts the lines of this rank's part of a file, and adds up those of all.
func (r *rank) read(ctx context.Context) error {
	const size = lines * int64(len(line))
	part := chunk.Partition(size, r.comm.Size(), r.comm.Rank())
	account, err := r.guard.TryReserveOffHeap("chunks", 0)
	if err != nil {
		return err
	}
	defer account.Release()

	var found, chunks, largest uint64
	for block, err := range chunk.LineBlocksAt(ctx, r.file, size, part, chunk.Config{Account: account}) {
		if err != nil {
			return err
		}
		found += uint64(bytes.Count(block, []byte{'\n'}))
		chunks++
		largest = max(largest, uint64(len(block)))
	}
	sum := []uint64{found, chunks}
	if err := r.comm.AllreduceUint64(ctx, sum, sum, mpiguard.OpSum); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%d lines in %d chunks; rank 0 had chunks of up to %s\n", sum[0], sum[1], humanize.IBytes(largest))
	return nil
}
