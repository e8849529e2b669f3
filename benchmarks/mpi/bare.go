package main

// #cgo linux CFLAGS: -I/usr/lib/x86_64-linux-gnu/openmpi/include -pthread
// #cgo linux LDFLAGS: -pthread -L/usr/lib/x86_64-linux-gnu/openmpi/lib -lmpi
// #include <mpi.h>
// #include <stdint.h>
// #include <stdlib.h>
//
// static void wait_for(MPI_Request *r) {
// 	int done = 0;
// 	while (!done)
// 		MPI_Test(r, &done, MPI_STATUS_IGNORE);
// }
//
// static void bare_allreduce(int n, int words) {
// 	uint64_t *src = calloc(words, 8), *dst = calloc(words, 8);
// 	while (n-- > 0) {
// 		MPI_Request r;
// 		MPI_Iallreduce(src, dst, words, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD, &r);
// 		wait_for(&r);
// 	}
// 	free(src);
// 	free(dst);
// }
//
// static void bare_allgather(int n, int bytes, int ranks) {
// 	char *src = calloc(1, bytes), *dst = calloc(ranks, bytes);
// 	while (n-- > 0) {
// 		MPI_Request r;
// 		MPI_Iallgather(src, bytes, MPI_BYTE, dst, bytes, MPI_BYTE, MPI_COMM_WORLD, &r);
// 		wait_for(&r);
// 	}
// 	free(src);
// 	free(dst);
// }
import "C"

// bareAllreduce makes n allreduces of so many words as a C program does, all
// in one call: started, and tested until they are complete. Collective.
func bareAllreduce(n, words int) { C.bare_allreduce(C.int(n), C.int(words)) }

// bareAllgather makes n allgathers of rows of so many bytes. Collective.
func bareAllgather(n, bytes, ranks int) { C.bare_allgather(C.int(n), C.int(bytes), C.int(ranks)) }
