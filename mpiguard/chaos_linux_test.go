//go:build cgo

package mpiguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/internal/lab"
	"github.com/mpiguard/mpiguard/internal/lab/mpirun"
	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/mpicomm"
)

// A chaos job is made of a seed: 2 to 8 ranks that in each of some phases take
// memory to work in, hold some of it to the end, leave garbage, leak, and take
// memory without asking, the latter two within what a guard keeps free.
type chaosPlan struct {
	Ranks  int
	Phases [][]chaosStep // by phase and rank
}

type chaosStep struct {
	WorkBytes    int64 // can be worked on in pieces, down to a sixteenth
	HoldBytes    int64 // from here to the end of the job
	GarbageBytes int64 // of the Go heap, asked for and dropped
	LeakBytes    int64 // outside the Go heap, not asked for
	BurstBytes   int64 // the same, and given back
}

const (
	chaosPieces   = 16
	chaosPhase    = 250 * time.Millisecond // in which bursts and leaks stay within chaosUnasked
	chaosUnasked  = 3 * (8 << 20) / 4      // of all ranks; 8 MiB is the least that is kept free
	chaosExit     = 75                     // memory did not suffice
	chaosPatience = 1500 * time.Millisecond
)

func newChaosPlan(seed uint64) chaosPlan {
	r := rand.New(rand.NewPCG(seed, 75))
	p := chaosPlan{Ranks: 2 + r.IntN(7), Phases: make([][]chaosStep, 3+r.IntN(3))}
	unasked := int64(chaosUnasked / p.Ranks)
	for i := range p.Phases {
		p.Phases[i] = make([]chaosStep, p.Ranks)
		for k := range p.Phases[i] {
			s := &p.Phases[i][k]
			s.WorkBytes = r.Int64N(240<<20) / int64(p.Ranks)
			if r.IntN(3) == 0 {
				s.HoldBytes = r.Int64N(40<<20) / int64(p.Ranks)
			}
			if r.IntN(3) == 0 {
				s.GarbageBytes = r.Int64N(60<<20) / int64(p.Ranks)
			}
			s.LeakBytes = r.Int64N(unasked / 4)
			s.BurstBytes = r.Int64N(unasked - s.LeakBytes)
		}
	}
	return p
}

// leastBytes is the least that the ranks need together, above what they and
// mpirun take at the start: at some phase, what is held, leaked and taken without
// asking, and the smallest piece of the work of all.
func (p chaosPlan) leastBytes() int64 {
	var held, most int64
	for _, phase := range p.Phases {
		var now int64
		for _, s := range phase {
			held += s.HoldBytes + s.LeakBytes
			now += s.WorkBytes/chaosPieces + s.GarbageBytes + s.BurstBytes
		}
		most = max(most, held+now)
	}
	return most
}

// chaosAnswer is what the job must compute.
func (p chaosPlan) answer() uint64 {
	var sum uint64
	for _, phase := range p.Phases {
		for _, s := range phase {
			sum += uint64(s.WorkBytes + s.HoldBytes)
		}
	}
	return sum
}

// chaos is what a rank of the job does.
func chaos(c *mpicomm.Comm, _ bool) error {
	seed, err := strconv.ParseUint(os.Getenv("MPIGUARD_TEST_SEED"), 10, 64)
	if err != nil {
		return err
	}
	ctx := context.Background()
	g, err := mpiguard.New(ctx, c, mpiguard.Config{})
	if err != nil {
		return err
	}
	defer g.Close()
	w := chaosWorker{guard: g, guarded: os.Getenv("MPIGUARD_TEST_GUARDED") != ""}
	plan := newChaosPlan(seed)
	var failed error
	for _, phase := range plan.Phases {
		start := time.Now()
		failed = errors.Join(failed, w.step(ctx, phase[c.Rank()]))
		time.Sleep(chaosPhase - time.Since(start))
		// All ranks go on, or all stop.
		vote := []uint64{0}
		if failed != nil {
			vote[0] = 1
		}
		if err := c.AllreduceUint64(ctx, vote, vote, mpiguard.OpSum); err != nil {
			return err
		}
		if vote[0] > 0 {
			if failed != nil {
				fmt.Fprintln(os.Stderr, failed)
			}
			return errChaosStopped
		}
	}
	sum := []uint64{w.sum}
	if err := c.AllreduceUint64(ctx, sum, sum, mpiguard.OpSum); err != nil {
		return err
	}
	if c.Rank() == 0 {
		return json.NewEncoder(os.Stdout).Encode(map[string]uint64{"answer": sum[0]})
	}
	return nil
}

