package offheap

import "context"

// Account is charged for memory before it is mapped. *mpiguard.Reservation
// satisfies it.
type Account interface {
	// Grow adds n bytes and waits for them until ctx ends.
	Grow(ctx context.Context, n int64) error
	// TryGrow adds n bytes or fails at once.
	TryGrow(n int64) error
	// Shrink gives n bytes back.
	Shrink(n int64)
	// Commit says that n bytes of the account are resident, outside the Go heap.
	Commit(n int64)
}

// Unaccounted is an Account that grants everything.
type Unaccounted struct{}

// Grow grants n bytes.
func (Unaccounted) Grow(context.Context, int64) error { return nil }

// TryGrow grants n bytes.
func (Unaccounted) TryGrow(int64) error { return nil }

// Shrink does nothing.
func (Unaccounted) Shrink(int64) {}

// Commit does nothing.
func (Unaccounted) Commit(int64) {}

// Commit calls acct.Commit where the memory of this package is outside the Go heap.
func Commit(acct Account, n int64) {
	if Mapped {
		acct.Commit(n)
	}
}

// Buffer is resident memory of a size that can change, charged to an account in
// whole pages. It is not safe for concurrent use.
type Buffer struct {
	acct Account
	mem  []byte
	n    int64
}

// NewBuffer returns an empty buffer.
func NewBuffer(acct Account) *Buffer { return &Buffer{acct: acct} }

// Bytes returns the memory. It must not be used after the next Resize, TryResize
// or Free.
func (b *Buffer) Bytes() []byte { return b.mem[:b.n:b.n] }

// Resize makes the buffer n bytes long, with its contents kept up to the shorter
// of both lengths and the rest undefined. It waits for the account until ctx ends.
// On an error nothing has changed.
func (b *Buffer) Resize(ctx context.Context, n int64) error {
	return b.resize(n, func(more int64) error { return b.acct.Grow(ctx, more) })
}

// TryResize is Resize for those who cannot wait.
func (b *Buffer) TryResize(n int64) error { return b.resize(n, b.acct.TryGrow) }

func (b *Buffer) resize(n int64, grow func(int64) error) error {
	have, want := int64(len(b.mem)), RoundUp(n, PageBytes)
	switch {
	case want > have:
		if err := grow(want - have); err != nil {
			return err
		}
		if err := b.extend(want); err != nil {
			b.acct.Shrink(want - have)
			return err
		}
		Commit(b.acct, want-have)
	case want == 0:
		b.Free()
	case want < have:
		mem, err := Remap(b.mem, want)
		if err != nil {
			return err
		}
		b.mem = mem
		Commit(b.acct, want-have)
		b.acct.Shrink(have - want)
	}
	b.n = n
	return nil
}

// extend maps and populates want bytes. On an error the buffer is as before.
func (b *Buffer) extend(want int64) error {
	have := int64(len(b.mem))
	var mem []byte
	var err error
	if have == 0 {
		mem, err = Map(want, false)
	} else {
		mem, err = Remap(b.mem, want)
	}
	if err != nil {
		return err
	}
	if err := Populate(mem[have:]); err != nil {
		if have == 0 {
			_ = Unmap(mem)
		} else if mem, e := Remap(mem, have); e == nil {
			b.mem = mem
		}
		return err
	}
	b.mem = mem
	return nil
}

// Free gives all memory back. The buffer is empty then and can be used again.
func (b *Buffer) Free() {
	have := int64(len(b.mem))
	if have == 0 {
		return
	}
	_ = Unmap(b.mem) // fails for an address that is not ours alone
	b.mem, b.n = nil, 0
	Commit(b.acct, -have)
	b.acct.Shrink(have)
}
