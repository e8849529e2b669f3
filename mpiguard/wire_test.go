package mpiguard

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// roundTrip writes v and reads it back, and checks that the row has the size
// that is announced for it.
func roundTrip[T any](t *testing.T, v T, n int, code func(*T, *coder)) {
	t.Helper()
	enc := coder{buf: make([]byte, n)}
	code(&v, &enc)
	assert.Equal(t, n, enc.off, "length of the row")
	var got T
	code(&got, &coder{buf: enc.buf, decode: true})
	assert.Equal(t, v, got)
}

func TestRowsRoundTrip(t *testing.T) {
	roundTrip(t, peer{1, 2, 3, 4, 5, "node17", steering{1, 2, 3, 4, 5, 6, 7, 8, 9}}, peerRowBytes, (*peer).code)
	roundTrip(t, failure{"MPIGUARD_LIMIT=lots: no number"}, failureBytes, (*failure).code)
	roundTrip(t, scopeRow{7, 8, 9, 10, [maxConstraints]scopeEntry{{1, UnlimitedBytes, UnknownBytes}, {2, 3, 4}}},
		scopeRowBytes, (*scopeRow).code)
	roundTrip(t, usageRow{High, -5, 6, UnknownBytes, "cgroup v2 memory.max /job", Usage{
		At: time.Unix(0, 1234567890), Interval: time.Second, AnonBytes: 1, ShmemBytes: 2, FileBytes: 3, PeakBytes: 4,
		GoBytes: 5, NonGoBytes: 6, ReservedBytes: 7, UntouchedBytes: 8, UnaccountedBytes: 9}},
		usageRowBytes, (*usageRow).code)
}

// Of a text that is too long the end is kept, and what was cut off is marked.
func TestTextThatIsTooLong(t *testing.T) {
	for _, n := range []int{8, 64, 256} {
		s := strings.Repeat("ü", 200) + "/end"
		c := coder{buf: make([]byte, n)}
		c.text(&s, n)
		var got string
		c = coder{buf: c.buf, decode: true}
		c.text(&got, n)
		assert.LessOrEqual(t, len(got), n-1)
		assert.True(t, strings.HasPrefix(got, "…") && strings.HasSuffix(got, "/end"), "%q", got)
	}
}

func TestPulseWords(t *testing.T) {
	rows := []struct {
		v        vote
		level    Level
		headroom int64
	}{{voteYes, Elevated, 500}, {voteYes, High, 900}, {voteDeadline, High, UnlimitedBytes}, {voteDeadline, Normal, 40}, {voteCanceled, Normal, 90}}
	var words [3]uint64
	for rank, r := range rows {
		for i, w := range pulseWords(rank, r.v, r.level, r.headroom) {
			words[i] = max(words[i], w)
		}
	}
	p, v, voter := readPulse(words)
	assert.Equal(t, Pulse{Level: High, Rank: 1, HeadroomBytes: 40}, p)
	assert.Equal(t, voteDeadline, v)
	assert.Equal(t, 2, voter)

	p, _, _ = readPulse(pulseWords(5, voteYes, Normal, UnlimitedBytes))
	assert.Equal(t, Pulse{Level: Normal, Rank: 5, HeadroomBytes: UnlimitedBytes}, p)
	p, _, _ = readPulse(pulseWords(5, voteYes, Critical, -7))
	assert.Zero(t, p.HeadroomBytes, "below nothing is nothing")
}