var errChaosStopped = errors.New("the memory did not suffice")

type chaosWorker struct {
	guard   *mpiguard.Guard
	guarded bool
	sum     uint64
	holds   [][]byte
	leaks   [][]byte
}

func (w *chaosWorker) step(ctx context.Context, s chaosStep) error {
	w.leaks = append(w.leaks, touched(s.LeakBytes))
	unmap(touched(s.BurstBytes))
	if s.HoldBytes > 0 {
		if _, err := w.ask(ctx, "hold", s.HoldBytes, false); err != nil {
			return err
		}
		w.holds = append(w.holds, touched(s.HoldBytes))
		w.sum += uint64(len(w.holds[len(w.holds)-1]))
	}
	if s.GarbageBytes > 0 {
		r, err := w.ask(ctx, "garbage", s.GarbageBytes, true)
		if err != nil {
			return err
		}
		b := make([]byte, s.GarbageBytes)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		r.release()
	}
	return w.work(ctx, s.WorkBytes)
}

// work goes through so many bytes in pieces as large as can be had.
func (w *chaosWorker) work(ctx context.Context, bytes int64) error {
	least := bytes/chaosPieces + 1
	for done, piece := int64(0), bytes; done < bytes; {
		piece = min(piece, bytes-done)
		r := asked{}
		if w.guarded {
			var err error
			if piece > least {
				if r.r, err = w.guard.TryReserveOffHeap("work", piece); err != nil {
					piece = max(piece/2, min(least, bytes-done))
					continue
				}
			} else if r, err = w.ask(ctx, "work", piece, false); err != nil {
				return err
			}
		}
		b := touched(piece)
		w.sum += uint64(len(b))
		unmap(b)
		r.release()
		done += piece
	}
	return nil
}

// asked is a reservation, or none where the guard is not asked.
type asked struct{ r *mpiguard.Reservation }

func (a asked) release() {
	if a.r != nil {
		a.r.Release()
	}
}

// ask reserves with a deadline.
func (w *chaosWorker) ask(ctx context.Context, name string, bytes int64, goHeap bool) (asked, error) {
	if !w.guarded {
		return asked{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, chaosPatience)
	defer cancel()
	reserve := w.guard.ReserveOffHeap
	if goHeap {
		reserve = w.guard.Reserve
	}
	r, err := reserve(ctx, name, bytes)
	return asked{r}, err
}

// touched maps memory outside the Go heap and makes it resident.
func touched(bytes int64) []byte {
	if bytes == 0 {
		return nil
	}
	b, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b
}

func unmap(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // of what was mapped it does not fail
	}
}

