package sched

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pbs reads PBS_RESC_MEM, bytes or a size such as 16gb. OpenPBS and TORQUE do not
// set it themselves; sites do, in a hook. A limit on pvmem or vmem is an RLIMIT.
func (e env) pbs(job *Job) {
	v := e["PBS_RESC_MEM"]
	if v == "" {
		return
	}
	if bytes, ok := sizeText(v, 1); ok && bytes > 0 {
		job.limit("PBS_RESC_MEM", bytes)
	} else {
		job.note("PBS_RESC_MEM=%.20q is no size", v)
	}
}

// lsf reads the memory that LSF reserved, rusage[mem=N] of LSB_EFFECTIVE_RSRCREQ
// in MB unless it has a unit. Whether N is for each job, host or task is the
// site's choice, unless the request says so: N/host, N/task.
func (e env) lsf(job *Job, host string) {
	const key = "LSB_EFFECTIVE_RSRCREQ"
	_, rusage, ok := strings.Cut(strings.ReplaceAll(e[key], " ", ""), "rusage[")
	if !ok {
		return
	}
	rusage, _, _ = strings.Cut(rusage, "]")
	fields := strings.FieldsFunc(rusage, func(r rune) bool { return r == ':' || r == ',' })
	i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "mem=") })
	if i < 0 {
		return
	}
	number, method, _ := strings.Cut(strings.TrimPrefix(fields[i], "mem="), "/")
	bytes, ok := sizeText(number, 1<<20)
	if !ok || bytes == 0 {
		return
	}
	switch method {
	case "host":
		job.limit(key+" mem/host", bytes)
	case "task":
		if n := e.lsfSlots(host); n > 0 && bytes <= maxBytes/int64(n) {
			job.limit(key+" mem/task x "+strconv.Itoa(n), bytes*int64(n))
		}
	default:
		job.note("%s reserves memory, but not whether for each job, host or task", key)
	}
}

// lsfSlots is the number of slots on this host by LSB_MCPU_HOSTS, "a 4 b 2".
func (e env) lsfSlots(host string) int {
	short, _, _ := strings.Cut(host, ".")
	f := strings.Fields(e["LSB_MCPU_HOSTS"])
	for i := 0; i+1 < len(f); i += 2 {
		if name, _, _ := strings.Cut(f[i], "."); name == short {
			if n, err := strconv.Atoi(f[i+1]); err == nil && n > 0 && n <= maxCount {
				return n
			}
		}
	}
	return 0
}

func (j *Job) limit(source string, bytes int64) {
	j.Limits = append(j.Limits, Limit{Source: source, Bytes: bytes})
}

func (j *Job) note(format string, args ...any) {
	j.Notes = append(j.Notes, fmt.Sprintf(format, args...))
}
