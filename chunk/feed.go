package chunk

import (
	"context"
	"math"
	"runtime"

	"github.com/mpiguard/mpiguard/internal/invariants"
	"github.com/mpiguard/mpiguard/internal/level"
)

// feed hands an input out in buffers.
type feed interface {
	// next returns tail, which is the end of what the last call returned, followed
	// by more of the input; full says that nothing more fit into the buffer. Where it
	// was full of tail, grow is the size that it should get, and it does get larger.
	// At the end of the input the error is io.EOF, beside no more than tail. With any
	// other error comes what was read before it.
	next(ctx context.Context, tail []byte, grow int64) (data []byte, full bool, err error)
	// ahead says that the next call will have this tail, so that the feed may begin.
	ahead(tail []byte)
	// offset is the place in the input where the data of the last next ended.
	offset() int64
	// close gives the memory back.
	close()
}

// newFeed returns the feed of an input. A buffer has room for one unit at least and
// is filled with whole units, however short the reads are; with unit 0 it gets what
// one read brings.
func newFeed(src *source, cfg Config, unit int64) feed {
	if cfg.Mmap {
		if f, ok := newMapping(src, cfg.Sizer, unit); ok {
			return f
		}
	}
	// Room for one byte more than there is: the read that finds the end takes it.
	limit := min(src.left, math.MaxInt64-1) + 1
	r := &reading{src: src, unit: unit, acct: cfg.Account, cur: newWindow(cfg, unit, limit)}
	if cfg.ReadAhead && runtime.GOMAXPROCS(0) > 1 {
		r.spare = newWindow(cfg, unit, limit)
	}
	return r
}

// reading is a feed that reads into a window, and with a second one ahead of time.
type reading struct {
	src  *source
	unit int64
	at   int64 // the offset, with no read under way
	cur  *window
	acct Account

	spare   *window     // nil when nothing is read ahead
	jobs    chan job    // to the goroutine that reads ahead, once there is one
	results chan result // from it
	pending bool        // a job is under way
}

// job is a read into buf, of which the first keep bytes are there.
type job struct {
	buf  []byte
	keep int
}

type result struct {
	job
	n   int
	err error
}

func (r *reading) next(ctx context.Context, tail []byte, grow int64) ([]byte, bool, error) {
	if r.pending {
		return r.receive(<-r.results)
	}
	buf := r.cur.bytes()
	copy(buf, tail)
	invariants.Poison(buf[len(tail):])
	buf, err := r.cur.next(ctx, int64(len(tail)), grow)
	if err != nil {
		return nil, false, err
	}
	return r.done(r.do(job{buf, len(tail)}))
}

// do reads.
func (r *reading) do(j job) result {
	res := result{job: j}
	free := j.buf[j.keep:]
	if r.unit == 0 {
		res.n, res.err = r.src.read(free)
	} else {
		res.n, res.err = r.src.fill(free[:len(free)-len(j.buf)%int(r.unit)])
	}
	return res
}

func (r *reading) receive(res result) ([]byte, bool, error) {
	r.pending = false
	invariants.Poison(r.cur.bytes())
	r.cur, r.spare = r.spare, r.cur
	return r.done(res)
}

func (r *reading) done(res result) ([]byte, bool, error) {
	r.at = r.src.offset
	n := res.keep + res.n
	return res.buf[:n:n], n == len(res.buf), res.err
}

// ahead starts to read into the spare window, if the account lets it have one.
func (r *reading) ahead(tail []byte) {
	if r.spare == nil {
		return
	}
	buf := r.spare.offer(int64(len(tail)), r.acct.Level() < level.High)
	if buf == nil {
		return
	}
	if r.jobs == nil {
		r.jobs, r.results = make(chan job), make(chan result, 1)
		go func() {
			defer close(r.results)
			for j := range r.jobs {
				r.results <- r.do(j)
			}
		}()
	}
	copy(buf, tail)
	r.jobs <- job{buf, len(tail)}
	r.pending = true
}

func (r *reading) offset() int64 { return r.at }

func (r *reading) close() {
	if r.jobs != nil {
		close(r.jobs)
		for range r.results { // until the read that is under way has returned
		}
	}
	if r.spare != nil {
		r.spare.free()
	}
	r.cur.free()
}