// TestLabChaos runs jobs at random under real limits: 20 seeds, or all 100 with
// MPIGUARD_LONG. With a limit above its own peak a job is never refused; with one
// far below, no rank of a guarded job is killed, where without the guard they are.
func TestLabChaos(t *testing.T) {
	seeds := 20
	if os.Getenv("MPIGUARD_LONG") != "" {
		seeds = 100
	}
	var wide, tight, bare chaosTally
	feasible, feasibleFinished := 0, 0
	for seed := range uint64(seeds) {
		plan := newChaosPlan(seed)
		peak, idle := chaosPeak(t, seed, plan)
		limit := max(int64(float64(peak)/0.85), peak+16<<20)
		if out := wide.run(t, seed, plan, limit, true); out != "finished" {
			t.Errorf("seed %d, peak %d MiB, limit %d MiB: %s", seed, peak>>20, limit>>20, out)
		}
		r := rand.New(rand.NewPCG(seed, 2))
		limit = int64(float64(peak) * (0.4 + 0.4*r.Float64()))
		out := tight.run(t, seed, plan, limit, true)
		bare.run(t, seed, plan, limit, false)
		// What is kept free cannot be used.
		if need := idle + plan.leastBytes(); limit-max(limit*8/100, 8<<20) >= need {
			feasible++
			if out == "finished" {
				feasibleFinished++
			} else {
				t.Logf("seed %d: %d MiB would do, limit %d MiB: %s", seed, (need+max(limit*8/100, 8<<20))>>20, limit>>20, out)
			}
		}
	}
	t.Logf("limit above the peak:        %v", wide)
	t.Logf("limit 0.4 to 0.8 of it:      %v; %d of the %d that are feasible finished", tight, feasibleFinished, feasible)
	t.Logf("the same without the guard:  %v", bare)
	assert.Equal(t, seeds, wide.Finished)
	assert.Zero(t, wide.Killed+tight.Killed)
	assert.Zero(t, tight.Wrong+wide.Wrong)
	assert.GreaterOrEqual(t, bare.Killed, seeds*9/10)
	assert.GreaterOrEqual(t, feasibleFinished, feasible*9/10)
}

type chaosTally struct{ Finished, Stopped, Refused, Killed, Wrong int }

func (c chaosTally) String() string {
	return fmt.Sprintf("%d finished, %d stopped (%d with a refusal), %d killed, %d wrong", c.Finished, c.Stopped, c.Refused, c.Killed, c.Wrong)
}

func (c *chaosTally) run(t *testing.T, seed uint64, p chaosPlan, limit int64, guarded bool) string {
	g := lab.NewGroup(t, lab.Limits{MaxBytes: limit})
	env := []string{fmt.Sprintf("MPIGUARD_TEST_SEED=%d", seed)}
	if guarded {
		env = append(env, "MPIGUARD_TEST_GUARDED=1")
	}
	r := runRanks(t, "chaos", mpirun.Config{Ranks: p.Ranks, Group: g, Env: env})
	kills, err := g.Kills()
	require.NoError(t, err)
	want := fmt.Sprintf("{\"answer\":%d}\n", p.answer())
	switch {
	case kills > 0:
		c.Killed++
		return "killed"
	case r.Exit == chaosExit:
		c.Stopped++
		if strings.Contains(r.Stderr, "asked for") {
			c.Refused++
		}
		return "stopped: " + r.Stderr
	case r.Exit != 0 || r.Stdout != want:
		c.Wrong++
		t.Errorf("seed %d: exit %d, want %s: %s%s", seed, r.Exit, want, r.Stdout, r.Stderr)
		return "wrong"
	}
	c.Finished++
	return "finished"
}

// chaosPeak is the peak of the job without limit and guard, and what it has
// before it takes anything.
func chaosPeak(t *testing.T, seed uint64, p chaosPlan) (peak, idle int64) {
	g := lab.NewGroup(t, lab.Limits{})
	stop := g.Watch(2 * time.Millisecond)
	r := runRanks(t, "chaos", mpirun.Config{Ranks: p.Ranks, Group: g, Env: []string{fmt.Sprintf("MPIGUARD_TEST_SEED=%d", seed)}})
	require.Zero(t, r.Exit, "%s%s", r.Stdout, r.Stderr)
	seen, err := stop()
	require.NoError(t, err)
	// An empty rank has some 5 MiB of its own, and mpirun as much again; the kernel
	// counts page tables and stacks on top.
	idle = int64(p.Ranks+1) * (6 << 20)
	return seen.AnonBytes + int64(p.Ranks)<<20, idle
}
