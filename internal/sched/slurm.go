package sched

import (
	"slices"
	"strconv"
	"strings"
)

// slurm reads the memory that Slurm allocated: SLURM_MEM_PER_NODE,
// SLURM_MEM_PER_CPU or SLURM_MEM_PER_GPU, in MiB (sbatch(1), "OUTPUT ENVIRONMENT
// VARIABLES"). They describe the job; a step may have less, which its cgroup says.
func (e env) slurm(job *Job, host string) {
	const mebibyte = 1 << 20
	if v := e["SLURM_MEM_PER_NODE"]; v != "" {
		bytes, ok := sizeText(v, mebibyte)
		switch {
		case !ok:
			job.note("SLURM_MEM_PER_NODE=%.20q is no size", v)
		case bytes == 0:
			job.note("SLURM_MEM_PER_NODE=0: all memory of the node was asked for")
		default:
			job.limit("SLURM_MEM_PER_NODE", bytes)
		}
		return
	}
	e.perUnit(job, "SLURM_MEM_PER_CPU", "CPUs", e.slurmCPUs(host))
	e.perUnit(job, "SLURM_MEM_PER_GPU", "GPUs", e.count("SLURM_GPUS_ON_NODE"))
}

// perUnit multiplies a size for each CPU or GPU by their number on this node.
func (e env) perUnit(job *Job, key, unit string, n int) {
	v := e[key]
	if v == "" {
		return
	}
	bytes, ok := sizeText(v, 1<<20)
	switch {
	case !ok:
		job.note("%s=%.20q is no size", key, v)
	case bytes == 0:
		job.note("%s=0: all memory of the node was asked for", key)
	case n == 0:
		job.note("%s says nothing without the number of %s of the job on this node", key, unit)
	case bytes > maxBytes/int64(n):
		job.note("%s=%.20q is no size", key, v)
	default:
		job.limit(key+" x "+strconv.Itoa(n), bytes*int64(n))
	}
}

// slurmCPUs is the number of CPUs that the job has on this node, 0 if unknown.
// Nodes may differ, and under mpirun SLURM_CPUS_ON_NODE may be that of a step
// which only started a daemon: the list of the job comes first.
func (e env) slurmCPUs(host string) int {
	i := slices.Index(hostList(e["SLURM_JOB_NODELIST"]), e.slurmName(host))
	if cpus := perNode(e["SLURM_JOB_CPUS_PER_NODE"]); i >= 0 && i < len(cpus) {
		return cpus[i]
	}
	return e.count("SLURM_CPUS_ON_NODE")
}

// slurmName is what Slurm calls this node.
func (e env) slurmName(host string) string {
	if v := e["SLURMD_NODENAME"]; v != "" {
		return v
	}
	name, _, _ := strings.Cut(host, ".")
	return name
}

// perNode expands Slurm's list of numbers for each node: "2(x3),1" is 2, 2, 2, 1.
// Junk gives nil.
func perNode(s string) []int {
	if s == "" {
		return nil
	}
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		number, rest, repeated := strings.Cut(part, "(x")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n > maxCount {
			return nil
		}
		times := 1
		if repeated {
			times, err = strconv.Atoi(strings.TrimSuffix(rest, ")"))
			if err != nil || times < 1 || !strings.HasSuffix(rest, ")") {
				return nil
			}
		}
		if times > maxNodes-len(list) {
			return nil
		}
		list = append(list, slices.Repeat([]int{n}, times)...)
	}
	return list
}

// maxNodes bounds the nodes of a job.
const maxNodes = 1 << 16

// at is the entry of a list for the node with the given number or, when that is
// not known, the entry that all nodes share; 0 otherwise.
func at(list []int, node string) int {
	if i, err := strconv.Atoi(node); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	if len(list) > 0 && node == "" && slices.Min(list) == slices.Max(list) {
		return list[0]
	}
	return 0
}

// hostList expands Slurm's list of nodes: "n[1-2,07],gpu3" is n1, n2, n07, gpu3.
// Junk, and names with more than one bracket, give nil.
func hostList(s string) []string {
	var names []string
	for s != "" {
		end := strings.IndexAny(s, ",[")
		if end < 0 {
			return append(names, s)
		}
		prefix := s[:end]
		if s[end] == ',' {
			names, s = append(names, prefix), s[end+1:]
			continue
		}
		ranges, rest, ok := strings.Cut(s[end+1:], "]")
		if !ok || rest != "" && rest[0] != ',' {
			return nil
		}
		for r := range strings.SplitSeq(ranges, ",") {
			first, last, isRange := strings.Cut(r, "-")
			if !isRange {
				last = first
			}
			lo, err1 := strconv.Atoi(first)
			hi, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi-lo >= maxNodes-len(names) || len(first) > 12 {
				return nil
			}
			for n := lo; n <= hi; n++ {
				number := strconv.Itoa(n)
				names = append(names, prefix+strings.Repeat("0", max(len(first)-len(number), 0))+number)
			}
		}
		s = strings.TrimPrefix(rest, ",")
	}
	return names
}
