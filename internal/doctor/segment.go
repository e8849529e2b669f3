package doctor

import (
	"os"
	"strconv"
	"strings"

	"github.com/mpiguard/mpiguard/internal/procfs"
)

// Segment is a file that an MPI library keeps in /dev/shm.
type Segment struct {
	Name      string
	ID        FileID
	UID       uint32 // the owner
	HeldBytes int64  // what it takes of memory: of its length, only what was touched
}

// FileID tells a file from every other, as /proc/PID/maps does.
type FileID struct {
	Major, Minor uint32 // of the device
	Inode        uint64
}

// Segments is how many there are, and what they hold.
type Segments struct {
	Count     int   `json:"count"` // -1 if unknown
	HeldBytes Bytes `json:"held_bytes"`
}

// segmentPrefixes are how MPI libraries and those below them name their files in
// /dev/shm: Open MPI 4 and 5, their windows, MPICH, Intel MPI, UCX, PSM2, PSM3.
var segmentPrefixes = []string{
	"vader_segment.", "sm_segment.", "open_mpi.", "osc_sm.", "osc_rdma.",
	"mpich_shar_tmp", "mpich_s_shar_tmp", "Intel_MPI_", "ucx_shm_posix_", "psm2_shm.", "psm3_shm.",
}

// isSegment reports whether a file in /dev/shm is of MPI by its name.
func isSegment(name string) bool {
	for _, p := range segmentPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// stale counts the segments of dead owners in /dev/shm. It removes nothing.
func (m *machine) stale() Segments {
	segments := m.segments() // before the processes: what they map later is not among them
	mapped, unseen, ok := m.mappings()
	if !ok {
		return Segments{-1, UnknownBytes}
	}
	var n Segments
	for _, s := range staleOf(segments, ownUID(), mapped, unseen) {
		if _, err := os.Lstat(m.path("dev/shm/" + s.Name)); err != nil {
			continue // its owner has ended in the meantime, and taken it away
		}
		n.Count++
		n.HeldBytes += Bytes(s.HeldBytes)
	}
	return n
}

// staleOf are the segments that no process maps, of those whose owners the user
// uid can see: user 0 sees all, others themselves. unseen are users of whose
// processes one does not show what it maps.
//
// A process in another PID namespace that shares /dev/shm cannot be seen: what it
// maps counts as stale.
func staleOf(segments []Segment, uid uint32, mapped map[FileID]bool, unseen map[uint32]bool) []Segment {
	var stale []Segment
	for _, s := range segments {
		if (uid == 0 || s.UID == uid) && !mapped[s.ID] && !unseen[s.UID] {
			stale = append(stale, s)
		}
	}
	return stale
}

// segments are the files of MPI in /dev/shm.
func (m *machine) segments() []Segment {
	var segments []Segment
	for _, name := range m.list("dev/shm") {
		if !isSegment(name) {
			continue
		}
		info, err := os.Lstat(m.path("dev/shm/" + name))
		s := Segment{Name: name}
		if err == nil && info.Mode().IsRegular() && s.stat(info) {
			segments = append(segments, s)
		}
	}
	return segments
}

// mappings are the files that processes share, and the users of those that share
// memory and do not show which. Not ok: no process can be seen.
func (m *machine) mappings() (mapped map[FileID]bool, unseen map[uint32]bool, ok bool) {
	mapped, unseen = map[FileID]bool{}, map[uint32]bool{}
	for _, pid := range m.pids() {
		ok = true
		dir := procfs.Dir(pid)
		text, err := m.fsys.Read(dir+"/maps", nil)
		if err == nil {
			parseMaps(string(text), mapped)
			continue
		}
		var owner Segment
		info, gone := os.Lstat(m.path(dir))
		if gone != nil || !owner.stat(info) {
			continue
		}
		// The status is open to all. The init of a system or a container often hides
		// its maps, and is no rank.
		if pid != 1 && procfs.ParseStatus([]byte(m.read(dir+"/status"))).RssShmemBytes != 0 {
			unseen[owner.UID] = true
		}
	}
	return mapped, unseen, ok
}

// parseMaps adds the files that a process shares with others, by its
// /proc/PID/maps. Source: proc_pid_maps(5).
func parseMaps(text string, mapped map[FileID]bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line) // address perms offset dev inode pathname
		if len(f) < 6 || len(f[1]) != 4 || f[1][3] != 's' {
			continue
		}
		major, minor, _ := strings.Cut(f[3], ":")
		x, err1 := strconv.ParseUint(major, 16, 32)
		y, err2 := strconv.ParseUint(minor, 16, 32)
		inode, err3 := strconv.ParseUint(f[4], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			mapped[FileID{uint32(x), uint32(y), inode}] = true
		}
	}
}
