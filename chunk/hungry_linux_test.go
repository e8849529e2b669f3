package chunk

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/memgroup"
	"github.com/mpiguard/mpiguard/internal/level"
	"github.com/mpiguard/mpiguard/internal/offheap"
	"github.com/mpiguard/mpiguard/mpiguard"
)

// programVar makes the test binary one of these programs: "pinned" and "sized" need
// twenty times the chunk, "hog" takes memory for a while.
const programVar = "CHUNK_TEST_PROGRAM"

var record = flag.Bool("record", false, "keep what the Sizer reads in TestHungryProgram as the trace of TestSizerTraces")

func TestMain(m *testing.M) {
	var err error
	switch program := os.Getenv(programVar); program {
	case "":
		os.Exit(m.Run())
	case "hog":
		err = hog()
	default:
		err = hungry(program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	groupBytes  = 256 << 20
	hogBytes    = groupBytes * 6 / 10
	pinnedBytes = 16 << 20
	inputBytes  = 384 << 20
)

// hog takes memory bit by bit, holds it, and ends.
func hog() error {
	mem, err := offheap.Map(hogBytes, false)
	if err != nil {
		return err
	}
	for ; len(mem) > 0; mem = mem[1<<20:] {
		if err := offheap.Populate(mem[:1<<20]); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	return nil
}

// hungry decodes each chunk into numbers and works on a copy of them. It writes what
// the Sizer read, and what it said, to standard output.
func hungry(program string) error {
	ctx := context.Background()
	g, err := mpiguard.New(ctx, nil, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer g.Close()
	r, err := g.ReserveOffHeap(ctx, "chunks", 0)
	if err != nil {
		return err
	}
	defer r.Release()
	rec := &recorder{Account: r}
	cfg := Config{Account: r, Sizer: Pin(pinnedBytes)}
	if program == "sized" {
		if cfg.Sizer, err = NewSizer(SizerConfig{Account: rec, MaxBytes: 64 << 20}); err != nil {
			return err
		}
		cfg.Sizer.memory = rec.memory
	}
	sum := 0.
	for block, err := range Read(ctx, io.LimitReader(zeroes{}, inputBytes), cfg) {
		if err != nil {
			return err
		}
		rec.step(cfg.Sizer.Bytes())
		values := make([]float64, len(block)*10/8)
		for i := range values {
			values[i] = float64(block[i*8/10])
		}
		again := append([]float64(nil), values...)
		for i := range again {
			sum += again[i] * values[len(values)-1-i]
		}
	}
	if sum != 0 {
		return errors.New("zeroes do not add up")
	}
	return csv.NewWriter(os.Stdout).WriteAll(rec.rows)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// recorder keeps what a Sizer reads.
type recorder struct {
	Account
	in   readings
	rows [][]string
}

func (r *recorder) HeadroomBytes() int64 {
	r.in = readings{headroomBytes: r.Account.HeadroomBytes(), usedBytes: unknownBytes}
	return r.in.headroomBytes
}

func (r *recorder) Level() level.Level {
	r.in.level = r.Account.Level()
	return r.in.level
}

func (r *recorder) memory() int64 {
	r.in.usedBytes = privateBytes()
	return r.in.usedBytes
}

func (r *recorder) step(bytes int64) {
	row := []string{}
	for _, n := range []int64{r.in.headroomBytes, int64(r.in.level), r.in.usedBytes, bytes} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	r.rows = append(r.rows, row)
}

// start runs a program in a group.
func start(t *testing.T, g *memgroup.Group, program string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	cmd = g.Command(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), programVar+"="+program)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	require.NoError(t, cmd.Start())
	return cmd, stdout, stderr
}

// TestHungryProgram: under 256 MiB, a program that needs twenty times the chunk is
// killed with chunks of 16 MiB. With a Sizer it finishes, and uses most of what it
// has, also when another program takes 60 % of that for a while.
func TestHungryProgram(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector takes memory for itself")
	}
	g := lab.NewGroup(t, lab.Limits{MaxBytes: groupBytes})
	cmd, _, _ := start(t, g, "pinned")
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, "signal: killed", exit.String())

	for _, name := range []string{"sizer-alone.csv", "sizer-pressed.csv"} {
		g := lab.NewGroup(t, lab.Limits{MaxBytes: groupBytes})
		stop := g.Watch(5 * time.Millisecond)
		cmd, trace, stderr := start(t, g, "sized")
		if name == "sizer-pressed.csv" {
			time.Sleep(time.Second)
			hog, _, _ := start(t, g, "hog")
			defer hog.Wait()
		}
		err := cmd.Wait()
		peak, e := stop()
		require.NoError(t, e)
		require.NoError(t, err, "%s: %s", name, stderr)
		t.Logf("%s: peak %d MiB of %d", name, peak.AnonBytes>>20, groupBytes>>20)
		assert.GreaterOrEqual(t, peak.AnonBytes, int64(groupBytes*6/10))
		if *record {
			require.NoError(t, os.WriteFile(filepath.Join("testdata", name), trace.Bytes(), 0o644))
		}
	}
}
