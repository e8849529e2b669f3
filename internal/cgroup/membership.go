package cgroup

import "bytes"

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
	var v1, v2 []byte
	for line := range bytes.Lines(text) {
		// ID:CONTROLLERS:PATH, where the path may hold colons of its own.
		id, rest, _ := bytes.Cut(bytes.TrimSuffix(line, newline), colon)
		controllers, path, ok := bytes.Cut(rest, colon)
		if !ok || len(path) == 0 || path[0] != '/' || len(path) > maxPathBytes {
			continue
		}
		switch {
		case hasToken(controllers, "memory"):
			v1 = path
		case string(id) == "0" && len(controllers) == 0:
			v2 = path
		}
	}
	switch {
	case v1 != nil:
		return Membership{Version: 1, Path: string(v1), Hybrid: v2 != nil}
	case v2 != nil:
		return Membership{Version: 2, Path: string(v2)}
	}
	return Membership{}
}

var colon, comma, newline = []byte(":"), []byte(","), []byte("\n")

// hasToken reports whether a list such as "rw,cpuset,memory" has the token.
func hasToken(list []byte, token string) bool {
	for len(list) > 0 {
		var first []byte
		if first, list, _ = bytes.Cut(list, comma); string(first) == token {
			return true
		}
	}
	return false
}
