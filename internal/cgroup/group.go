package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/mpiguard/mpiguard/internal/kernfs"
)

// files are the names by which a version of cgroups says the same things.
type files struct {
	max string // the hard limit
	// second is another limit: memory.high, above which the kernel throttles (2),
	// or that of memory and swap together (1).
	second string
	// ceilings are what is charged, page cache too; the first one that is there
	// is above what counts against either limit.
	ceilings []string
	kmem     string // kernel memory, where memory.stat does not have it
	// events counts kills, those of the groups below too in version 2;
	// localEvents what happened at the limits of the group itself.
	events, localEvents string
	flat                string // says 0 in a group that does not count those below
	parse               func(text []byte) stat
}

var versions = map[int]*files{
	1: {
		max: "memory.limit_in_bytes", second: "memory.memsw.limit_in_bytes",
		ceilings: []string{"memory.memsw.usage_in_bytes", "memory.usage_in_bytes"},
		kmem:     "memory.kmem.usage_in_bytes", flat: "memory.use_hierarchy",
		events: "memory.oom_control", parse: statV1,
	},
	2: {
		max: "memory.max", second: "memory.high", ceilings: []string{"memory.current"},
		events: "memory.events", localEvents: "memory.events.local", parse: statV2,
	},
}

// Group is one level of a hierarchy: its limits as Refresh last read them, and
// the files behind them held open. It is not safe for concurrent use.
type Group struct {
	// Path is the group within its hierarchy, as far as the process can tell.
	Path string
	// ID tells the group from all others of the running system, whatever mount or
	// namespace it is seen through. It is zero in a saved tree.
	ID kernfs.Identity
	// MaxBytes is the hard limit.
	MaxBytes int64
	// SecondBytes is the limit above which the kernel throttles (version 2), or
	// that of memory and swap together (version 1).
	SecondBytes int64
	// Throttled is how often processes were throttled at memory.high of the group,
	// Killed how many processes of the group were killed for memory (version 2:
	// and of the groups below), since the group was made. They are read for the
	// group of the process and, of version 2, for groups with a limit.
	Throttled, Killed int64
	// Absent: the group has no files of the memory controller. It has no limit,
	// and what it uses is counted further up.
	Absent bool
	// Notes are remarks for people.
	Notes []string

	fsys *kernfs.FS
	dir  string
	leaf bool
	*files

	maxFile, secondFile, statFile, ceilingFile, kmemFile, eventsFile, localEventsFile *kernfs.File

	opened, ceilingTried, eventsTried, flatRead bool // what is done once is done
	flat                                        bool
	statErr                                     error // why statFile is nil
}

// limit is the smaller limit, UnlimitedBytes when none is known.
func (g *Group) limit() int64 {
	limit := UnlimitedBytes
	for _, n := range [...]int64{g.MaxBytes, g.SecondBytes} {
		if n != UnknownBytes {
			limit = min(limit, n)
		}
	}
	return limit
}

// refresh reads the limits. A limit that could be read once and cannot now keeps
// its value. The error says that the group was removed: the process has moved.
func (g *Group) refresh(buf []byte) error {
	err := g.readLimit(&g.maxFile, g.max, &g.MaxBytes, buf)
	g.Absent = errors.Is(err, fs.ErrNotExist)
	if err != nil && !g.Absent {
		return err
	}
	if g.kmem != "" && g.MaxBytes == UnlimitedBytes {
		// Version 1 refuses a limit of memory and swap below that of memory.
		g.SecondBytes = UnlimitedBytes
	} else if err := g.readLimit(&g.secondFile, g.second, &g.SecondBytes, buf); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the file is missing where swap is not accounted for
	}
	if g.limit() != UnlimitedBytes && g.isFlat(buf) {
		g.MaxBytes, g.SecondBytes = UnlimitedBytes, UnlimitedBytes
	}
	// Version 1 does not add up the kills of the groups below.
	if g.leaf || g.limit() != UnlimitedBytes && g.localEvents != "" {
		g.readEvents(buf)
	}
	return nil
}

// readLimit reads one limit into *value, through *file, which it opens first.
func (g *Group) readLimit(file **kernfs.File, name string, value *int64, buf []byte) error {
	var err error
	if *file == nil {
		*file, err = g.fsys.Open(g.dir + "/" + name)
	}
	var text []byte
	if err == nil {
		text, err = (*file).Read(buf)
	}
	if errors.Is(err, fs.ErrNotExist) {
		*value = UnlimitedBytes
		return err
	}
	if isGone(err) {
		return err
	}
	var limit int64
	if err == nil {
		limit, err = ParseLimit(text)
	}
	if err != nil {
		g.note(name + ": " + reason(err))
		return nil
	}
	*value = limit
	return nil
}

