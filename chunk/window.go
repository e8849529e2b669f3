package chunk

import (
	"context"
	"fmt"

	"github.com/mpiguard/mpiguard/internal/offheap"
)

// window is the buffer of one iteration, as large as its Sizer says.
type window struct {
	sizer *Sizer
	buf   *offheap.Buffer
	least int64 // so much it must have
	limit int64 // there is no use in more, so far as is known
	size  int64 // what the Sizer said last
	floor int64 // what a long line needed, until the Sizer wants less memory
}

func newWindow(cfg Config, least, limit int64) *window {
	return &window{sizer: cfg.Sizer, buf: offheap.NewBuffer(cfg.Account), least: least, limit: limit}
}

func (w *window) bytes() []byte { return w.buf.Bytes() }

func (w *window) free() { w.buf.Free() }

// want makes a step of the Sizer and returns the size for keep bytes and one more.
func (w *window) want(keep int64) int64 {
	size := w.sizer.Next()
	if size < w.size {
		w.floor = 0
	}
	w.size = size
	return max(min(size, w.limit), w.floor, w.least, keep+1)
}

// next returns the memory for the next chunk, with its first keep bytes kept and
// room for one more at least. When the account refuses a larger buffer, the old one
// is used on; the first one may be smaller, down to the minimum, and waits for that
// until ctx ends. A grow above the present size is for a window that was too small.
func (w *window) next(ctx context.Context, keep, grow int64) ([]byte, error) {
	want := w.want(keep)
	have := int64(len(w.bytes()))
	if grow > have {
		return w.grow(ctx, grow)
	}
	if want == have || w.buf.TryResize(want) == nil {
		return w.bytes(), nil
	}
	if have > keep {
		w.sizer.refused(have)
		return w.bytes(), nil
	}
	for need := max(min(w.sizer.limits.min, want), w.least, keep+1); want > need; {
		want = max(want/2, need)
		if w.buf.TryResize(want) == nil {
			w.sizer.refused(want)
			return w.bytes(), nil
		}
	}
	w.sizer.refused(want)
	return w.wait(ctx, want)
}

// offer is next for a window that the program can do without: it returns nil, and
// gives its memory back, where the account refuses or may is false.
func (w *window) offer(keep int64, may bool) []byte {
	if !may || w.buf.TryResize(w.want(keep)) != nil {
		w.free()
		return nil
	}
	return w.bytes()
}

// grow makes the window n bytes long, or as little longer than it was as makes
// sense, for which it waits.
func (w *window) grow(ctx context.Context, n int64) ([]byte, error) {
	have := int64(len(w.bytes()))
	w.floor = n
	if w.buf.TryResize(n) == nil {
		return w.bytes(), nil
	}
	w.floor = min(have+max(have/8, offheap.PageBytes), n)
	return w.wait(ctx, w.floor)
}

func (w *window) wait(ctx context.Context, n int64) ([]byte, error) {
	if err := w.buf.Resize(ctx, n); err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", n, err)
	}
	return w.bytes(), nil
}
