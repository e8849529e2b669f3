package compressed

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdReader decompresses frame by frame (RFC 8878), since each says how large a
// window it needs: that much history, up to gigabytes, the decoder has to keep.
type zstdReader struct {
	ctx    context.Context
	in     *bufio.Reader
	charge *charge

	dec         *zstd.Decoder
	windowBytes int64 // that dec was made for
	frame       frame
	open        bool // a frame is
}

// decoderBytes is what a decoder with such a window takes: the history, which it
// moves when there is a block more of it, and the buffers of one block.
func decoderBytes(windowBytes int64) int64 {
	const block, slack = 128 << 10, 1 << 20
	return windowBytes + min(windowBytes, slack) + 8*block
}

func (z *zstdReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if !z.open {
			if err := z.next(); err != nil {
				return 0, err
			}
		}
		n, err := z.dec.Read(p)
		if err == io.EOF {
			z.open = false
			err = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next begins the next frame, or returns io.EOF.
func (z *zstdReader) next() error {
	h, err := z.header()
	if err != nil {
		return err
	}
	z.frame = frame{in: z.in, segment: int64(h.HeaderSize), checksum: h.HasCheckSum}
	z.open = true
	if need := int64(h.WindowSize); z.dec == nil || need > z.windowBytes {
		if err := z.enlarge(need); err != nil {
			return err
		}
	}
	return z.dec.Reset(&z.frame)
}

// header returns the header of the next frame that has contents, without reading it.
func (z *zstdReader) header() (zstd.Header, error) {
	for {
		start, err := z.in.Peek(zstd.HeaderMaxSize)
		if len(start) == 0 {
			return zstd.Header{}, err
		}
		if len(start) >= 8 && isSkippable(binary.LittleEndian.Uint32(start)) {
			size := 8 + int64(binary.LittleEndian.Uint32(start[4:]))
			if _, err := io.CopyN(io.Discard, z.in, size); err != nil {
				return zstd.Header{}, truncated(err)
			}
			continue
		}
		var h zstd.Header
		if err := h.Decode(start); err != nil {
			return h, truncated(err)
		}
		if h.SingleSegment { // the frame is its own window
			h.WindowSize = h.FrameContentSize
		}
		if h.WindowSize > zstd.MaxWindowSize {
			return h, fmt.Errorf("a window of %d bytes: %w", h.WindowSize, zstd.ErrWindowSizeExceeded)
		}
		return h, nil
	}
}

// enlarge replaces the decoder by one for a larger window.
func (z *zstdReader) enlarge(windowBytes int64) error {
	windowBytes = max(windowBytes, zstd.MinWindowSize)
	need := decoderBytes(windowBytes)
	if z.dec != nil {
		need -= decoderBytes(z.windowBytes)
		z.dec.Close()
		z.dec = nil
	}
	if err := z.charge.grow(z.ctx, need); err != nil {
		return err
	}
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), // no goroutines, and the buffers of one block
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(windowBytes)),
		zstd.WithDecoderMaxMemory(1<<62), // of the whole contents, which nobody holds
	)
	if err != nil {
		return err
	}
	z.dec, z.windowBytes = dec, windowBytes
	return nil
}

// frame passes the bytes of one frame on, and io.EOF after them. A frame is a
// header, blocks that say their size, and perhaps a checksum.
type frame struct {
	in       *bufio.Reader
	segment  int64 // bytes that are known to follow
	last     bool  // no block follows
	checksum bool  // four bytes follow the last block
}

func (f *frame) Read(p []byte) (int, error) {
	if f.segment == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.segment)])
	f.segment -= int64(n)
	return n, truncated(err)
}

// next finds out what follows.
func (f *frame) next() error {
	switch {
	case !f.last:
		const headerBytes, rle = 3, 1
		h, err := f.in.Peek(headerBytes)
		if err != nil {
			return truncated(err)
		}
		bits := uint32(h[0]) | uint32(h[1])<<8 | uint32(h[2])<<16
		f.last = bits&1 != 0
		f.segment = headerBytes + int64(bits>>3)
		if bits>>1&3 == rle { // one byte, repeated
			f.segment = headerBytes + 1
		}
	case f.checksum:
		f.checksum = false
		f.segment = 4
	default:
		return io.EOF
	}
	return nil
}
