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
	limit int64 // there is no use in more, so far as is known
	size  int64 // what the Sizer said last
	floor int64 // what a long line needed, until the Sizer wants less memory
}

func newWindow(cfg Config, limit int64) *window {
	return &window{sizer: cfg.Sizer, buf: offheap.NewBuffer(cfg.Account), limit: limit}
}

func (w *window) free() { w.buf.Free() }

// next returns the memory for the next chunk, with its first keep bytes kept and
// room for one more at least. When the account refuses a larger buffer, the old
// one is used on; the first one may be smaller, down to the minimum, and waits
// for that until ctx ends.
func (w *window) next(ctx context.Context, keep int64) ([]byte, error) {
	size := w.sizer.Next()
	if size < w.size {
		w.floor = 0
	}
	w.size = size
	have := int64(len(w.buf.Bytes()))
	want := max(min(size, w.limit), w.floor, keep+1)
	if want == have {
		return w.buf.Bytes(), nil
	}
	if w.buf.TryResize(want) == nil {
		return w.buf.Bytes(), nil
	}
	if have > keep {
		w.sizer.refused(have)
		return w.buf.Bytes(), nil
	}
	least := max(min(w.sizer.limits.min, want), keep+1)
	for want > least {
		want = max(want/2, least)
		if w.buf.TryResize(want) == nil {
			w.sizer.refused(want)
			return w.buf.Bytes(), nil
		}
	}
	w.sizer.refused(want)
	return w.wait(ctx, want)
}

// grow makes a full window larger, up to most bytes: twice as large, or as little
// larger as makes sense, for which it waits.
func (w *window) grow(ctx context.Context, most int64) error {
	have := int64(len(w.buf.Bytes()))
	w.floor = min(2*have, most)
	if w.buf.TryResize(w.floor) == nil {
		return nil
	}
	w.floor = min(have+max(have/8, offheap.PageBytes), most)
	_, err := w.wait(ctx, w.floor)
	return err
}

func (w *window) wait(ctx context.Context, n int64) ([]byte, error) {
	if err := w.buf.Resize(ctx, n); err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", n, err)
	}
	return w.buf.Bytes(), nil
}
