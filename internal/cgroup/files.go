package cgroup

// Files are the names, from the root of the machine, of the files of the group
// that decide what its limits are and what counts against them, whether they are
// there or not.
func (g *Group) Files() []string {
	names := []string{
		g.max, g.second, "memory.stat", g.kmem, g.files.flat, g.events, g.localEvents,
		"cgroup.type", "cgroup.controllers", "cgroup.sane_behavior",
		"memory.soft_limit_in_bytes", "memory.min", "memory.low", "memory.swap.max", // these decide nothing, but are asked for
	}
	names = append(names, g.ceilings...)
	var paths []string
	for _, n := range names {
		if n != "" {
			paths = append(paths, g.dir+"/"+n)
		}
	}
	return paths
}

// ProcsFile is the name, from the root of the machine, of the list of the
// processes of the group.
func (g *Group) ProcsFile() string { return g.dir + "/cgroup.procs" }
