package sched

import (
	"fmt"
	"slices"
	"strings"
)

// numeric are the variables that Detect reads and that hold numbers alone.
var numeric = []string{
	"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE", "PBS_RESC_MEM",
	"SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU",
	"SLURM_MEM_PER_NODE", "SLURM_NODEID", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
}

// Portable returns the variables of which Detect takes its answer, fit to be
// shown to others: this host is called as in them, the others other0, other1 and
// so on, and nothing else of the environment is there.
func Portable(environ []string, host, as string) []string {
	env := parse(environ)
	var kept []string
	keep := func(key, value string) { kept = append(kept, key+"="+value) }
	for _, key := range numeric {
		if v := env[key]; v != "" {
			keep(key, v)
		}
	}
	if names := hostList(env["SLURM_JOB_NODELIST"]); names != nil {
		own := slices.Index(names, env.slurmName(host))
		for i := range names {
			names[i] = fmt.Sprintf("other%d", i)
			if i == own {
				names[i] = as
			}
		}
		keep("SLURM_JOB_NODELIST", strings.Join(names, ","))
	}
	if slots := env.lsfSlots(host); slots > 0 {
		keep("LSB_MCPU_HOSTS", fmt.Sprintf("%s %d", as, slots))
	}
	if _, rusage, ok := strings.Cut(env["LSB_EFFECTIVE_RSRCREQ"], "rusage["); ok {
		rusage, _, _ = strings.Cut(rusage, "]")
		keep("LSB_EFFECTIVE_RSRCREQ", "rusage["+rusage+"]")
	}
	return kept
}
