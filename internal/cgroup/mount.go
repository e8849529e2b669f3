package cgroup

import (
	"bytes"
	"path"
	"strings"
)

// Mount is a place where the hierarchy that owns memory can be seen.
type Mount struct {
	Version int
	Root    string // the group that is mounted, within the hierarchy
	Point   string // where, without the leading slash
}

// standard are the places where every distribution mounts the hierarchies.
var standard = map[int]string{1: "sys/fs/cgroup/memory", 2: "sys/fs/cgroup"}

// below returns the place of a group within the mount, "/" for the group that is
// mounted. Not sure: the name leads out of the mount or of the namespace. In a
// container /proc may show the host's names, and the group is then likely the
// mounted one; a name that climbs may have a namesake in the mount.
func (m Mount) below(group string) (below string, sure bool) {
	rest, ok := strings.CutPrefix(group+"/", strings.TrimSuffix(m.Root, "/")+"/")
	if !ok {
		return "/", false
	}
	return path.Clean("/" + rest), !strings.HasPrefix(rest, "../")
}

// cgroupLines keeps those lines of a mountinfo file whose file system type is
// cgroup or cgroup2. Other lines may be anything (on WSL2 they hold bare spaces),
// so nothing but the type is read of them.
func cgroupLines(mountinfo []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(mountinfo) {
		// Mount points have their spaces escaped and optional fields are tags: the
		// first lone dash is the separator.
		_, rest, ok := bytes.Cut(line, []byte(" - "))
		if ok && (bytes.HasPrefix(rest, []byte("cgroup ")) || bytes.HasPrefix(rest, []byte("cgroup2 "))) {
			kept = append(kept, line...)
		}
	}
	return kept
}
