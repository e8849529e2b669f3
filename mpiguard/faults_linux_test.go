package mpiguard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mpiguard/mpiguard/mpiguard"
	"github.com/mpiguard/mpiguard/mpiguard/inproc"
)

const (
	faultRanks    = 3
	faultDeadline = time.Second            // of every collective
	faultGrace    = time.Second            // after which no rank may still wait
	faultLate     = 200 * time.Millisecond // how long the last rank is alone in a survey
)

// fault is what befalls the last rank, and what the ranks must be told.
type fault struct {
	place faultPlace
	// last is what the last rank does where the others call Survey, or New if
	// early. Unless gone it returns the error of its own call.
	last  func(r *faultyRank) error
	early bool // before New
	late  bool // the others come later, so that the last rank waits for them
	gone  bool // the last rank does not live to tell
	stops bool // the last rank stops until rank 0 has seen its error

	lastWant []error // what errors.Is must say on the last rank; none: no error
	want     []error // the same on the others
	orNone   bool    // or no error, as it depends on how far a message has got
	named    bool    // the errors name the last rank as the cause
	again    []error // of a Pulse after, on all
}

type faultPlace int

const (
	anywhere  faultPlace = iota
	inProcess            // where a rank is a goroutine
	underMPI             // where it is a process
)

var (
	broken    = []error{mpiguard.ErrBroken, context.DeadlineExceeded}
	cancelled = []error{context.Canceled}
	closed    = []error{mpiguard.ErrClosed}
	abandoned = []error{mpiguard.ErrBroken}
)

var faults = map[string]fault{
	"ctx cancelled before":          {last: surveyWith(done), lastWant: cancelled, want: cancelled, named: true},
	"deadline passed before":        {last: surveyWith(expired), lastWant: broken[1:], want: broken[1:], named: true},
	"ctx cancelled before New":      {last: newWith(done), early: true, lastWant: cancelled, want: cancelled, named: true},
	"ctx cancelled while waiting":   {last: surveyWith(doneSoon), late: true, lastWant: []error{mpiguard.ErrBroken, context.Canceled}, want: broken, orNone: true, again: abandoned},
	"deadline passes while waiting": {last: surveyWith(expiresSoon), late: true, lastWant: broken, want: broken, orNone: true, again: abandoned},
	"never comes":                   {last: stayAway, lastWant: nil, want: broken, again: abandoned},
	"never comes to New":            {last: stayAway, early: true, want: broken},
	"closed, and comes":             {last: closeAndSurvey, lastWant: closed, want: closed, named: true, again: closed},
	"closed, and never comes":       {last: closeAndStayAway, want: broken, again: abandoned},
	"concurrent call":               {last: concurrent, late: true},

	"returns before New":          {place: inProcess, last: leave, early: true, gone: true, want: abandoned},
	"panics before New":           {place: inProcess, last: panics, early: true, gone: true, want: abandoned},
	"returns between two surveys": {place: inProcess, last: leave, gone: true, want: abandoned, again: abandoned},
	"panics between two surveys":  {place: inProcess, last: panics, gone: true, want: abandoned, again: abandoned},

	"exits before New":          {place: underMPI, last: exits, early: true, gone: true, want: broken},
	"panics, before New":        {place: underMPI, last: panicsAlone, early: true, gone: true, want: broken},
	"killed before New":         {place: underMPI, last: killed, early: true, gone: true, want: broken},
	"exits between two surveys": {place: underMPI, last: exits, gone: true, want: broken, again: abandoned},
	"panics, between surveys":   {place: underMPI, last: panicsAlone, gone: true, want: broken, again: abandoned},
	"killed between surveys":    {place: underMPI, last: killed, gone: true, want: broken, again: abandoned},
	"exits inside a survey":     {place: underMPI, last: inSurvey(exits), late: true, gone: true, want: broken, orNone: true, again: abandoned},
	"panics inside a survey":    {place: underMPI, last: inSurvey(panicsAlone), late: true, gone: true, want: broken, orNone: true, again: abandoned},
	"killed inside a survey":    {place: underMPI, last: inSurvey(killed), late: true, gone: true, want: broken, orNone: true, again: abandoned},
	"stopped":                   {place: underMPI, last: stopped, stops: true, lastWant: broken, want: broken, orNone: true, again: abandoned},
}

// faultyRank is a rank of such a job.
type faultyRank struct {
	comm  mpiguard.Comm
	guard *mpiguard.Guard // nil before New

	mu         sync.Mutex
	complaints []string
}

