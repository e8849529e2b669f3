// Package compressed reads input that may be compressed, with the memory of the
// decoder in an account.
//
//	in, err := compressed.NewReader(ctx, file, r)
//	defer in.Close()
//	for line, err := range chunk.Lines(ctx, in, chunk.Config{Account: blocks, ReadAhead: true}) { ... }
//
// Compressed input cannot be entered in the middle: one rank reads a whole file.
// Config.ReadAhead of chunk decompresses on another core.
package compressed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Account is charged for the memory of a decoder, which is in the Go heap.
// *mpiguard.Reservation satisfies it.
type Account interface {
	// Grow adds n bytes and waits for them until ctx ends. On an error nothing
	// has changed.
	Grow(ctx context.Context, n int64) error
	// Shrink gives n bytes back.
	Shrink(n int64)
}

// What a reader needs: its input buffer, and the tables and windows of gzip, which
// are of one size (RFC 1951).
const (
	bufferBytes = 64 << 10
	inputBytes  = bufferBytes + 4<<10
	gzipBytes   = 128 << 10
)

var gzipMagic = []byte{0x1f, 0x8b, 8} // RFC 1952: deflate is the only method

// The numbers that frames of zstd start with (RFC 8878), the latter in sixteen
// variants.
const (
	frameMagic     = 0xfd2fb528
	skippableMagic = 0x184d2a50
)

// NewReader returns the contents of r, decompressed if they are in gzip format or
// zstd format, also where several such files were put one after another. Anything
// else is passed on as it is; what it is, its first bytes tell. Memory is charged to
// acct, and waited for until ctx ends, also later, when a frame of zstd needs a
// larger window; nil charges nobody. A truncated input is io.ErrUnexpectedEOF. Close
// gives the memory back, and does not close r.
func NewReader(ctx context.Context, r io.Reader, acct Account) (io.ReadCloser, error) {
	c := &charge{acct: acct}
	if err := c.grow(ctx, inputBytes); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(r, bufferBytes)
	body, err := open(ctx, in, c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &reader{body, c}, nil
}

type reader struct {
	io.Reader
	*charge
}

func open(ctx context.Context, in *bufio.Reader, c *charge) (io.Reader, error) {
	magic, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("compressed: %w", err)
	}
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		if err := c.grow(ctx, gzipBytes); err != nil {
			return nil, err
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("compressed: gzip: %w", truncated(err))
		}
		return named{z, "gzip"}, nil
	case isZstd(magic):
		return named{&zstdReader{ctx: ctx, in: in, charge: c}, "zstd"}, nil
	}
	return in, nil
}

func isZstd(magic []byte) bool {
	if len(magic) < 4 {
		return false
	}
	n := binary.LittleEndian.Uint32(magic)
	return n == frameMagic || isSkippable(n)
}

func isSkippable(magic uint32) bool { return magic&^0xf == skippableMagic }

// truncated is err where the input must not end.
func truncated(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// named says in errors which decoder they are from.
type named struct {
	r      io.Reader
	format string
}

func (n named) Read(p []byte) (int, error) {
	m, err := n.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("compressed: %s: %w", n.format, err)
	}
	return m, err
}

// charge is what a reader has of its account.
type charge struct {
	acct  Account
	bytes int64
}

func (c *charge) grow(ctx context.Context, n int64) error {
	if c.acct == nil {
		return nil
	}
	if err := c.acct.Grow(ctx, n); err != nil {
		return fmt.Errorf("compressed: %d bytes for the decoder: %w", n, err)
	}
	c.bytes += n
	return nil
}

// Close gives everything back. A second Close does nothing.
func (c *charge) Close() error {
	if c.bytes > 0 {
		c.acct.Shrink(c.bytes)
		c.bytes = 0
	}
	return nil
}
