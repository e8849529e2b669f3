package mpiguard

import (
	"math"
	"time"
)

// growth estimates when a constraint will be reached if its use goes on as of
// late, from the room that is left at each sample.
type growth struct {
	id        uint64 // the constraint that the figures belong to
	at        time.Time
	roomBytes int64
	rate      float64 // bytes a second by which the room shrinks, smoothed
}

// growthMemory is how far back the rate looks. A burst of a few milliseconds, such
// as a pool that is touched, hardly moves it.
const growthMemory = 200 * time.Millisecond

// observe takes in the room that is left of a constraint at a moment.
func (g *growth) observe(now time.Time, id uint64, roomBytes int64) {
	if dt := now.Sub(g.at); g.id == id && dt > 0 {
		rate := float64(g.roomBytes-roomBytes) / dt.Seconds()
		weight := 1 - math.Exp(-float64(dt)/float64(growthMemory))
		g.rate += weight * (rate - g.rate)
	} else if g.id != id {
		g.rate = 0
	}
	g.id, g.at, g.roomBytes = id, now, roomBytes
}

// left is the time until nothing is left at the present rate.
func (g *growth) left() time.Duration {
	if g.rate <= 0 {
		return math.MaxInt64
	}
	s := float64(max(g.roomBytes, 0)) / g.rate
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}

// Times to the limit at which a level is due although the use is still low: a
// callback, a spill or a round of reclaim takes a part of a second.
const (
	elevatedTime = time.Second
	highTime     = 250 * time.Millisecond
)

// level is the level that the time to the limit calls for.
func (g *growth) level() Level {
	switch left := g.left(); {
	case left < highTime:
		return High
	case left < elevatedTime:
		return Elevated
	}
	return Normal
}
