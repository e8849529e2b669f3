// Command peers measures the operations of mpiguard beside other libraries and
// beside the primitives that bound them, and prints the table of the README:
//
//	go run -C benchmarks/peers .
//
// It is a module of its own, so that no program that uses mpiguard ever depends
// on what it is compared with. It runs in a memory group with a limit where it
// can make one, as a job does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/load"

	"github.com/mpiguard/mpiguard/benchmarks"
	"github.com/mpiguard/mpiguard/benchmarks/pairs"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
)

const module = "github.com/mpiguard/mpiguard"

type options struct {
	rounds int
	batch  time.Duration
	only   *regexp.Regexp
	raw    string
	job    int
}

func main() {
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 31, "`N` batches of each contender")
	flag.DurationVar(&o.batch, "batch", 5*time.Millisecond, "how `LONG` a batch is")
	only := flag.String("only", "", "the rows whose names match a `REGEXP`")
	flag.StringVar(&o.raw, "raw", "", "also write each batch to a `FILE`, for benchstat -col /by")
	flag.IntVar(&o.job, "job", 0, "also run a job of "+jobInput+" `N` times each way, as root")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.only, err = regexp.Compile(*only); err == nil {
		err = inGroup(ctx, func() error { return o.run(ctx, os.Stdout) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "mpiguard-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	about := machine()
	footprint, err := benchmarks.MeasureFootprint()
	if err != nil {
		return err
	}
	rows, missing, err := o.measure(ctx, dir)
	if err != nil {
		return err
	}
	ofRanks, err := o.measureRanks(ctx, dir)
	if errors.Is(err, exec.ErrNotFound) {
		missing = append(missing, "what takes several ranks: "+err.Error())
	} else if err != nil {
		return err
	}
	for _, m := range ofRanks {
		if o.only.MatchString(m.Name) {
			rows = append(rows, m)
		}
	}
	memory := ""
	if o.job > 0 {
		m, text, err := o.csvJob(ctx, dir)
		if err != nil {
			return err
		}
		rows, memory = append(rows, m), " "+text
	}
	if err := benchmarks.WriteTable(out, rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%v%s\n\nMedians of %d rounds with 95 %% intervals. %s\n", footprint, memory, o.rounds, about)
	for _, text := range missing {
		fmt.Fprintf(out, "\nNot measured here: %s.\n", text)
	}
	if o.raw == "" {
		return nil
	}
	f, err := os.Create(o.raw)
	if err != nil {
		return err
	}
	return errors.Join(benchmarks.WriteRounds(f, rows), f.Close())
}

// measure measures what one process does.
func (o options) measure(ctx context.Context, dir string) (rows []benchmarks.Measured, missing []string, err error) {
	b, err := benchmarks.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	others := rivals()
	for _, r := range b.Rows {
		if !o.only.MatchString(r.Name) {
			continue
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		r.Rivals = append(r.Rivals, others[r.Name]...)
		rows = append(rows, r.Measure(pairs.Config{Rounds: o.rounds, Batch: o.batch}))
	}
	return rows, b.Missing, nil
}

// measureRanks measures what ranks do together.
func (o options) measureRanks(ctx context.Context, dir string) (rows []benchmarks.Measured, err error) {
	if _, err := exec.LookPath(mpirun.Launcher()); err != nil {
		return nil, err
	}
	if err := build(ctx, dir, "./benchmarks/mpi"); err != nil {
		return nil, err
	}
	r, err := mpirun.Run(ctx, mpirun.Config{Ranks: 2, Stderr: os.Stderr}, filepath.Join(dir, "mpi"), "-rounds", strconv.Itoa(o.rounds))
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("the job exited with %d", r.Exit)
	}
	if err != nil {
		return nil, err
	}
	return rows, json.Unmarshal([]byte(r.Stdout), &rows)
}

// build builds a command of the module that is measured, into dir.
func build(ctx context.Context, dir, pkg string) error {
	where, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("go list -m %s: %w", module, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(where)), "-o", dir, pkg)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// machine says where the figures are from, and how busy it was.
func machine() string {
	about := fmt.Sprintf("%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if info, err := cpu.Info(); err == nil && len(info) > 0 {
		about += ", " + info[0].ModelName
	}
	if l, err := load.Avg(); err == nil {
		about += fmt.Sprintf(", load %.1f", l.Load1)
	}
	return about + "."
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
