// Package benchmarks measures the operations of the library beside what people
// use today and beside the primitive of the machine that bounds them: in one
// run, in turn (see package pairs), each against its goal.
//
//	make bench                                 the table of the README
//	go test -bench . -count 10 ./benchmarks    the same operations for benchstat
//
// Its rows need nothing but this module. The module benchmarks/peers adds
// libraries that do the same, the package benchmarks/mpi what takes several
// ranks. The tests hold the ratio of each operation to its primitive below the
// goal and a quarter.
package benchmarks
