package mpiguard

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestGrowth(t *testing.T) {
	const mib = int64(1) << 20
	var g growth
	now := time.Unix(1000, 0)
	steps := func(n int, every time.Duration, room, shrink int64) int64 {
		for range n {
			now = now.Add(every)
			room -= shrink
			g.observe(now, 7, room)
		}
		return room
	}
	room := steps(100, 10*time.Millisecond, 4096*mib, 0)
	assert.Equal(t, time.Duration(math.MaxInt64), g.left(), "it does not grow")

	room = steps(1, 10*time.Millisecond, room, 20*mib)
	assert.Equal(t, Normal, g.level(), "one burst does not count")

	room = steps(100, 10*time.Millisecond, room, 20*mib) // 2000 MiB a second, 2056 MiB are left
	assert.InDelta(t, 1.03, g.left().Seconds(), 0.1)
	assert.Equal(t, Normal, g.level())
	room = steps(40, 10*time.Millisecond, room, 20*mib)
	assert.Equal(t, Elevated, g.level())
	room = steps(45, 10*time.Millisecond, room, 20*mib)
	assert.Equal(t, High, g.level())

	steps(100, 10*time.Millisecond, room, 0)
	assert.Equal(t, Normal, g.level(), "it has stopped")

	g.observe(now.Add(time.Millisecond), 8, 1)
	assert.Equal(t, Normal, g.level(), "another constraint begins anew")
	g.observe(now.Add(time.Millisecond), 8, 0)
	assert.Equal(t, Normal, g.level(), "a moment that did not pass tells nothing")
}
