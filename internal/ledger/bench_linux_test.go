package ledger

import (
	"context"
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

func init() {
	// A partner takes all as soon as it is there and gives it back.
	roles["partner"] = func(o order) error {
		p, err := newPlayer(o)
		if err != nil {
			return err
		}
		for !p.y.stop.Load() {
			if err := p.Take(context.Background(), budget); err != nil {
				return err
			}
			p.Give(budget)
		}
		return p.ledger.Close()
	}
	// An echo returns each byte that it is sent.
	roles["echo"] = func(order) error {
		in, out := os.NewFile(tallyFD+1, "in"), os.NewFile(tallyFD+2, "out")
		buf := make([]byte, 1)
		for {
			if _, err := in.Read(buf); err != nil {
				return nil
			}
			if _, err := out.Write(buf); err != nil {
				return nil
			}
		}
	}
}

// medianOf reports the median time of f, each time after before; the mean says
// more about who else is on the machine.
func medianOf(b *testing.B, f, before func()) {
	var all []time.Duration
	for b.Loop() {
		before()
		begin := time.Now()
		f()
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2]), "median-ns")
}

// BenchmarkWake measures the way of all bytes to another process that waits for
// them and back to this one, which waits meanwhile: two times a rank is woken. And,
// beside it, that of a byte through a pair of pipes.
func BenchmarkWake(b *testing.B) {
	b.Run("ledger", func(b *testing.B) {
		l := create(b, 2)
		defer l.Close()
		y, f := newTally(b)
		s, err := l.Join(0, y.member())
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		if err := s.Take(ctx, budget); err != nil {
			b.Fatal(err)
		}
		partner := start(b, f, order{Role: "partner", Handle: l.Handle(), Slot: 1})
		medianOf(b, func() {
			s.Give(budget)
			if err := s.Take(ctx, budget); err != nil {
				b.Fatal(err)
			}
		}, func() {
			time.Sleep(50 * time.Microsecond)
			for l.entries[1].ticket.Load() == 0 { // until the other waits again
				time.Sleep(50 * time.Microsecond)
			}
		})
		y.stop.Store(true)
		s.Give(budget)
		if err := partner.Wait(); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("pipe", func(b *testing.B) {
		there, in, err1 := os.Pipe()
		out, back, err2 := os.Pipe()
		if err1 != nil || err2 != nil {
			b.Fatal(err1, err2)
		}
		defer out.Close()
		_, f := newTally(b)
		start(b, f, order{Role: "echo"}, there, back)
		there.Close()
		back.Close()
		buf := make([]byte, 1)
		medianOf(b, func() {
			if _, err := in.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := out.Read(buf); err != nil {
				b.Fatal(err)
			}
		}, func() { time.Sleep(50 * time.Microsecond) })
		in.Close()
	})
}

// BenchmarkTakeGiveBeside measures a block taken and given while another process
// does the same.
func BenchmarkTakeGiveBeside(b *testing.B) {
	l := create(b, 2)
	defer l.Close()
	y, f := newTally(b)
	s, err := l.Join(0, Member{IDs: []uint64{1}, Measure: fixed(1 << 40)})
	if err != nil {
		b.Fatal(err)
	}
	other := start(b, f, order{Role: "churn", Handle: l.Handle(), Slot: 1, Steps: math.MaxInt})
	for y.granted.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	takeGive(b, s)
	y.stop.Store(true)
	if err := other.Wait(); err != nil {
		b.Fatal(err)
	}
}