// Errorf lets assert complain where there is no test.
func (r *faultyRank) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *faultyRank) survey(ctx context.Context) error {
	_, err := r.guard.Survey(ctx)
	return err
}

func (r *faultyRank) new(ctx context.Context) (err error) {
	r.guard, err = mpiguard.New(ctx, r.comm, mpiguard.Config{CollectiveTimeout: faultDeadline})
	return err
}

func (r *faultyRank) isLast() bool { return r.comm.Rank() == r.comm.Size()-1 }

// run goes through a fault, and returns how long this rank was held up by it.
func (r *faultyRank) run(f fault) (held time.Duration) {
	lastPID := 0
	call := r.new
	if !f.early {
		if !assert.NoError(r, r.new(context.Background())) {
			return 0
		}
		defer r.guard.Close()
		s, err := r.guard.Survey(context.Background())
		if !assert.NoError(r, err) {
			return 0
		}
		lastPID = s.Ranks[len(s.Ranks)-1].PID
		call = r.survey
	}
	want, start := f.want, time.Now()
	var err error
	if r.isLast() {
		want = f.lastWant
		err = f.last(r)
	} else {
		if f.late {
			time.Sleep(faultLate)
		}
		start = time.Now()
		err = call(context.Background())
	}
	held = time.Since(start)
	if r.isLast() && (f.stops || len(f.lastWant) == 0) {
		held = 0 // by its own will
	}
	if f.stops && r.comm.Rank() == 0 {
		assert.NoError(r, unix.Kill(lastPID, unix.SIGCONT))
	}
	assert.Less(r, held, faultDeadline+faultGrace)
	r.check(err, want, f.orNone)
	if f.named && assert.ErrorContains(r, err, fmt.Sprintf("rank %d", r.comm.Size()-1)) {
		var c *mpiguard.CollectiveError
		if assert.ErrorAs(r, err, &c) {
			assert.Equal(r, r.comm.Size()-1, c.Rank)
		}
	}
	if _, same := r.comm.(mpiguard.SharedProcess); same && errors.Is(err, mpiguard.ErrBroken) && !r.isLast() {
		assert.ErrorContains(r, err, fmt.Sprintf("rank %d", r.comm.Size()-1), "in process it is known who is missing")
	}
	if f.early {
		if r.guard != nil {
			r.guard.Close()
		}
		return held
	}
	if len(want) == 0 && len(f.again) > 0 && !f.orNone {
		return held // it has no error, as it did not take part
	}
	start = time.Now()
	_, next := r.guard.Pulse(context.Background())
	r.check(next, f.again, f.orNone && r.isLast())
	atMost := faultDeadline + faultGrace
	if errors.Is(err, mpiguard.ErrBroken) {
		assert.ErrorContains(r, next, rootCause(err).Error(), "the first cause")
		atMost = faultDeadline / 2 // at once
	}
	assert.Less(r, time.Since(start), atMost)
	return held
}

func rootCause(err error) error {
	var b *mpiguard.BrokenError
	if errors.As(err, &b) {
		return b.Cause
	}
	return err
}

func (r *faultyRank) check(err error, want []error, orNone bool) {
	if len(want) == 0 {
		assert.NoError(r, err)
		return
	}
	if orNone && err == nil {
		return
	}
	var c *mpiguard.CollectiveError
	assert.ErrorAs(r, err, &c)
	for _, w := range want {
		assert.ErrorIs(r, err, w)
	}
	if !slices.Contains(want, mpiguard.ErrBroken) {
		assert.NotErrorIs(r, err, mpiguard.ErrBroken)
	}
}

// What befalls the last rank.

type contextFunc func() (context.Context, context.CancelFunc)

func done() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

func expired() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.Background(), time.Now())
}

func doneSoon() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(faultLate/4, cancel)
	return ctx, cancel
}

func expiresSoon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), faultLate/4)
}

func surveyWith(f contextFunc) func(*faultyRank) error {
	return func(r *faultyRank) error {
		ctx, cancel := f()
		defer cancel()
		return r.survey(ctx)
	}
}

func newWith(f contextFunc) func(*faultyRank) error {
	return func(r *faultyRank) error {
		ctx, cancel := f()
		defer cancel()
		return r.new(ctx)
	}
}

// stayAway stays away until the others have given up.
func stayAway(*faultyRank) error {
	time.Sleep(faultDeadline + faultGrace)
	return nil
}

func closeAndSurvey(r *faultyRank) error {
	assert.NoError(r, r.guard.Close())
	return r.survey(context.Background())
}

