// Package kernellog finds in the log of the kernel which processes it killed for
// memory.
package kernellog

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kill is a process that the kernel killed for memory, as its log has it.
type Kill struct {
	At      time.Time // zero where the log does not say
	PID     int       // in the kernel's own numbers: a container may count otherwise
	Program string    // its name, at most 15 bytes
	// Cgroup is the memory cgroup of the process and LimitCgroup the one whose
	// limit was hit, both from the root of the hierarchy; empty where the log does
	// not say. LimitCgroup is empty where the whole machine was out of memory.
	Cgroup, LimitCgroup string
}

// maxLogLine bounds a line of a kernel log; the kernel's own are below 1 KiB.
const maxLogLine = 64 << 10

var (
	// "Killed process 4242 (name) total-vm:…", since Linux 2.6; before 5.0 a line
	// "Kill process 4242 (name) score …" comes first, which is no kill yet. The
	// name may hold parentheses and blanks.
	killedLine = regexp.MustCompile(`Killed process (\d+) \((.*)\)(,| total-vm:)`)
	// What the last part of the line "oom-kill:constraint=…" says, since Linux 5.0.
	oomLine = regexp.MustCompile(`oom-kill:constraint=.*?(?:,oom_memcg=(.*))?(?:,global_oom)?,task_memcg=(.*),task=(.*),pid=(\d+),uid=\d+`)
	// Before Linux 5.0.
	taskInLine = regexp.MustCompile(`Task in (.*) killed as a result of limit of (.*)$`)

	kmsgPrefix  = regexp.MustCompile(`^\d+,\d+,(\d+),[^;]*;`)
	dmesgPrefix = regexp.MustCompile(`^(?:<\d+>)?\[ *(\d+)\.(\d{6})\] `)
	isoPrefix   = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[,.](\d{6})([+-]\d\d:?\d\d) `)
)

// Parse finds the kills in a kernel log: the text of dmesg, of dmesg
// --time-format iso, of /dev/kmsg or of syslog(2). bootedAt turns seconds since
// boot into a time; a zero one leaves Kill.At zero. What is not understood is
// passed over.
func Parse(r io.Reader, bootedAt time.Time) ([]Kill, error) {
	var kills []Kill
	var context Kill // what came before the line of the kill
	in := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // its pieces are no lines of the kernel
		}
		if err != nil && err != io.EOF {
			return kills, err
		}
		text, at := splitTime(string(bytes.TrimRight(line, "\r\n")), bootedAt)
		if m := oomLine.FindStringSubmatch(text); m != nil {
			pid, _ := strconv.Atoi(m[4])
			context = Kill{PID: pid, LimitCgroup: m[1], Cgroup: m[2]}
		} else if m := taskInLine.FindStringSubmatch(text); m != nil {
			context = Kill{Cgroup: m[1], LimitCgroup: m[2]}
		} else if m := killedLine.FindStringSubmatch(text); m != nil {
			pid, _ := strconv.Atoi(m[1])
			k := Kill{At: at, PID: pid, Program: m[2]}
			if context.PID == 0 || context.PID == pid {
				k.Cgroup, k.LimitCgroup = context.Cgroup, context.LimitCgroup
			}
			// With memory.oom.group the others of the group follow, each with a
			// line of its own and no context.
			kills = append(kills, k)
		}
		if err == io.EOF {
			return kills, nil
		}
	}
}

// splitTime takes the time off the start of a line.
func splitTime(line string, bootedAt time.Time) (text string, at time.Time) {
	sinceBoot := func(d time.Duration) time.Time {
		if bootedAt.IsZero() {
			return time.Time{}
		}
		return bootedAt.Add(d)
	}
	if m := kmsgPrefix.FindStringSubmatch(line); m != nil {
		us, _ := strconv.ParseInt(m[1], 10, 64)
		return line[len(m[0]):], sinceBoot(time.Duration(us) * time.Microsecond)
	}
	if m := dmesgPrefix.FindStringSubmatch(line); m != nil {
		s, _ := strconv.ParseInt(m[1], 10, 64)
		us, _ := strconv.ParseInt(m[2], 10, 64)
		return line[len(m[0]):], sinceBoot(time.Duration(s)*time.Second + time.Duration(us)*time.Microsecond)
	}
	if m := isoPrefix.FindStringSubmatch(line); m != nil {
		t, err := time.Parse("2006-01-02T15:04:05.000000-0700", m[1]+"."+m[2]+strings.Replace(m[3], ":", "", 1))
		if err == nil {
			return line[len(m[0]):], t
		}
	}
	return line, time.Time{}
}
