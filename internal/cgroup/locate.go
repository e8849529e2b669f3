package cgroup

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// place is a group seen through a mount.
type place struct {
	mount Mount
	below string // within the mount: "/", "/job.slice"
}

func (p place) dir() string { return path.Join(p.mount.Point, p.below) }

// locate finds the directory of the group of a process. Names alone do not
// settle it: in a container the name may be the host's while the mount is the
// container's, the host's tree may be mounted too, and a name that climbs out of
// the namespace leads nowhere. So each mount of the right version is tried, and
// where there is a choice, the group that lists the process wins.
func locate(fsys *kernfs.FS, pid int, m Membership, buf []byte, note func(string)) (place, bool) {
	if m.Version == 0 {
		return probe(fsys)
	}
	climbs := strings.HasPrefix(m.Path, "/..")
	if p := (place{Mount{m.Version, "/", standard[m.Version]}, m.Path}); m.Path != "/" && !climbs && isReal(fsys, p) {
		// Saves the reading of mountinfo, whose length is that of all mounts. Not
		// for "/", which may be a namespace's name for a group deeper in the mount.
		return p, true
	}
	mounts := visible(fsys, pid, m.Version, buf)
	if len(mounts) == 0 {
		mounts = []Mount{{m.Version, "/", standard[m.Version]}}
	}
	var best place
	bestScore := -1
	for _, mount := range mounts {
		below, sure := mount.below(m.Path)
		for _, p := range [...]place{{mount, "/"}, {mount, below}} {
			if _, there := fsys.IsDir(p.dir()); !there {
				continue
			}
			score := 0
			if mount.Point == standard[m.Version] {
				score++
			}
			if sure && p.below == below {
				score += 2
			}
			if (len(mounts) > 1 || climbs) && lists(fsys, p.dir(), pid, buf) {
				score += 4
			}
			if score > bestScore {
				best, bestScore = p, score
			}
		}
	}
	if climbs {
		note("the group " + m.Path + " is outside the cgroup namespace")
	}
	return best, bestScore >= 0
}

// visible are the mounts of one version. On the running system they are those
// that this process sees, since it is this process that opens the files.
func visible(fsys *kernfs.FS, pid, version int, buf []byte) []Mount {
	name := "proc/self/mountinfo"
	if !fsys.Live() && pid != 0 {
		name = "proc/" + strconv.Itoa(pid) + "/mountinfo"
	}
	text, err := fsys.Read(name, buf)
	if err != nil {
		return nil
	}
	var mounts []Mount
	for _, m := range ParseMounts(text) {
		if m.Version == version {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// probe looks in the standard places when nothing says where the process is: in
// a container the group that is mounted there is its own.
func probe(fsys *kernfs.FS) (place, bool) {
	for version, files := range versions {
		p := place{Mount{version, "/", standard[version]}, "/"}
		if f, err := fsys.Open(p.dir() + "/" + files.max); err == nil {
			f.Close()
			return p, true
		}
	}
	return place{}, false
}

// isReal reports whether a place on the running system is a directory of the
// cgroup file system of its version.
func isReal(fsys *kernfs.FS, p place) bool {
	kind, ok := fsys.Type(p.mount.Point)
	if !ok || kind != fileSystems[p.mount.Version] {
		return false
	}
	_, ok = fsys.IsDir(p.dir())
	return ok
}

// fileSystems are the numbers by which statfs(2) names the two file systems.
var fileSystems = map[int]int64{1: 0x27e0eb, 2: 0x63677270}

// lists reports whether a group lists the process among its own.
func lists(fsys *kernfs.FS, dir string, pid int, buf []byte) bool {
	self := strconv.Itoa(pid)
	if pid == 0 {
		self = ownPID(fsys, buf)
	}
	text, err := fsys.Read(dir+"/cgroup.procs", buf)
	if err != nil || self == "" {
		return false
	}
	for line := range bytes.Lines(text) {
		if string(bytes.TrimSpace(line)) == self {
			return true
		}
	}
	return false
}

// ownPID is the pid that proc/self stands for.
func ownPID(fsys *kernfs.FS, buf []byte) string {
	if fsys.Live() {
		return strconv.Itoa(os.Getpid())
	}
	text, err := fsys.Read("proc/self/stat", buf)
	if err != nil {
		return ""
	}
	pid, _, _ := strings.Cut(string(text), " ")
	return pid
}
