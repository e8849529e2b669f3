package mpiguard

// What is kept free of a limit. The floor covers what the kernel has charged and
// not yet counted in memory.stat, up to 64 pages for each of two counts a CPU;
// above the ceiling a fraction would waste memory that no lag explains.
const (
	defaultKeepFree  = 0.08
	keptFreeMinBytes = 8 << 20
	keptFreeCPUBytes = 512 << 10
	keptFreeMaxBytes = 2 << 30
)

// keptFreeBytes is fraction × limitBytes, within max(8 MiB, 512 KiB × cpus) and
// 2 GiB; the floor wins where they cross.
func keptFreeBytes(limitBytes int64, fraction float64, cpus int) int64 {
	floor := max(int64(keptFreeMinBytes), keptFreeCPUBytes*int64(cpus))
	return max(min(int64(fraction*float64(limitBytes)), keptFreeMaxBytes), floor)
}
