package mpiguard

import (
	"fmt"
	"time"
)

// cause is what decided about the pressure.
type cause int

const (
	causeUse       cause = iota // of a constraint so much is used
	causeGrowth                 // at the present rate its limit is near in time
	causeCollector              // what suffices does so only with all time spent in the collector
	causeThrottled              // the kernel throttles at a soft limit
	causeKilled                 // the kernel has killed a process of a group that we are in
	causeLimits                 // the limits are not what they were
)

// pressure fuses what was measured into one figure: that of the constraint of
// which the most is used, raised where that alone would be too late. worst is that
// constraint, -1 where nothing limits.
func (p *process) pressure(now time.Time, d depth) (pressure float64, why cause, worst int) {
	b := p.budget.Load()
	room := UnlimitedBytes
	worst = -1
	for i := range b.Constraints {
		if v, ok := p.view(b, i); ok && v.pressure > pressure {
			pressure, worst, room = v.pressure, i, v.roomBytes
		}
	}
	if worst < 0 {
		return 0, causeUse, worst
	}
	if d >= fresh || pressure >= farFromLimit { // else the use is an upper bound, whose changes mean nothing
		p.growth.observe(now, b.Constraints[worst].id, room)
	}
	raise := func(when bool, l Level, c cause) {
		if at := p.ladder.at[l]; when && pressure < at {
			pressure, why = at, c
		}
	}
	raise(true, p.growth.level(), causeGrowth)
	raise(p.spirals, High, causeCollector)
	raise(now.Sub(p.throttledAt) < refreshEvery, High, causeThrottled)
	raise(now.Sub(p.killedAt) < refreshEvery, Critical, causeKilled)
	return pressure, why, worst
}

// reason says for people what decided about the pressure.
func (p *process) reason(why cause, worst int) string {
	text := "nothing limits this process"
	if worst >= 0 {
		text = p.describe(worst)
	}
	switch why {
	case causeGrowth:
		return fmt.Sprintf("at %s/s the limit is %v away; %s", sizeText(int64(p.growth.rate)), p.growth.left().Round(time.Millisecond), text)
	case causeCollector:
		return fmt.Sprintf("the garbage collector uses more than %.0f %% of the CPU; %s", 100*spiralShare, text)
	case causeThrottled:
		return "the kernel throttles at memory.high; " + text
	case causeKilled:
		return "the kernel killed a process of the cgroup for memory; " + text
	case causeLimits:
		return "the limits changed; " + text
	default:
		return text
	}
}

// kills is how many processes the kernel has killed for memory in the groups that
// this process is in since the guard was made, UnknownBytes where that cannot be
// read.
func (p *process) kills() int64 {
	if p.killedAtStart == UnknownBytes {
		return UnknownBytes
	}
	return max(p.killed-p.killedAtStart, 0)
}

// killed is the largest count of kills in a group of the process: that of a group
// may hold those of the groups below it.
func killed(b *Budget) int64 {
	most := UnknownBytes
	for _, c := range b.Constraints {
		if c.Scope == ScopeCgroup {
			most = max(most, c.Killed)
		}
	}
	return most
}

// throttled is how often processes were throttled at the soft limits.
func throttled(b *Budget) int64 {
	var sum int64
	for _, c := range b.Constraints {
		sum += c.Throttled
	}
	return sum
}

// view is what one constraint means for this process at a moment.
type view struct {
	roomBytes  int64   // what could be granted if nothing were promised
	shareBytes int64   // the same under the static share; UnlimitedBytes where there is none
	mostBytes  int64   // what could be granted at best
	pressure   float64 // what is used of what may be used
}

// view computes what constraint i of the budget means as of the last sample. It
// reports false for one that does not bind: an RLIMIT, which counts address
// space, one without limit, one that cannot be read.
func (p *process) view(b *Budget, i int) (view, bool) {
	c := &b.Constraints[i]
	if c.Scope == ScopeProcess || c.LimitBytes == UnlimitedBytes || c.LimitBytes == UnknownBytes {
		return view{}, false
	}
	used := max(p.used[i], 0)
	usable := max(c.LimitBytes-c.KeptFreeBytes(b.KeepFree), 1)
	v := view{usable - used, UnlimitedBytes, usable, float64(used) / float64(usable)}
	if s, ok := p.shares[c.id]; ok && p.static && s.here < s.ranks {
		v.shareBytes = s.bytes() - p.meter.last.AnonBytes
		v.mostBytes = min(v.mostBytes, s.bytes())
		if c.Scope == ScopeJob { // what the other processes use is not known
			v.pressure = float64(used) / float64(max(s.bytes(), 1))
		}
	}
	return v, true
}

// describe says what constraint i is and how it stands.
func (p *process) describe(i int) string {
	b := p.budget.Load()
	c := b.Constraints[i]
	most := ""
	if p.coarse && far(p.used[i], c.LimitBytes) {
		most = "at most "
	}
	text := fmt.Sprintf("%s: %s%s used of %s, %s kept free", c.label(), most, sizeText(p.used[i]), sizeText(c.LimitBytes),
		sizeText(c.KeptFreeBytes(b.KeepFree)))
	if s := p.shares[c.id]; p.static && s.here < s.ranks {
		text += fmt.Sprintf(", %d of %d ranks here with a share of %s", s.here, s.ranks, sizeText(s.bytes()))
	}
	return text
}
