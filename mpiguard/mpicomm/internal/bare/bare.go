// Package bare runs collectives as a C program would: a non-blocking call and
// MPI_Test until it is complete, many in one call from Go. It is what the
// calls of mpicomm are measured against.
package bare

// #cgo linux CFLAGS: -I/usr/lib/x86_64-linux-gnu/openmpi/include -pthread
// #cgo linux LDFLAGS: -pthread -L/usr/lib/x86_64-linux-gnu/openmpi/lib -lmpi
// #include <mpi.h>
// #include <stdint.h>
// #include <stdlib.h>
//
// static void finish(MPI_Request *request) {
// 	for (int done = 0; !done;) MPI_Test(request, &done, MPI_STATUS_IGNORE);
// }
//
// static void allreduce(int times, int words) {
// 	uint64_t *out = calloc(2 * words, sizeof *out), *in = out + words;
// 	MPI_Request request;
// 	for (int i = 0; i < times; i++) {
// 		MPI_Iallreduce(out, in, words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
// 		finish(&request);
// 	}
// 	free(out);
// }
//
// static void allgather(int times, int bytes) {
// 	int size;
// 	MPI_Comm_size(MPI_COMM_WORLD, &size);
// 	char *row = calloc(1 + size, bytes), *rows = row + bytes;
// 	MPI_Request request;
// 	for (int i = 0; i < times; i++) {
// 		MPI_Iallgather(row, bytes, MPI_BYTE, rows, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
// 		finish(&request);
// 	}
// 	free(row);
// }
import "C"

// Allreduce makes the given number of allreduces of words uint64 each on
// MPI_COMM_WORLD. Collective.
func Allreduce(times, words int) { C.allreduce(C.int(times), C.int(words)) }

// Allgather makes the given number of allgathers with rows of so many bytes on
// MPI_COMM_WORLD. Collective.
func Allgather(times, bytes int) { C.allgather(C.int(times), C.int(bytes)) }
