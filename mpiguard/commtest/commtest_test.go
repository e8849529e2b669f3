package commtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/commtest"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

// faulty is a rank of which one method does what its field says.
type faulty struct {
	mpiguard.Messenger
	barrier   func(context.Context) error
	allreduce func(ctx context.Context, dst, src []uint64, op mpiguard.Op) error
	allgather func(ctx context.Context, dst, row []byte) error
	isend     func(buf []byte, dest, tag int) (mpiguard.Request, error)
	test      func(mpiguard.Envelope, bool, error) (mpiguard.Envelope, bool, error) // of a receive
}

func (f *faulty) Barrier(ctx context.Context) error { return f.barrier(ctx) }
func (f *faulty) AllreduceUint64(ctx context.Context, dst, src []uint64, op mpiguard.Op) error {
	return f.allreduce(ctx, dst, src, op)
}
func (f *faulty) Allgather(ctx context.Context, dst, row []byte) error {
	return f.allgather(ctx, dst, row)
}
func (f *faulty) Isend(buf []byte, dest, tag int) (mpiguard.Request, error) {
	return f.isend(buf, dest, tag)
}
func (f *faulty) Irecv(buf []byte, source, tag int) (mpiguard.Request, error) {
	r, err := f.Messenger.Irecv(buf, source, tag)
	if err != nil {
		return nil, err
	}
	return &receive{r, f}, nil
}

type receive struct {
	mpiguard.Request
	f *faulty
}

func (r *receive) Test() (mpiguard.Envelope, bool, error) { return r.f.test(r.Request.Test()) }

func faultless(m mpiguard.Messenger) *faulty {
	return &faulty{m, m.Barrier, m.AllreduceUint64, m.Allgather, m.Isend,
		func(e mpiguard.Envelope, done bool, err error) (mpiguard.Envelope, bool, error) { return e, done, err }}
}

var faults = map[string]func(f *faulty){
	"": func(*faulty) {},
	"the barrier lets all through": func(f *faulty) {
		f.barrier = func(context.Context) error { return nil }
	},
	"min is max": func(f *faulty) {
		f.allreduce = func(ctx context.Context, dst, src []uint64, op mpiguard.Op) error {
			if op == mpiguard.OpMin {
				op = mpiguard.OpMax
			}
			return f.Messenger.AllreduceUint64(ctx, dst, src, op)
		}
	},
	"src is changed": func(f *faulty) {
		f.allreduce = func(ctx context.Context, dst, src []uint64, op mpiguard.Op) error {
			err := f.Messenger.AllreduceUint64(ctx, dst, src, op)
			if err == nil {
				copy(src, dst)
			}
			return err
		}
	},
	"the rows are rotated": func(f *faulty) {
		f.allgather = func(ctx context.Context, dst, row []byte) error {
			err := f.Messenger.Allgather(ctx, dst, row)
			if err == nil {
				copy(dst, append(append([]byte{}, dst[len(row):]...), dst[:len(row)]...))
			}
			return err
		}
	},
	"a ctx that is done keeps out": func(f *faulty) {
		f.allgather = func(ctx context.Context, dst, row []byte) error {
			if ctx.Err() != nil {
				return &mpiguard.BrokenError{Call: "Allgather", Rank: f.Rank(), Cause: ctx.Err()}
			}
			return f.Messenger.Allgather(ctx, dst, row)
		}
	},
	"wrong lengths are no panic": func(f *faulty) {
		f.allgather = func(ctx context.Context, dst, row []byte) error {
			defer func() { _ = recover() }()
			return f.Messenger.Allgather(ctx, dst, row)
		}
	},
	"broken is forgotten": func(f *faulty) {
		f.barrier = func(ctx context.Context) error {
			if err := f.Messenger.Barrier(ctx); !errors.Is(err, mpiguard.ErrBroken) {
				return err
			}
			return nil
		}
	},
	"broken is not said": func(f *faulty) {
		f.allreduce = func(ctx context.Context, dst, src []uint64, op mpiguard.Op) error {
			err := f.Messenger.AllreduceUint64(ctx, dst, src, op)
			if errors.Is(err, mpiguard.ErrBroken) {
				return ctx.Err()
			}
			return err
		}
	},
	"concurrent calls wait": func(f *faulty) {
		f.barrier = func(ctx context.Context) error {
			for {
				if err := f.Messenger.Barrier(ctx); !errors.Is(err, mpiguard.ErrConcurrent) {
					return err
				}
			}
		}
	},
	"a message is cut in silence": func(f *faulty) {
		f.test = func(e mpiguard.Envelope, done bool, err error) (mpiguard.Envelope, bool, error) {
			if errors.Is(err, mpiguard.ErrTruncated) {
				err = nil
			}
			return e, done, err
		}
	},
	"the tag is lost": func(f *faulty) {
		f.test = func(e mpiguard.Envelope, done bool, err error) (mpiguard.Envelope, bool, error) {
			e.Tag = 0
			return e, done, err
		}
	},
	"a long message is damaged": func(f *faulty) {
		f.isend = func(buf []byte, dest, tag int) (mpiguard.Request, error) {
			if len(buf) > 1<<20 && len(buf) < 1<<24 {
				buf = append(append([]byte{}, buf[:len(buf)-1]...), ^buf[len(buf)-1])
			}
			return f.Messenger.Isend(buf, dest, tag)
		}
	},
	"any rank will do": func(f *faulty) {
		f.isend = func(buf []byte, dest, tag int) (mpiguard.Request, error) {
			return f.Messenger.Isend(buf, max(0, dest)%f.Size(), tag)
		}
	},
}

// The test binary runs the suite with this fault when told so.
const faultVariable = "COMMTEST_FAULT"

func TestSuite(t *testing.T) {
	makeFaulty := faults[os.Getenv(faultVariable)]
	commtest.TestMessenger(t, func(f func(mpiguard.Messenger) error) error {
		return inproc.Run(2, func(m mpiguard.Messenger) error {
			rank := faultless(m)
			makeFaulty(rank)
			return f(rank)
		})
	})
}

// TestFaultsAreFound: the suite fails for each of the faults.
func TestFaultsAreFound(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for name := range faults {
		if name == "" {
			continue // TestSuite itself
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestSuite$", "-test.failfast", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), faultVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if assert.ErrorAs(t, err, &exit, "the suite passes") {
				assert.Equal(t, 1, exit.ExitCode(), "no test failed: %s", out)
				assert.NotContains(t, string(out), "timed out", "the suite hangs")
			}
		})
	}
}
