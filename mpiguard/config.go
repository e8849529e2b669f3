package mpiguard

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mpiguard/mpiguard/internal/size"
)

// Config adjusts a Guard. The zero value of every field is its default. A
// variable of the environment, where it is set and not empty, overrides the
// field; junk in one is an error of New that names it.
//
// LimitBytes, the fields of the record, KeepGoLimit and Logger may differ between ranks; all else must be equal on
// all ranks, or New returns ErrConfigMismatch on each.
type Config struct {
	// LimitBytes is a limit for all ranks of the job on one node together, in
	// bytes; 0 is none. It can lower the budget, never raise it. MPIGUARD_LIMIT,
	// a size such as 64GiB or 500MB.
	LimitBytes int64
	// KeepFree is the fraction of each limit that is kept free, in (0, 1); the
	// amount is at least 8 MiB and 512 KiB for each CPU, and at most 2 GiB. The
	// default is 0.08. MPIGUARD_KEEP_FREE.
	KeepFree float64
	// ElevatedAt, HighAt and CriticalAt are the fractions of what may be used (a
	// limit less what is kept free) from which on the level is at least that one,
	// in rising order in (0, 1]. The defaults are 0.70, 0.85 and 0.95.
	// MPIGUARD_ELEVATED_AT, MPIGUARD_HIGH_AT, MPIGUARD_CRITICAL_AT.
	ElevatedAt, HighAt, CriticalAt float64
	// ReleaseAfter is how long the usage must have stayed clearly below a level
	// before the level falls; it rises at once. The default is one second.
	// MPIGUARD_RELEASE_AFTER, a duration such as 500ms.
	ReleaseAfter time.Duration
	// ExhaustedAfter is how long the level must have been Critical, with nothing
	// that can be reduced, before the functions given to Checkpoint run. The default
	// is 5 seconds. MPIGUARD_EXHAUSTED_AFTER.
	ExhaustedAfter time.Duration
	// AbortCode, unless it is 0, ends the whole job with this exit code once the
	// memory of a rank is exhausted and its checkpoint functions have run: in the next
	// Pulse the lowest such rank writes one message to Logger, or to
	// standard error without one, and calls Abort of its communicator. 75, "try
	// again later" in sysexits.h, tells such an end from others. MPIGUARD_ABORT_CODE.
	AbortCode int
	// CollectiveTimeout bounds the wait of each collective, also where its ctx
	// has no deadline. The default is 5 minutes. MPIGUARD_COLLECTIVE_TIMEOUT.
	CollectiveTimeout time.Duration
	// RecordDir is a directory of the user in which each rank keeps a record of fixed
	// size, 1 MiB, of its samples, levels and reservations, from which mpiguard report
	// tells what happened even after signal 9; "" records nothing. MPIGUARD_RECORD.
	RecordDir string
	// RecordCrash has the text of a Go crash written into the record too, by
	// debug.SetCrashOutput, of which a process has one. MPIGUARD_RECORD_CRASH.
	RecordCrash bool
	// InputBytes says how much the run works on. It goes into the record, where
	// mpiguard recommend compares runs by it. MPIGUARD_INPUT, a size.
	InputBytes int64
	// KeepGoLimit leaves the memory limit of the Go runtime alone. Else, while
	// GOMEMLIMIT is not set in the environment, the guard keeps it at what the
	// budget leaves for the Go heap, and restores it in Close. MPIGUARD_KEEP_GO_LIMIT,
	// true or false.
	KeepGoLimit bool
	// Logger receives what is worth telling; nil is silent. MPIGUARD_LOG, one of
	// debug, info, warn and error, logs to standard error from that level on.
	Logger *slog.Logger

	machine  Machine // whose limits are read; tests replace it
	noLedger bool    // tests: as where processes cannot share memory
}

const maxEnvBytes = 4096 // longer values are junk whatever they say

