package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// Place is what a node has, beside its memory limits.
type Place struct {
	Shm FileSystem `json:"shm"` // /dev/shm, where MPI keeps what the ranks of a node share
	// Session holds the files of the launcher, and what is shared where there is
	// no /dev/shm.
	Session FileSystem `json:"session"`
	Stale   Segments   `json:"stale_segments"`
	Helpers Helpers    `json:"helpers"`
	RDMA    []string   `json:"rdma"` // devices, whose drivers need locked memory
	// Unresolved are hosts of the job whose names cannot be resolved here,
	// Misresolved those of other nodes that resolve to this one.
	Unresolved  []string `json:"unresolved_hosts"`
	Misresolved []string `json:"misresolved_hosts"`
}

// FileSystem is the size of a file system and what of it is free for the user.
type FileSystem struct {
	Path      string `json:"path"`
	SizeBytes Bytes  `json:"size_bytes"`
	FreeBytes Bytes  `json:"free_bytes"`
}

// Query is what is known of a node before it is looked at.
type Query struct {
	Environ []string // of the rank
	Host    string   // its name
	Hosts   []string // the names of all nodes of the job
	Group   string   // the innermost memory cgroup with a limit, "" if there is none
	PIDs    []int    // of the ranks on the node
}

// Look reads a node: the one below root, or the running one for "". What cannot
// be read is unknown.
func Look(root string, q Query) Place {
	m := &machine{root: root, fsys: kernfs.New(root)}
	defer m.fsys.Close()
	p := Place{
		Shm:     m.fileSystem("/dev/shm"),
		Session: m.fileSystem(sessionDir(q.Environ)),
		Stale:   m.stale(),
		Helpers: m.helpers(q.Group, q.PIDs),
		RDMA:    bounded(m.list("sys/class/infiniband")),
	}
	names := parseNames(m.read("etc/hosts"), m.read("etc/nsswitch.conf"), m.read("etc/resolv.conf"))
	unresolved, misresolved := names.check(q.Host, q.Hosts)
	p.Unresolved, p.Misresolved = bounded(unresolved), bounded(misresolved)
	return p
}

// machine is the node that is looked at.
type machine struct {
	root string
	fsys *kernfs.FS
}

// read returns the text of a file, "" where it cannot be read.
func (m *machine) read(name string) string {
	text, err := m.fsys.Read(name, nil)
	if err != nil {
		return ""
	}
	return string(text)
}

// path is where a name is found.
func (m *machine) path(name string) string { return filepath.Join("/", m.root, name) }

// list returns the names in a directory, none where it cannot be read.
func (m *machine) list(dir string) []string {
	entries, _ := os.ReadDir(m.path(dir))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// pids are the processes that can be seen.
func (m *machine) pids() []int {
	var pids []int
	for _, name := range m.list("proc") {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (m *machine) fileSystem(path string) FileSystem {
	size, free := statfs(m.path(path))
	return FileSystem{path, size, free}
}

// sessionDir is where Open MPI keeps the files of a job.
func sessionDir(environ []string) string {
	for _, key := range []string{"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base", "TMPDIR", "TEMP", "TMP"} {
		for _, kv := range environ {
			if v, ok := strings.CutPrefix(kv, key+"="); ok && v != "" {
				return v
			}
		}
	}
	return "/tmp"
}

// maxNames bounds the lists that ranks send to each other.
const maxNames = 8

// bounded is a copy of a list that is not too long, and not nil.
func bounded(names []string) []string {
	short := append([]string{}, names[:min(len(names), maxNames)]...)
	if over := len(names) - maxNames; over > 0 {
		short = append(short, fmt.Sprintf("and %d more", over))
	}
	return short
}
