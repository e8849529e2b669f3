// Command demo shows what mpiguard is for: four ranks of examples/csvstats in a
// memory cgroup that is too small for their input. Reading it whole is killed,
// reading it in chunks finishes with the answer that reading it whole gives
// without a limit. Run it from the root of the module, as make demo does.
//
// With -pairs N it times chunks under the limit against reading whole without
// one, N times in turn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/size"
)

const (
	module = "github.com/mpiguard/mpiguard"
	dir    = "build" // for what is built and written
)

func main() {
	limit := flag.String("limit", "256MiB", "memory limit of the group, `SIZE`")
	input := flag.String("input", "1GiB", "`SIZE` of the input")
	pairs := flag.Int("pairs", 0, "time `N` pairs of runs instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, dir, *limit, *input, *pairs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, dir, limit, input string, pairs int, out io.Writer) error {
	limitBytes, err := size.Parse(limit)
	if err != nil {
		return fmt.Errorf("-limit %w", err)
	}
	if limitBytes == 0 {
		return errors.New("-limit 0: nothing could run")
	}
	inputBytes, err := size.Parse(input)
	if err != nil {
		return fmt.Errorf("-input %w", err)
	}
	place, err := findPlace(ctx)
	if err != nil {
		fmt.Fprintf(out, "No memory limit can be set here: %v.\n"+
			"Run it as root, or with a systemd user session. Here is the quickstart instead, which needs neither.\n\n", err)
		return command(ctx, out, "go", "run", module+"/examples/quickstart")
	}
	d := &driver{place: place, dir: dir, program: filepath.Join(dir, "csvstats")}
	if err := command(ctx, out, "go", "build", "-o", d.program, module+"/examples/csvstats"); err != nil {
		return err
	}
	if err := d.generate(ctx, inputBytes, out); err != nil {
		return err
	}
	if pairs > 0 {
		return d.pairs(ctx, pairs, limitBytes, out)
	}
	return d.compare(ctx, limitBytes, out)
}

// findPlace returns where runs can be limited: a cgroup of our own, or a scope
// of the user's systemd.
func findPlace(ctx context.Context) (place, error) {
	probe, err := memgroup.New("demo", memgroup.Limits{MaxBytes: 64 << 20})
	if err == nil {
		return cgroup{}, probe.Remove()
	}
	if !errors.Is(err, memgroup.ErrUnavailable) {
		return nil, err
	}
	if scopeErr := probeScope(ctx); scopeErr != nil {
		return nil, fmt.Errorf("%w; %w", err, scopeErr)
	}
	return scope{}, nil
}

// generate makes the input if it is not there.
func (d *driver) generate(ctx context.Context, sizeBytes int64, out io.Writer) error {
	d.input = filepath.Join(d.dir, fmt.Sprintf("measurements-%d.csv", sizeBytes))
	if _, err := os.Stat(d.input); err == nil {
		return nil
	}
	fmt.Fprintf(out, "generating %s\n", d.input)
	part := d.input + ".part" // so that what is there is complete
	if err := command(ctx, out, d.program, "-generate", fmt.Sprint(sizeBytes), part); err != nil {
		return err
	}
	return os.Rename(part, d.input)
}

// readOnce brings a file into the page cache, on the account of this process.
func readOnce(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, f, make([]byte, 1<<20))
	return err
}

func command(ctx context.Context, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}
