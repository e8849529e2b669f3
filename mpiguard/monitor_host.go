package mpiguard

import (
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/mpiguard/mpiguard/internal/kernfs"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

// host is what does not change while a machine is up.
type host struct {
	bootID      string // of the kernel, the host's name where there is none
	name        string
	cpus        int   // online
	memoryNodes []int // the NUMA nodes that have memory
}

// thisHost is the host of the running system, read once.
var thisHost = sync.OnceValue(func() host {
	h := readHost(kernfs.New(""))
	if h.name == "" {
		h.name, _ = os.Hostname()
	}
	return h
})

func hostOf(fsys *kernfs.FS) host {
	if fsys.Live() {
		return thisHost()
	}
	return readHost(fsys)
}

func readHost(fsys *kernfs.FS) host {
	read := func(name string) string {
		text, err := fsys.Read(name, make([]byte, 256))
		if err != nil || len(text) > 4096 {
			return ""
		}
		return strings.TrimSpace(string(text))
	}
	h := host{
		bootID:      read("proc/sys/kernel/random/boot_id"),
		name:        read("proc/sys/kernel/hostname"),
		cpus:        len(procfs.ParseList([]byte(read("sys/devices/system/cpu/online")))),
		memoryNodes: procfs.ParseList([]byte(read("sys/devices/system/node/has_memory"))),
	}
	if h.cpus == 0 {
		h.cpus = runtime.NumCPU()
	}
	if h.bootID == "" {
		h.bootID = h.name
	}
	return h
}
