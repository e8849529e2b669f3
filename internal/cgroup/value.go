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

// Events are what a group has met since it was made.
type Events struct {
	High    int64 // times processes were throttled at memory.high (version 2)
	Max     int64 // times the usage was about to pass the hard limit
	OOMKill int64 // processes killed by the kernel for memory
}

// ParseEvents parses memory.events or memory.events.local of version 2, or
// memory.oom_control of version 1. Unknown keys are passed over: kernels add some.
func ParseEvents(text []byte) Events {
	var e Events
	for len(text) > 0 {
		var key []byte
		var n int64
		var ok bool
		if key, n, text, ok = keyValue(text); !ok {
			continue
		}
		switch string(key) {
		case "high":
			e.High = n
		case "max":
			e.Max = n
		case "oom_kill":
			e.OOMKill = n
		}
	}
	return e
}
