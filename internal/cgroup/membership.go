package cgroup

import (
	"bytes"
	"slices"
	"strings"
)

// Membership says in which group of the hierarchy that owns the memory
// controller a process is.
type Membership struct {
	// Version is 1 or 2, or 0 when the process is in no such hierarchy.
	Version int
	// Path is the group as the reader's cgroup namespace shows it. The kernel
	// escapes nothing in it.
	Path string
	// Hybrid: memory is a controller of version 1, and version 2 is there too.
	Hybrid bool
}

// maxPathBytes bounds a group's path, as the kernel bounds the path of a file.
const maxPathBytes = 4096

// ParseMembership parses /proc/PID/cgroup, described in cgroups(7). A controller
// is in one hierarchy at a time: where a version 1 hierarchy has memory, the
// version 2 hierarchy beside it does not.
func ParseMembership(text []byte) Membership {
	var v1, v2 string
	var inV1, inV2 bool
	for line := range bytes.Lines(text) {
		// ID:CONTROLLERS:PATH, where the path may hold colons of its own.
		id, rest, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 || !strings.HasPrefix(path, "/") || len(path) > maxPathBytes {
			continue
		}
		switch {
		case hasToken(controllers, "memory"):
			v1, inV1 = path, true
		case id == "0" && controllers == "":
			v2, inV2 = path, true
		}
	}
	switch {
	case inV1:
		return Membership{Version: 1, Path: v1, Hybrid: inV2}
	case inV2:
		return Membership{Version: 2, Path: v2}
	}
	return Membership{}
}

// hasToken reports whether a list such as "rw,cpuset,memory" has the token.
func hasToken(list, token string) bool {
	return slices.Contains(strings.Split(list, ","), token)
}
