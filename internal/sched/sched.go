// Package sched reads what schedulers and launchers say in the environment
// about the memory and the ranks of a job on one node. All functions are pure.
//
// What a variable says is a request. The kernel may enforce it through a cgroup
// or not at all, so it can lower a budget and never raise one.
package sched

import (
	"strconv"
	"strings"
)

// Limit is the memory that a job was given on this node, for all its ranks here.
type Limit struct {
	Source string // the variable, or the variables multiplied
	Bytes  int64
}

// Job is what an environment says.
type Job struct {
	Limits []Limit
	// Ranks is the number of ranks on this node, 0 when no variable can be trusted
	// to say it, and RanksSource the variable that does.
	Ranks       int
	RanksSource string
	Notes       []string
}

// Detect reads an environment of "KEY=value" strings on the named host.
func Detect(environ []string, host string) Job {
	env := parse(environ)
	var job Job
	job.Ranks, job.RanksSource = env.localRanks()
	env.slurm(&job, host)
	env.pbs(&job)
	env.lsf(&job, host)
	return job
}

// env holds the variables of interest that are set and not empty.
type env map[string]string

// maxValueBytes bounds the values that are looked at.
const maxValueBytes = 16 << 10

var prefixes = []string{"SLURM", "OMPI_COMM_WORLD_", "MPI_LOCAL", "PMI_", "PMIX_", "PBS_", "LSB_"}

func parse(environ []string) env {
	e := env{}
	for _, kv := range environ {
		for _, p := range prefixes {
			if strings.HasPrefix(kv, p) {
				if key, value, ok := strings.Cut(kv, "="); ok && value != "" && len(value) <= maxValueBytes {
					e[key] = value
				}
				break
			}
		}
	}
	return e
}

// count parses a variable that holds a small number, 0 for anything else.
func (e env) count(key string) int {
	n, err := strconv.Atoi(e[key])
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}

// maxCount bounds nodes, tasks and CPUs.
const maxCount = 1 << 20

// localRanks is the number of ranks on this node and the variable that says so.
// What the launcher of the MPI library says holds. Slurm's variables hold only
// for what srun started: under mpirun they are those of a daemon or of the shell.
func (e env) localRanks() (int, string) {
	for _, key := range []string{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"} { // Open MPI; Hydra (MPICH, Intel MPI)
		if n := e.count(key); n > 0 {
			return n, key
		}
	}
	if e["OMPI_COMM_WORLD_SIZE"] != "" {
		return 0, ""
	}
	for _, key := range []string{"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"} {
		if n := at(perNode(e[key]), e["SLURM_NODEID"]); n > 0 {
			return n, key
		}
	}
	if n := e.count("SLURM_NTASKS_PER_NODE"); n > 0 {
		return n, "SLURM_NTASKS_PER_NODE"
	}
	return 0, ""
}

// sizeText parses a number with one of the units that schedulers use, all binary:
// "64000", "16gb", "4000.5M". unitBytes is that of a bare number. Not ok: junk,
// or more than any machine has.
func sizeText(s string, unitBytes float64) (int64, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end >= 0 {
		switch strings.TrimSuffix(s[end:], "b") {
		case "":
			unitBytes = 1
		case "k":
			unitBytes = 1 << 10
		case "m":
			unitBytes = 1 << 20
		case "g":
			unitBytes = 1 << 30
		case "t":
			unitBytes = 1 << 40
		default:
			return 0, false
		}
		s = s[:end]
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n*unitBytes > maxBytes {
		return 0, false
	}
	return int64(n * unitBytes), true
}

// maxBytes is above what any machine has, and leaves room to multiply.
const maxBytes = 1 << 53
