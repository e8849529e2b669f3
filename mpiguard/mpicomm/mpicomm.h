// What github.com/sbromberger/gompi lacks of MPI, for mpicomm.go. Every call
// that talks to MPI returns one of the states below and waits for nobody,
// except the opening of a communicator other than World.

#ifndef MPICOMM_H
#define MPICOMM_H

#include <stdint.h>
#include <mpi.h>

enum {
	MG_DONE,
	MG_PENDING,
	MG_NOT_INITIALIZED,
	MG_FINALIZED,
	MG_WRONG_THREAD,
	MG_TRUNCATED,
	MG_CANCELLED,
	MG_NO_MEMORY,
	MG_ERROR, // and all above it: MG_ERROR + the code of MPI
};

typedef struct mg_message mg_message;

// A communicator of ours and its one collective under way. The buffer is that
// of the collective: MPI may use it until the request is complete, however long
// ago Go has given up waiting.
typedef struct mg_comm {
	MPI_Comm comm;
	MPI_Request request;
	void *buffer;
	mg_message *waiting; // receives that no message has matched, oldest first
	mg_message *arrived; // messages that no receive has matched, oldest first
	struct mg_comm *next; // of all that are open
} mg_comm;

typedef struct {
	int source, tag, bytes;
} mg_envelope;

int mg_open_world(mg_comm *c);
int mg_open_group(mg_comm *c, const int *ranks, int n);
int mg_open_node(mg_comm *c);
int mg_opened(mg_comm *c, int *rank, int *size);
int mg_free(mg_comm *c);
void mg_abort(int code);

int mg_barrier(mg_comm *c);
int mg_allreduce(mg_comm *c, int count, int op);
int mg_allgather(mg_comm *c, int row_bytes);
int mg_wait(mg_comm *c, int64_t sleep_ns);

int mg_isend(mg_comm *c, const char *buf, int bytes, int dest, int tag, mg_message **m);
int mg_irecv(mg_comm *c, char *buf, int bytes, int source, int tag, mg_message **m);
int mg_iprobe(mg_comm *c, int source, int tag, mg_envelope *e);
int mg_test(mg_message *m, mg_envelope *e);
int mg_cancel(mg_message *m);

int mg_thread_level(void);

#endif