// readEvents reads the counts of what happened in the group.
func (g *Group) readEvents(buf []byte) {
	if !g.eventsTried {
		g.eventsTried = true
		g.eventsFile, _ = g.fsys.Open(g.dir + "/" + g.events)
		if g.localEvents != "" {
			g.localEventsFile, _ = g.fsys.Open(g.dir + "/" + g.localEvents)
		}
	}
	if g.eventsFile != nil {
		if text, err := g.eventsFile.Read(buf); err == nil {
			g.Throttled, g.Killed = ParseEvents(text)
		}
	}
	if g.localEventsFile != nil {
		if text, err := g.localEventsFile.Read(buf); err == nil {
			g.Throttled, _ = ParseEvents(text)
		}
	}
}

// isFlat reports whether the group does not count those below it, so that its
// limit is none for the process. Kernels before 5.11 allow such groups.
func (g *Group) isFlat(buf []byte) bool {
	if !g.flatRead && !g.leaf && g.files.flat != "" {
		text, err := g.fsys.Read(g.dir+"/"+g.files.flat, buf)
		if g.flat = err == nil && string(bytes.TrimSpace(text)) == "0"; g.flat {
			g.note(g.files.flat + " is 0: no limit for the groups below")
		}
	}
	g.flatRead = true
	return g.flat
}

// open opens the files of the usage at the first need.
func (g *Group) open() {
	if g.opened {
		return
	}
	g.opened = true
	if g.statFile, g.statErr = g.fsys.Open(g.dir + "/memory.stat"); g.statErr != nil {
		g.statErr = fmt.Errorf("memory.stat: %s", reason(g.statErr))
		return
	}
	if g.kmem == "" {
		return
	}
	g.kmemFile, _ = g.fsys.Open(g.dir + "/" + g.kmem)
}

var (
	unknownUsage = Usage{UnknownBytes, UnknownBytes}

	errZero   = errors.New("reads zero although this process runs in the group")
	errNoRows = errors.New("memory.stat lacks the rows of anonymous memory")
)

// Usage reads what the group uses. A usage of zero is an error: some sandboxes
// show it for a group that a process of its own is in. It does not allocate.
func (g *Group) Usage(buf []byte) (Usage, error) {
	g.open()
	s, err := g.stat(buf)
	if err != nil {
		return unknownUsage, err
	}
	u, ok := s.usage()
	if !ok {
		return unknownUsage, errNoRows
	}
	if g.kmemFile != nil {
		if text, err := g.kmemFile.Read(buf); err == nil {
			if n, ok := parseUsage(text); ok && n > 0 {
				u.MemoryBytes += n
				if g.limit() != UnlimitedBytes {
					g.note("kernel memory may include reclaimable slab")
				}
			}
		}
	}
	if u.MemoryBytes == 0 {
		return unknownUsage, errZero
	}
	return u, nil
}

func (g *Group) stat(buf []byte) (stat, error) {
	if g.statFile == nil {
		return noStat, g.statErr
	}
	text, err := g.statFile.Read(buf)
	if err != nil {
		return noStat, err
	}
	return g.parse(text), nil
}

// Ceiling reads a figure that the usage is never above, in a tenth of the time:
// all that is charged, page cache included. It does not allocate.
func (g *Group) Ceiling(buf []byte) (Usage, bool) {
	for i := 0; g.ceilingFile == nil && !g.ceilingTried && i < len(g.ceilings); i++ {
		g.ceilingFile, _ = g.fsys.Open(g.dir + "/" + g.ceilings[i])
	}
	g.ceilingTried = true
	if g.ceilingFile == nil {
		return unknownUsage, false
	}
	text, err := g.ceilingFile.Read(buf)
	if err != nil {
		return unknownUsage, false
	}
	n, ok := parseUsage(text)
	return Usage{MemoryBytes: n}, ok && n > 0
}

func (g *Group) note(text string) {
	if !slices.Contains(g.Notes, text) {
		g.Notes = append(g.Notes, text)
	}
}

func (g *Group) close() {
	for _, f := range [...]*kernfs.File{g.maxFile, g.secondFile, g.statFile, g.ceilingFile, g.kmemFile, g.eventsFile, g.localEventsFile} {
		f.Close()
	}
}

// reason is the part of an error that a note needs beside the file's name.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// isGone reports whether a file could not be read because its group was removed.
func isGone(err error) bool { return errors.Is(err, syscall.ENODEV) }
