package ledger

import (
	"fmt"
	"testing"
)

func joinAll(b *testing.B, l *Ledger, n int) []*Slot {
	slots := make([]*Slot, n)
	for i := range slots {
		s, err := l.Join(i, Member{IDs: []uint64{1, 2, 3}, Measure: fixed(1<<40, 1<<40, 1<<40)})
		if err != nil {
			b.Fatal(err)
		}
		slots[i] = s
	}
	return slots
}

func takeGive(b *testing.B, s *Slot) {
	for b.Loop() {
		if _, err := s.TryTake(1<<20, 1<<20); err != nil {
			b.Fatal(err)
		}
		s.Give(1 << 20)
	}
}

// BenchmarkTakeGive measures a block taken and given by one rank of so many, that
// hold something each, under three constraints.
func BenchmarkTakeGive(b *testing.B) {
	for _, n := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := create(b, n)
			defer l.Close()
			slots := joinAll(b, l, n)
			for _, s := range slots[1:] {
				if _, err := s.TryTake(1<<20, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			takeGive(b, slots[0])
		})
	}
}

// BenchmarkRows measures the usage of all 32 ranks of a node, beside what it
// cannot be faster than: one load from each slot.
func BenchmarkRows(b *testing.B) {
	l := create(b, 32)
	defer l.Close()
	for i, s := range joinAll(b, l, 32) {
		s.Publish(Row{Rank: i, PID: 1, ReservedBytes: 2, PrivateBytes: 3, HeadroomBytes: 4})
	}
	b.Run("rows", func(b *testing.B) {
		var rows []Row
		b.ReportAllocs()
		for b.Loop() {
			rows = l.Rows(rows[:0])
		}
	})
	b.Run("loads", func(b *testing.B) {
		var sum int64
		for b.Loop() {
			for i := range l.entries {
				sum += l.entries[i].private.Load()
			}
		}
		if sum == 0 {
			b.Fatal("nothing was read")
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	l := create(b, 32)
	defer l.Close()
	s := joinAll(b, l, 1)[0]
	for b.Loop() {
		s.Publish(Row{PrivateBytes: 1})
	}
}