func closeAndStayAway(r *faultyRank) error {
	assert.NoError(r, r.guard.Close())
	return stayAway(r)
}

func concurrent(r *faultyRank) error {
	second := make(chan error)
	go func() {
		time.Sleep(faultLate / 2)
		_, err := r.guard.Pulse(context.Background())
		second <- err
	}()
	err := r.survey(context.Background())
	assert.Equal(r, &mpiguard.CollectiveError{Op: "pulse", Rank: r.comm.Rank(), Err: mpiguard.ErrConcurrent}, <-second)
	return err
}

func inSurvey(fate func(*faultyRank) error) func(*faultyRank) error {
	return func(r *faultyRank) error {
		go func() {
			time.Sleep(faultLate / 4)
			_ = fate(r)
		}()
		return r.survey(context.Background())
	}
}

var errLeft = errors.New("the rank leaves")

func leave(*faultyRank) error  { panic(errLeft) } // which faultyWorld makes a return of
func panics(*faultyRank) error { panic("a fault for the test") }
func exits(*faultyRank) error  { os.Exit(0); return nil }
func killed(*faultyRank) error { return unix.Kill(os.Getpid(), unix.SIGKILL) }

// panicsAlone panics where nothing recovers.
func panicsAlone(r *faultyRank) error {
	go func() { _ = panics(r) }()
	select {}
}

func stopped(r *faultyRank) error {
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		return err
	}
	return r.survey(context.Background())
}

// goroutinesReturnTo waits for goroutines that are about to end.
func goroutinesReturnTo(before int) (now int) {
	for range 100 {
		if now = runtime.NumGoroutine(); now <= before {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return now
}

func TestFaultsInProcess(t *testing.T) {
	for name, f := range faults {
		if f.place == underMPI {
			continue
		}
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			held := make([]time.Duration, faultRanks)
			told := make([]bool, faultRanks)
			err := inproc.Run(faultRanks, func(c mpiguard.Messenger) error {
				r := &faultyRank{comm: c}
				defer func() {
					for _, s := range r.complaints {
						t.Errorf("rank %d: %s", c.Rank(), s)
					}
					if p := recover(); p != nil && p != error(errLeft) {
						panic(p)
					}
				}()
				held[c.Rank()] = r.run(f)
				told[c.Rank()] = true
				return nil
			})
			if f.gone && strings.HasPrefix(name, "panics") {
				require.ErrorContains(t, err, "rank 2: panic: a fault for the test")
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, []bool{true, true, !f.gone}, told)
			assert.LessOrEqual(t, goroutinesReturnTo(before), before, "goroutines")
			t.Logf("held up for %v", slices.Max(held[:faultRanks-1]).Round(time.Millisecond))
		})
	}
}

// Of several ranks that cannot take part, all name the lowest, and its reason.
func TestLowestRankIsNamed(t *testing.T) {
	contexts := []contextFunc{nil, done, expired}
	require.NoError(t, inproc.Run(len(contexts), func(c mpiguard.Messenger) error {
		g, err := mpiguard.New(context.Background(), c, mpiguard.Config{})
		if err != nil {
			return err
		}
		defer g.Close()
		with := func(f contextFunc, call func(context.Context) error) error {
			if f == nil {
				return call(context.Background())
			}
			ctx, cancel := f()
			defer cancel()
			return call(ctx)
		}
		survey := func(ctx context.Context) error { _, err := g.Survey(ctx); return err }
		pulse := func(ctx context.Context) error { _, err := g.Pulse(ctx); return err }
		more := func(ctx context.Context) error { _, err := g.AnyMore(ctx, true); return err }
		want := &mpiguard.CollectiveError{Op: "survey", Rank: 1, Err: context.Canceled}
		assert.Equal(t, want, with(contexts[c.Rank()], survey))
		contexts := []contextFunc{nil, done, done}
		want.Op = "pulse"
		assert.Equal(t, want, with(contexts[c.Rank()], pulse))
		want.Op = "any more"
		assert.Equal(t, want, with(contexts[c.Rank()], more))
		return nil
	}))
}

// Configurations that differ are an error on all ranks.
func TestMismatchInProcess(t *testing.T) {
	require.NoError(t, inproc.Run(faultRanks, func(c mpiguard.Messenger) error {
		var cfg mpiguard.Config
		if c.Rank() == 1 {
			cfg.KeepFree = 0.1
		}
		_, err := mpiguard.New(context.Background(), c, cfg)
		assert.ErrorIs(t, err, mpiguard.ErrConfigMismatch)
		assert.ErrorContains(t, err, "rank 1")
		return nil
	}))
}
