package memgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// hierarchy is the one tree of cgroups that has the memory controller.
type hierarchy struct {
	version int
	mount   string // where it is mounted
	root    string // the group that is mounted there, "/" as a rule
}

// find looks for the memory controller in a v1 hierarchy of its own, or in the
// unified one.
func find() (hierarchy, error) {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return hierarchy{}, err
	}
	for _, m := range mounts {
		switch m.FSType {
		case "cgroup":
			if slices.Contains(strings.Split(m.VFSOptions, ","), "memory") {
				return hierarchy{1, m.Mountpoint, m.Root}, nil
			}
		case "cgroup2":
			on, err := os.ReadFile(filepath.Join(m.Mountpoint, "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(on)), "memory") {
				return hierarchy{2, m.Mountpoint, m.Root}, nil
			}
		}
	}
	return hierarchy{}, errors.New("no cgroup file system with the memory controller is mounted")
}

// names reports whether controllers, the middle field of a line of
// /proc/PID/cgroup, is that of this hierarchy.
func (h hierarchy) names(controllers string) bool {
	if h.version == 2 {
		return controllers == ""
	}
	return slices.Contains(strings.Split(controllers, ","), "memory")
}
