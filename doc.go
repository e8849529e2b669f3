// Package mpiguard, the root of the module, documents
// github.com/mpiguard/mpiguard, which keeps
// the ranks of Go MPI programs from being killed by the kernel for the memory
// that they use. There is no code here; import
//
//	github.com/mpiguard/mpiguard/mpiguard          the guard: budget, levels, reservations, surveys
//	github.com/mpiguard/mpiguard/mpiguard/mpicomm  its communicator over MPI
//	github.com/mpiguard/mpiguard/chunk             work in chunks whose size follows the headroom
//
// The README has a program of fifteen lines, ARCHITECTURE.md the way of the data.
package mpiguard
