// Package level holds the pressure level that mpiguard, chunk and bufpool name
// alike. Programs use it as mpiguard.Level.
package level

import "fmt"

// Level is the memory pressure of a rank, or the worst of several ranks.
type Level uint8

// The levels, in rising order of pressure.
const (
	Normal   Level = iota // plenty of headroom
	Elevated              // stop growing: caches and chunks keep their size
	High                  // give back what can be given back
	Critical              // the next allocation may be the last: spill, wait or stop
)

var names = [...]string{"normal", "elevated", "high", "critical"}

// String returns the lower-case name of the level.
func (l Level) String() string {
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// MarshalText returns the name of the level.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets the level from its name.
func (l *Level) UnmarshalText(text []byte) error {
	for i, n := range names {
		if n == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("level: unknown level %q", text)
}