// effective returns the configuration with defaults and the variables of
// environ filled in, or an error that names the field or variable at fault.
func (c Config) effective(environ []string) (Config, error) {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(k, "MPIGUARD_") && v != "" {
			env[k] = v
		}
	}
	var err error
	fromEnv(env, &err, "MPIGUARD_LIMIT", &c.LimitBytes, size.Parse)
	fraction := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
	fromEnv(env, &err, "MPIGUARD_KEEP_FREE", &c.KeepFree, fraction)
	fromEnv(env, &err, "MPIGUARD_ELEVATED_AT", &c.ElevatedAt, fraction)
	fromEnv(env, &err, "MPIGUARD_HIGH_AT", &c.HighAt, fraction)
	fromEnv(env, &err, "MPIGUARD_CRITICAL_AT", &c.CriticalAt, fraction)
	fromEnv(env, &err, "MPIGUARD_RELEASE_AFTER", &c.ReleaseAfter, time.ParseDuration)
	fromEnv(env, &err, "MPIGUARD_EXHAUSTED_AFTER", &c.ExhaustedAfter, time.ParseDuration)
	fromEnv(env, &err, "MPIGUARD_ABORT_CODE", &c.AbortCode, strconv.Atoi)
	fromEnv(env, &err, "MPIGUARD_COLLECTIVE_TIMEOUT", &c.CollectiveTimeout, time.ParseDuration)
	fromEnv(env, &err, "MPIGUARD_RECORD", &c.RecordDir, func(s string) (string, error) { return s, nil })
	fromEnv(env, &err, "MPIGUARD_RECORD_CRASH", &c.RecordCrash, strconv.ParseBool)
	fromEnv(env, &err, "MPIGUARD_INPUT", &c.InputBytes, size.Parse)
	fromEnv(env, &err, "MPIGUARD_KEEP_GO_LIMIT", &c.KeepGoLimit, strconv.ParseBool)
	fromEnv(env, &err, "MPIGUARD_LOG", &c.Logger, stderrLogger)
	if err != nil {
		return c, err
	}

	c.KeepFree = cmp.Or(c.KeepFree, defaultKeepFree)
	c.ElevatedAt = cmp.Or(c.ElevatedAt, 0.70)
	c.HighAt = cmp.Or(c.HighAt, 0.85)
	c.CriticalAt = cmp.Or(c.CriticalAt, 0.95)
	c.ReleaseAfter = cmp.Or(c.ReleaseAfter, time.Second)
	c.ExhaustedAfter = cmp.Or(c.ExhaustedAfter, 5*time.Second)
	c.CollectiveTimeout = cmp.Or(c.CollectiveTimeout, 5*time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.LimitBytes < 0:
		return c, fmt.Errorf("Config.LimitBytes is %d, want 0 or more", c.LimitBytes)
	case c.InputBytes < 0:
		return c, fmt.Errorf("Config.InputBytes is %d, want 0 or more", c.InputBytes)
	case !(c.KeepFree > 0 && c.KeepFree < 1):
		return c, fmt.Errorf("Config.KeepFree is %g, want a fraction above 0 and below 1", c.KeepFree)
	case !(0 < c.ElevatedAt && c.ElevatedAt < c.HighAt && c.HighAt < c.CriticalAt && c.CriticalAt <= 1):
		return c, fmt.Errorf("Config.ElevatedAt, HighAt, CriticalAt are %g, %g, %g, want rising fractions in (0, 1]",
			c.ElevatedAt, c.HighAt, c.CriticalAt)
	case c.ReleaseAfter < 0:
		return c, fmt.Errorf("Config.ReleaseAfter is %v, want 0 or more", c.ReleaseAfter)
	case c.ExhaustedAfter < 0:
		return c, fmt.Errorf("Config.ExhaustedAfter is %v, want 0 or more", c.ExhaustedAfter)
	case c.AbortCode < 0 || c.AbortCode > 255:
		return c, fmt.Errorf("Config.AbortCode is %d, want 0 to 255", c.AbortCode)
	case c.CollectiveTimeout < 0:
		return c, fmt.Errorf("Config.CollectiveTimeout is %v, want 0 or more", c.CollectiveTimeout)
	}
	return c, nil
}

// environ is the environment that configures a guard on the machine.
func (m Machine) environ() []string {
	if m.Environ != nil {
		return m.Environ
	}
	return os.Environ()
}

// fromEnv sets *field from the variable, where there is one; the first error
// is kept.
func fromEnv[T any](env map[string]string, err *error, name string, field *T, parse func(string) (T, error)) {
	s, ok := env[name]
	if !ok || *err != nil {
		return
	}
	if len(s) > maxEnvBytes {
		*err = fmt.Errorf("%s has %d characters, want at most %d", name, len(s), maxEnvBytes)
		return
	}
	v, e := parse(s)
	if e != nil {
		*err = fmt.Errorf("%s=%q: %w", name, s, e)
		return
	}
	*field = v
}

func stderrLogger(s string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
