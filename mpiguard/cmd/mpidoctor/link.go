package main

import (
	"context"
	"math"
	"time"

	"github.com/mpiguard/mpiguard/internal/doctor"
)

// How a link is measured.
const (
	pings     = 100 // short messages
	longTries = 10  // of each length
	minTries  = 3
	tryTime   = 200 * time.Millisecond // after which there are no more
	minBytes  = 64 << 10               // of long messages, which double
	maxBytes  = 4 << 20
	longTime  = 20 * time.Millisecond // until they take that long
)

// link measures the way to rank peer, which must answer. It is blocked if that
// takes too long.
func (e *exam) link(peer int) doctor.Link {
	ctx, cancel := within(e.patience())
	defer cancel()
	var l doctor.Link
	buf := make([]byte, maxBytes)
	short, err := e.shortest(ctx, buf[:1], peer, pings)
	if err != nil {
		return doctor.Link{Blocked: true}
	}
	l.LatencySeconds = short.Seconds() / 2
	for n := minBytes; n <= maxBytes; n *= 2 {
		long, err := e.shortest(ctx, buf[:n], peer, longTries)
		if err != nil {
			return doctor.Link{Blocked: true}
		}
		transfer := max(long-short, long/10) // what length adds to the latency
		l.BytesPerSecond = 2 * float64(n) / transfer.Seconds()
		if transfer >= longTime {
			break
		}
	}
	if e.sendBytes(ctx, nil, peer, tagPing) != nil { // the end
		return doctor.Link{Blocked: true}
	}
	return l
}

// shortest is the shortest of up to tries round trips, fewer where they take long.
func (e *exam) shortest(ctx context.Context, buf []byte, peer, tries int) (time.Duration, error) {
	shortest := time.Duration(math.MaxInt64)
	for i, start := 0, time.Now(); i < tries && (i < minTries || time.Since(start) < tryTime); i++ {
		t, err := e.roundTrip(ctx, buf, peer)
		if err != nil {
			return 0, err
		}
		shortest = min(shortest, t)
	}
	return shortest, nil
}

// roundTrip is how long a message takes to rank peer and back.
func (e *exam) roundTrip(ctx context.Context, buf []byte, peer int) (time.Duration, error) {
	start := time.Now()
	if err := e.sendBytes(ctx, buf, peer, tagPing); err != nil {
		return 0, err
	}
	_, err := e.receiveBytes(ctx, buf, peer, tagPong)
	return time.Since(start), err
}

// answer sends back what comes from rank peer, until it sends nothing, or nothing
// more.
func (e *exam) answer(peer int) {
	ctx, cancel := within(e.patience() + e.slack()/2) // rank 0 waits a little longer
	defer cancel()
	buf := make([]byte, maxBytes)
	for {
		m, err := e.receiveBytes(ctx, buf, peer, tagPing)
		if err != nil || m.Bytes == 0 || e.sendBytes(ctx, buf[:m.Bytes], peer, tagPong) != nil {
			return
		}
	}
}
