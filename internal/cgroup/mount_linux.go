package cgroup

import (
	"bytes"
	"path"

	"github.com/moby/sys/mountinfo"
)

// ParseMounts returns the mounts of hierarchies of version 2, and of that of
// version 1 which has the memory controller, from the text of a mountinfo file,
// described in proc_pid_mountinfo(5). A line that cannot be parsed is left out.
func ParseMounts(text []byte) []Mount {
	var mounts []Mount
	for line := range bytes.Lines(cgroupLines(text)) {
		infos, err := mountinfo.GetMountsFromReader(bytes.NewReader(line), nil)
		if err != nil || len(infos) == 0 {
			continue
		}
		info := infos[0]
		version := 2
		if info.FSType == "cgroup" {
			version = 1
			if !hasToken([]byte(info.VFSOptions), "memory") {
				continue
			}
		}
		point := path.Clean("/" + info.Mountpoint)[1:]
		if info.Root == "" || info.Root[0] != '/' || point == "" || len(info.Root)+len(point) > maxPathBytes {
			continue
		}
		mounts = append(mounts, Mount{Version: version, Root: info.Root, Point: point})
	}
	return mounts
}
