package chunk

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Config says how an iterator works. The zero Config is the default.
type Config struct {
	// Account is charged for the buffers; nil charges nobody.
	Account Account
	// Sizer decides the size of each chunk. Nil is a new Sizer over Account with
	// the default bounds. One Sizer may serve many iterators, also at a time.
	Sizer *Sizer
	// MaxLineBytes bounds a line without its '\n'. For a line that does not fit
	// into a chunk the buffer grows, waiting for the account. The default, and the
	// least, is the maximum of the Sizer.
	MaxLineBytes int64
	// SplitLongLines yields a longer line in pieces of at most MaxLineBytes
	// instead of failing with ErrLineTooLong. Lines and LinesAt then leave the
	// terminator on every line: a slice without one is a piece that goes on in
	// the next, or the end of the input.
	SplitLongLines bool
	// ByteOrder is that of the input of Records; nil is little-endian.
	ByteOrder binary.ByteOrder
	// ReadAhead reads the next chunk into a second buffer, in a goroutine, while
	// the loop works on the present one. It pays where reading takes long: a
	// network, a decompressor. There is no reading ahead while GOMAXPROCS is 1 or
	// the level is high, nor without room in the account for the buffer. Leaving the
	// loop waits for a Read that is under way.
	ReadAhead bool
	// Mmap maps an *os.File that a span is read of, a chunk at a time, instead of
	// copying it. The loop must not change what it is yielded, and the file must not
	// shrink while it is read: the loop may then read zeroes, after which an error
	// follows, or be killed by SIGBUS. Pages of the file are not charged, as the
	// kernel can drop them. Without effect outside Linux.
	Mmap bool
}

// withDefaults returns c with every field set.
func (c Config) withDefaults() (Config, error) {
	if c.MaxLineBytes < 0 {
		return c, fmt.Errorf("chunk: Config.MaxLineBytes is %d, must not be negative", c.MaxLineBytes)
	}
	if c.Sizer == nil {
		c.Sizer = defaultSizer(c.Account)
	}
	if c.Account == nil {
		c.Account = unaccounted{}
	}
	c.MaxLineBytes = min(max(c.MaxLineBytes, c.Sizer.limits.max), math.MaxInt64-1)
	return c, nil
}
