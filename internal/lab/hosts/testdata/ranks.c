// Prints what each rank sees: its host and the sum of all ranks. With a number of
// MiB, rank 0 takes as much memory.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int rank, sum;
	char host[64];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	gethostname(host, sizeof host);
	printf("rank %d on %s, sum %d\n", rank, host, sum);
	fflush(stdout);
	if (argc > 1 && rank == 0) {
		size_t n = (size_t)atoi(argv[1]) << 20;
		memset(malloc(n), 1, n);
	}
	MPI_Finalize();
	return 0;
}
