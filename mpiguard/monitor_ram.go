package mpiguard

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mpiguard/mpiguard/internal/kernfs"
	"github.com/mpiguard/mpiguard/internal/procfs"
)

// ram reads the memory of the node or, for a process that is bound to some of
// its NUMA nodes, of those.
type ram struct {
	path   string        // of the file, for people
	memory procfs.Memory // as refresh found it
	notes  []string

	fsys    *kernfs.FS
	system  *kernfs.File
	allowed []int          // nil for all
	nodes   []*kernfs.File // of those
	agrees  bool           // meminfo and sysinfo(2) speak of the same memory (lxcfs replaces one)
}

func (r *ram) open(fsys *kernfs.FS) {
	r.fsys = fsys
	r.release()
	r.system, _ = fsys.Open("proc/meminfo")
}

func (r *ram) close() {
	r.system.Close()
	r.release()
}

// refreshRAM reads how much memory there is.
func (m *monitor) refreshRAM() {
	if nodes := m.host.memoryNodes; len(nodes) > 1 {
		allowed, err := m.process().MemsAllowed()
		allowed = slices.DeleteFunc(allowed, func(n int) bool { return !slices.Contains(nodes, n) })
		if err != nil || len(allowed) == len(nodes) {
			allowed = nil
		}
		m.ram.bind(allowed)
	}
	m.ram.refresh(m.buf[:])
}

func (r *ram) refresh(buf []byte) {
	var ok bool
	r.memory, ok = r.read(buf)
	if !r.fsys.Live() {
		return
	}
	total, _ := procfs.RAM()
	if !ok {
		r.memory.TotalBytes = total
	}
	r.agrees = ok && r.nodes == nil && total == r.memory.TotalBytes+r.memory.PoolBytes
}

// read returns the memory and what of it is used.
func (r *ram) read(buf []byte) (procfs.Memory, bool) {
	if r.system == nil {
		return unknownMemory, false
	}
	text, err := r.system.Read(buf)
	if err != nil {
		return unknownMemory, false
	}
	info := procfs.ParseMeminfo(text)
	if r.nodes == nil {
		return info.Memory(info.HugePageBytes)
	}
	var sum procfs.Memory
	for _, f := range r.nodes {
		text, err := f.Read(buf)
		if err != nil {
			return unknownMemory, false
		}
		node, ok := procfs.ParseMeminfo(text).Memory(info.HugePageBytes)
		if !ok {
			return unknownMemory, false
		}
		sum.TotalBytes += node.TotalBytes
		sum.UsedBytes += node.UsedBytes
	}
	return sum, true
}

// usedBytes is what of limitBytes, the memory, is used. Unless full, cache may
// count as used while that changes nothing.
func (r *ram) usedBytes(limitBytes int64, full bool, buf []byte) int64 {
	if !full && r.agrees {
		if _, free := procfs.RAM(); free >= 0 && far(limitBytes-free, limitBytes) {
			return max(limitBytes-free, 0)
		}
	}
	if memory, ok := r.read(buf); ok {
		return memory.UsedBytes
	}
	return UnknownBytes
}

// bind restricts r to some NUMA nodes; nil are all.
func (r *ram) bind(allowed []int) {
	if slices.Equal(allowed, r.allowed) {
		return
	}
	r.release()
	r.allowed = allowed
	if len(allowed) == 0 {
		return
	}
	names := make([]string, len(allowed))
	for i, n := range allowed {
		names[i] = strconv.Itoa(n)
		f, err := r.fsys.Open("sys/devices/system/node/node" + names[i] + "/meminfo")
		if err != nil {
			r.release()
			r.notes = []string{"memory of NUMA node " + names[i] + " cannot be read: that of the whole machine is shown"}
			return
		}
		r.nodes = append(r.nodes, f)
	}
	list := strings.Join(names, ",")
	r.path = "/sys/devices/system/node/node" + list + "/meminfo"
	r.notes = []string{"bound to NUMA nodes " + list + ": only their memory counts"}
}

// release makes r speak of all nodes.
func (r *ram) release() {
	for _, f := range r.nodes {
		f.Close()
	}
	r.nodes, r.notes, r.path = nil, nil, "/proc/meminfo"
}

var unknownMemory = procfs.Memory{TotalBytes: UnknownBytes, UsedBytes: UnknownBytes, PoolBytes: UnknownBytes}
