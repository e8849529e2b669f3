package cgroup

import (
	"bytes"
	"fmt"
)

// noLimit is where numbers stop being limits. Version 1 says "unlimited" with
// the largest multiple of the page size below 2^63, which other tools round.
const noLimit = 1 << 62

// ParseLimit parses the file of a limit: a number of bytes, or the word max,
// which is UnlimitedBytes like every number from 2^62.
func ParseLimit(text []byte) (int64, error) {
	text = bytes.TrimSpace(text)
	if string(text) == "max" {
		return UnlimitedBytes, nil
	}
	n, ok := parseUint(text)
	switch {
	case !ok:
		return UnknownBytes, fmt.Errorf("cannot parse limit %.40q", text)
	case n >= noLimit:
		return UnlimitedBytes, nil
	}
	return int64(n), nil
}

// parseUsage parses the file of a usage. It does not allocate.
func parseUsage(text []byte) (int64, bool) {
	n, ok := parseUint(bytes.TrimSpace(text))
	return int64(min(n, maxRowBytes)), ok
}

// ParseEvents takes two counts out of memory.events or memory.events.local
// (version 2) or memory.oom_control (version 1): how often processes were
// throttled at memory.high, and how many were killed. Other keys are passed over,
// kernels add some; a count that is missing is 0. It does not allocate.
func ParseEvents(text []byte) (throttled, killed int64) {
	for len(text) > 0 {
		var key []byte
		var n int64
		var ok bool
		if key, n, text, ok = keyValue(text); !ok {
			continue
		}
		switch string(key) {
		case "high":
			throttled = n
		case "oom_kill":
			killed = n
		}
	}
	return throttled, killed
}
