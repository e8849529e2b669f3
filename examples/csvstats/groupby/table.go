// Package groupby counts, and finds the minimum, mean and maximum of, one
// column of a delimited file for each value of another column. It knows nothing
// of files or MPI: rows come as blocks of bytes, and tables of several ranks are
// merged through a mpiguard.Comm.
package groupby

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"unsafe"
)

// Account is asked for memory before a table takes it, and told when the table
// gave some back. A *mpiguard.Reservation is one: its Grow waits until ctx ends.
type Account interface {
	Grow(ctx context.Context, n int64) error
	Shrink(n int64)
}

// Stats is what is known of the values of one group.
type Stats struct {
	Count    int64
	Min, Max Number
	sum      sum
}

// Mean returns the mean of the values, rounded to a Number.
func (s *Stats) Mean() Number { return s.sum.mean(s.Count) }

// add takes in one value.
func (s *Stats) add(n Number) {
	s.Count++
	s.Min = min(s.Min, n)
	s.Max = max(s.Max, n)
	s.sum.add(n)
}

// merge takes in what another rank knows of the same group.
func (s *Stats) merge(t *Stats) {
	s.Count += t.Count
	s.Min = min(s.Min, t.Min)
	s.Max = max(s.Max, t.Max)
	s.sum.plus(t.sum)
}

// Group is the statistics of the rows with one key.
type Group struct {
	Key []byte
	Stats
}

// MaxKeyBytes is the longest key; a bound lets ranks exchange groups in rows of
// fixed length.
const MaxKeyBytes = 1 << 10

// Sizes of what a table takes at a time.
const (
	pageGroups   = 512
	arenaBytes   = 32 << 10
	firstSlots   = 1024
	slotBytes    = int64(unsafe.Sizeof(slot{}))
	pageBytes    = int64(unsafe.Sizeof([pageGroups]Group{}))
	pointerBytes = int64(unsafe.Sizeof(uintptr(0)))
)

// Table is a hash table of groups. A lookup allocates nothing, groups and keys
// never move, and memory is asked of the account before it is allocated. A table
// is used by one goroutine at a time.
type Table struct {
	account Account
	seed    maphash.Seed
	slots   []slot // open addressing, a power of two, at most half of them taken
	pages   []*[pageGroups]Group
	groups  int
	arena   []byte // the keys added last; earlier ones are held by their groups
}

// slot is free where it has no group.
type slot struct {
	hash  uint64 // of the group's key
	group *Group
}

// NewTable returns an empty table; a nil account grants everything.
func NewTable(account Account) *Table {
	if account == nil {
		account = unlimited{}
	}
	return &Table{account: account, seed: maphash.MakeSeed()}
}

type unlimited struct{}

func (unlimited) Grow(context.Context, int64) error { return nil }
func (unlimited) Shrink(int64)                      {}

// Len returns the number of groups.
func (t *Table) Len() int { return t.groups }

// At returns group i, in the order in which they were added.
func (t *Table) At(i int) *Group { return &t.pages[i/pageGroups][i%pageGroups] }

// Group returns the group of key, which it adds, empty, if it is new. An error
// says why there is no memory; the table is then unchanged. It panics if the key
// is longer than MaxKeyBytes.
func (t *Table) Group(ctx context.Context, key []byte) (*Group, error) {
	hash := maphash.Bytes(t.seed, key)
	if g := t.find(hash, key); g != nil {
		return g, nil
	}
	return t.insert(ctx, hash, key)
}

func (t *Table) find(hash uint64, key []byte) *Group {
	for i := hash; len(t.slots) > 0; i++ {
		s := &t.slots[i&uint64(len(t.slots)-1)]
		if s.group == nil {
			return nil
		}
		if s.hash == hash && bytes.Equal(s.group.Key, key) {
			return s.group
		}
	}
	return nil
}

func (t *Table) insert(ctx context.Context, hash uint64, key []byte) (*Group, error) {
	if len(key) > MaxKeyBytes {
		panic("groupby: Group: the key is longer than MaxKeyBytes")
	}
	if err := t.makeRoom(ctx, len(key)); err != nil {
		return nil, fmt.Errorf("no memory for group %d: %w", t.groups+1, err)
	}
	start := len(t.arena)
	t.arena = append(t.arena, key...)
	g := t.At(t.groups)
	*g = Group{Key: t.arena[start:len(t.arena):len(t.arena)], Stats: Stats{Min: math.MaxInt64, Max: math.MinInt64}}
	t.groups++
	place(t.slots, slot{hash, g})
	return g, nil
}

// place puts s in the first free slot from where its hash points.
func place(slots []slot, s slot) {
	i := s.hash
	for ; slots[i&uint64(len(slots)-1)].group != nil; i++ {
	}
	slots[i&uint64(len(slots)-1)] = s
}

// makeRoom makes room for one more group with a key of that many bytes.
func (t *Table) makeRoom(ctx context.Context, keyBytes int) error {
	if cap(t.arena)-len(t.arena) < keyBytes {
		if err := t.account.Grow(ctx, arenaBytes); err != nil {
			return err
		}
		t.arena = make([]byte, 0, arenaBytes)
	}
	if t.groups == len(t.pages)*pageGroups {
		if err := t.account.Grow(ctx, pageBytes+pointerBytes); err != nil {
			return err
		}
		t.pages = append(t.pages, new([pageGroups]Group))
	}
	if 2*(t.groups+1) > len(t.slots) {
		return t.moreSlots(ctx)
	}
	return nil
}

func (t *Table) moreSlots(ctx context.Context) error {
	slots := max(2*len(t.slots), firstSlots)
	if err := t.account.Grow(ctx, int64(slots)*slotBytes); err != nil {
		return err
	}
	more := make([]slot, slots)
	for _, s := range t.slots {
		if s.group != nil {
			place(more, s)
		}
	}
	t.account.Shrink(int64(len(t.slots)) * slotBytes)
	t.slots = more
	return nil
}
