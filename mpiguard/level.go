package mpiguard

import "github.com/mpiguard/mpiguard/internal/level"

// Level is the memory pressure of a rank, or the worst of several ranks.
type Level = level.Level

// The levels, in rising order of pressure.
const (
	Normal   = level.Normal   // plenty of headroom
	Elevated = level.Elevated // stop growing: caches and chunks keep their size
	High     = level.High     // give back what can be given back
	Critical = level.Critical // the next allocation may be the last: spill, wait or stop
)
