package chunk

import (
	"math"
	"math/bits"

	"github.com/mpiguard/mpiguard/internal/level"
)

const (
	// unknownCost is what a byte costs until it was measured: the buffer, and
	// three times as much for what the program makes of it.
	unknownCost = 4
	// A chunk that grows takes at most this part of the headroom.
	headroomPart = 0.75
	// So many steps without pressure come before a larger size, which are also the
	// steps in which the memory of a new size is learned.
	calmSteps = 16
	// When the memory of a size is known, one step in so many looks at it again.
	rareSteps = 8

	unknownBytes = -1
)

// limits are the bounds of a size.
type limits struct{ min, max int64 }

func (l limits) clamp(n int64) int64 { return min(max(n, l.min), l.max) }

func (l limits) start() state { return state{bytes: l.clamp(startBytes), baseBytes: unknownBytes} }

// readings are what a step looks at.
type readings struct {
	headroomBytes int64 // as of the last sample of the account, which may be a while ago
	level         level.Level
	usedBytes     int64 // private memory of the process now, or unknownBytes
}

// state is a size and what is known.
type state struct {
	bytes int64
	calm  int // steps in a row in which the size could have been larger
	held  int // steps with this size

	cutAtBytes int64 // the headroom at the last cut while the level is high, or 0

	// What was learned of the memory of the process; baseBytes is unknownBytes until
	// it was read for the first time.
	baseBytes    int64   // of the program without chunks
	usedBytes    int64   // at the last reading
	highBytes    int64   // the most so far
	cost         float64 // memory for each byte of a chunk, 0 when unknown
	largestBytes int64   // the largest size that cost was learned from

	sampleBytes  int64 // the headroom that was read last
	usedAtSample int64 // and the memory when it was first read so
}

// wantsUsed reports whether the next step shall be given usedBytes.
func (s state) wantsUsed() bool { return s.held <= calmSteps || s.held%rareSteps == 0 }

// next is one step: a pure function of what was and what is read.
func (s state) next(in readings, l limits) state {
	s.learn(in)
	if in.level < level.High {
		s.cutAtBytes = 0
	}
	room := s.room()
	s.held++
	switch {
	case in.level >= level.Critical:
		return s.resized(l.min)
	case in.level >= level.High && s.cuts(in):
		return s.resized(l.clamp(quarter(min(s.bytes/2, room))))
	case room < s.bytes:
		return s.resized(l.clamp(quarter(room)))
	case in.level > level.Normal || room/5*4 < s.bytes || s.bytes == l.max:
		s.calm = 0
		return s
	case s.calm+1 < calmSteps:
		s.calm++
		return s
	default:
		return s.resized(l.clamp(quarter(min(room, s.bytes+s.bytes/2))))
	}
}

// cuts reports whether a high level is a reason to take less than now: it is when
// it begins, and again when less is left than there was at the last cut. What a cut
// brings takes time to be seen, and would not be waited for otherwise.
func (s *state) cuts(in readings) bool {
	if s.cutAtBytes != 0 && in.headroomBytes >= s.cutAtBytes-s.cutAtBytes/16 {
		return false
	}
	s.cutAtBytes = max(in.headroomBytes, 1)
	return true
}

// resized is s with another size.
func (s state) resized(bytes int64) state {
	s.calm = 0
	if bytes != s.bytes {
		s.bytes, s.held = bytes, 0
	}
	return s
}

// learn takes in what the chunk before this step has done to the memory.
func (s *state) learn(in readings) {
	used := in.usedBytes
	if used < 0 {
		used = s.usedBytes
	}
	if in.headroomBytes != s.sampleBytes {
		s.sampleBytes, s.usedAtSample = in.headroomBytes, used
	}
	if in.usedBytes < 0 {
		return
	}
	s.usedBytes = used
	switch {
	case s.baseBytes < 0: // before the first chunk
		s.baseBytes, s.highBytes, s.usedAtSample = used, used, used
	case used < s.baseBytes:
		s.baseBytes = used
		s.highBytes = used
	case used > s.highBytes:
		growth := used - s.highBytes
		s.highBytes = used
		if s.held > calmSteps || s.bytes < s.largestBytes {
			s.baseBytes += growth
		}
	}
	if s.held > 0 && s.held <= calmSteps && s.bytes >= s.largestBytes {
		s.largestBytes = s.bytes
		s.cost = float64(s.highBytes-s.baseBytes) / float64(s.bytes)
	}
}

// room is the largest size that fits into memory.
func (s *state) room() int64 {
	headroom := max(s.sampleBytes, 0)
	cost := max(s.cost, 1)
	held := s.bytes
	if s.cost == 0 {
		cost = unknownCost
	}
	if s.baseBytes >= 0 {
		held = s.usedBytes - s.baseBytes
		// What was taken since the headroom was sampled is not there any more.
		headroom = max(headroom-max(s.usedBytes-s.usedAtSample, 0), 0)
	}
	room := (headroomPart*float64(headroom) + float64(held)) / cost
	if room >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(room)
}

// quarter rounds n down to 4, 5, 6 or 7 quarters of a power of two.
func quarter(n int64) int64 {
	if n < 4 {
		return max(n, 0)
	}
	shift := bits.Len64(uint64(n)) - 3
	return n >> shift << shift
}
