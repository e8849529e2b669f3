package mpiguard

import "time"

// ladder turns a pressure, the fraction of what may be used that is used, into a
// level with hysteresis: the level rises at once, and falls only after the
// pressure has stayed a margin below the level's threshold for a while. One
// noisy sample therefore neither lowers a level nor makes it flap.
type ladder struct {
	at           [Critical + 1]float64 // lowest pressure of each level; at[Normal] is 0
	releaseAfter time.Duration

	level Level
	below [Critical + 1]time.Time // since when the pressure is below the level's release point; zero: it is not
}

// releaseMargin is how far the pressure must fall below the threshold of a
// level. It is wider than the error of the kernel's counters, which are batched
// per CPU, on limits of 64 MiB and more.
const releaseMargin = 0.05

func newLadder(c Config) ladder {
	return ladder{at: [...]float64{0, c.ElevatedAt, c.HighAt, c.CriticalAt}, releaseAfter: c.ReleaseAfter}
}

// observe takes in the pressure at a moment and reports whether the level changed.
func (l *ladder) observe(now time.Time, pressure float64) (changed bool) {
	old := l.level
	for k := Elevated; k <= Critical; k++ {
		switch {
		case pressure >= l.at[k]-releaseMargin:
			l.below[k] = time.Time{}
		case l.below[k].IsZero():
			l.below[k] = now
		}
		if pressure >= l.at[k] {
			l.level = max(l.level, k)
		}
	}
	for l.level > Normal && !l.below[l.level].IsZero() && now.Sub(l.below[l.level]) >= l.releaseAfter {
		l.level--
	}
	return l.level != old
}
