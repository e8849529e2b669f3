//go:build cgo

#include "mpicomm.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

enum {
	SPINS = 32,         // tests in a row before the core is offered to others
	SLEEPER_SPINS = 8,  // the same after a sleep
	QUANTUM_NS = 20000, // a longer cgo call costs the Go scheduler dearly
};

static int of(int code) { return code == MPI_SUCCESS ? MG_DONE : MG_ERROR + code; }

// callable says whether this thread may call MPI now.
static int callable(void) {
	static int level = -1;
	int flag = 0;
	if (level < 0) {
		if (MPI_Initialized(&flag) != MPI_SUCCESS || !flag) return MG_NOT_INITIALIZED;
	}
	MPI_Finalized(&flag);
	if (flag) return MG_FINALIZED;
	if (level < 0) MPI_Query_thread(&level);
	if (level >= MPI_THREAD_SERIALIZED) return MG_DONE;
	MPI_Is_thread_main(&flag);
	return flag ? MG_DONE : MG_WRONG_THREAD;
}

int mg_thread_level(void) {
	int flag = 0, level = -1;
	MPI_Initialized(&flag);
	if (flag) MPI_Finalized(&flag), flag = !flag;
	if (flag) MPI_Query_thread(&level);
	return level;
}

// Opening.

static mg_comm *comms; // all that are open

// mg_open_world starts a duplicate of MPI_COMM_WORLD, which is there once
// mg_wait says so.
int mg_open_world(mg_comm *c) {
	int state = callable();
	if (state != MG_DONE) return state;
	state = of(MPI_Comm_idup(MPI_COMM_WORLD, &c->comm, &c->request));
	return state == MG_DONE ? MG_PENDING : state;
}

int mg_open_group(mg_comm *c, const int *ranks, int n) {
	MPI_Group world, group;
	int state = callable();
	if (state != MG_DONE) return state;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	state = of(MPI_Group_incl(world, n, ranks, &group));
	if (state == MG_DONE) {
		state = of(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &c->comm));
		MPI_Group_free(&group);
	}
	MPI_Group_free(&world);
	return state;
}

int mg_open_node(mg_comm *c) {
	int state = callable();
	if (state != MG_DONE) return state;
	return of(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c->comm));
}

// mg_opened completes an opening: from here on MPI returns errors of this
// communicator instead of ending the program.
int mg_opened(mg_comm *c, int *rank, int *size) {
	int code;
	c->request = MPI_REQUEST_NULL;
	c->next = comms;
	comms = c;
	code = MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
	if (code == MPI_SUCCESS) code = MPI_Comm_rank(c->comm, rank);
	if (code == MPI_SUCCESS) code = MPI_Comm_size(c->comm, size);
	return of(code);
}

int mg_free(mg_comm *c) {
	int state = callable();
	if (state != MG_DONE) return state;
	state = of(MPI_Comm_free(&c->comm));
	if (state != MG_DONE) return state;
	mg_comm **p = &comms;
	while (*p != c) p = &(*p)->next;
	*p = c->next;
	free(c->buffer);
	free(c);
	return MG_DONE;
}

void mg_abort(int code) {
	int flag = 0;
	MPI_Initialized(&flag);
	if (flag) MPI_Finalized(&flag), flag = !flag;
	if (flag) MPI_Abort(MPI_COMM_WORLD, code);
	_Exit(code);
}

// Messages that are on their way while a collective waits go on; see below.
static void progress(void);

// Collectives.

static int64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// poll tests the collective under way for at most QUANTUM_NS. A collective
// among ranks that are all there ends within the first tests; after those every
// test offers the core to a rank that may need it. After a sleep a few tests are
// all, since a wait that sleeps is a long one.
static int poll(mg_comm *c, int64_t sleep_ns) {
	int done = 0, spins = SPINS;
	if (sleep_ns > 0) {
		struct timespec t = {0, sleep_ns};
		nanosleep(&t, NULL);
		spins = SLEEPER_SPINS;
	}
	for (int i = 0; i < spins; i++) {
		int code = MPI_Test(&c->request, &done, MPI_STATUS_IGNORE);
		if (code != MPI_SUCCESS) return MG_ERROR + code;
		if (done) return MG_DONE;
	}
	if (sleep_ns > 0) return MG_PENDING;
	int64_t end = now_ns() + QUANTUM_NS;
	do {
		sched_yield();
		int code = MPI_Test(&c->request, &done, MPI_STATUS_IGNORE);
		if (code != MPI_SUCCESS) return MG_ERROR + code;
		if (done) return MG_DONE;
	} while (now_ns() < end);
	return MG_PENDING;
}

static int started(mg_comm *c, int code) { return code == MPI_SUCCESS ? poll(c, 0) : MG_ERROR + code; }

int mg_barrier(mg_comm *c) {
	int state = callable();
	if (state != MG_DONE) return state;
	return started(c, MPI_Ibarrier(c->comm, &c->request));
}

// mg_allreduce compares signed numbers: the unsigned ones of MPICH 4.0 compare
// as if they were signed, and so do some of Open MPI 4.1.
int mg_allreduce(mg_comm *c, int count, int op) {
	static const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX};
	int state = callable();
	if (state != MG_DONE) return state;
	return started(c, MPI_Iallreduce(MPI_IN_PLACE, c->buffer, count, op == 0 ? MPI_UINT64_T : MPI_INT64_T, ops[op], c->comm, &c->request));
}

int mg_allgather(mg_comm *c, int row_bytes) {
	int state = callable();
	if (state != MG_DONE) return state;
	return started(c, MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, c->buffer, row_bytes, MPI_BYTE, c->comm, &c->request));
}

int mg_wait(mg_comm *c, int64_t sleep_ns) {
	int state = callable();
	if (state != MG_DONE) return state;
	progress();
	return poll(c, sleep_ns);
}

// Messages.
//
// MPI never sees a receive before its message: a message is matched here, by
// the rules of MPI, and then received in its full length. A receive that MPI
// has to truncate writes past its buffer in Open MPI 4.1 when the message is
// above the eager limit, and ends the program in MPICH 4.0 in spite of
// MPI_ERRORS_RETURN. Nothing that is large lies about meanwhile: of a message
// above the eager limit only the header has come.

struct mg_message {
	mg_comm *comm;
	mg_message *next;    // in a list of the communicator
	mg_envelope envelope; // of the message; of a receive that waits, what it takes
	int state;

	MPI_Message message; // in the list arrived

	char *buf; // of a receive
	int bytes;
	MPI_Request request; // where state is pending and the message is matched
	int waiting, receive, truncated;
};

static int fits(const mg_envelope *pattern, const mg_envelope *e) {
	return (pattern->source < 0 || pattern->source == e->source) && (pattern->tag < 0 || pattern->tag == e->tag);
}

static void append(mg_message **list, mg_message *m) {
	while (*list) list = &(*list)->next;
	m->next = NULL;
	*list = m;
}

// receive starts to receive a matched message into m. One that is longer than
// the buffer is received over and over the same few bytes, so that its sender
// is done with it.
static void receive(mg_message *m, MPI_Message *message, const mg_envelope *e) {
	static char sink[65536];
	m->waiting = 0;
	m->envelope = *e;
	if (e->bytes <= m->bytes) {
		m->state = of(MPI_Imrecv(m->buf, e->bytes, MPI_BYTE, message, &m->request));
	} else {
		MPI_Datatype same;
		m->truncated = 1;
		m->state = of(MPI_Type_create_hvector((e->bytes - 1) / (int)sizeof sink + 1, sizeof sink, 0, MPI_BYTE, &same));
		if (m->state != MG_DONE) return;
		m->state = of(MPI_Type_commit(&same));
		if (m->state == MG_DONE) m->state = of(MPI_Imrecv(sink, 1, same, message, &m->request));
		MPI_Type_free(&same);
	}
	if (m->state == MG_DONE) m->state = MG_PENDING;
}

// pull takes the next message that has come to c, gives it to the receive that
// waits for it or puts it with the arrived, and returns MG_PENDING if there is
// none.
static int pull(mg_comm *c) {
	MPI_Status status;
	MPI_Message message;
	mg_envelope e;
	int found = 0;
	int code = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->comm, &found, &message, &status);
	if (code != MPI_SUCCESS) return MG_ERROR + code;
	if (!found) return MG_PENDING;
	e.source = status.MPI_SOURCE;
	e.tag = status.MPI_TAG;
	MPI_Get_count(&status, MPI_BYTE, &e.bytes);

	for (mg_message **p = &c->waiting; *p; p = &(*p)->next) {
		mg_message *m = *p;
		if (!fits(&m->envelope, &e)) continue;
		*p = m->next;
		receive(m, &message, &e);
		return MG_DONE;
	}
	mg_message *m = calloc(1, sizeof *m);
	if (!m) return MG_NO_MEMORY;
	m->envelope = e;
	m->message = message;
	append(&c->arrived, m);
	return MG_DONE;
}

// progress matches what has come with the receives that wait. An error is that
// of the oldest receive.
static void progress(void) {
	for (mg_comm *c = comms; c; c = c->next) {
		while (c->waiting) {
			int state = pull(c);
			if (state == MG_PENDING) break;
			if (state == MG_DONE) continue;
			c->waiting->state = state;
			c->waiting->waiting = 0;
			c->waiting = c->waiting->next;
		}
	}
}

// find returns where in the arrived the first message is that the pattern fits.
static mg_message **find(mg_comm *c, const mg_envelope *pattern) {
	mg_message **p = &c->arrived;
	while (*p && !fits(pattern, &(*p)->envelope)) p = &(*p)->next;
	return p;
}

int mg_isend(mg_comm *c, const char *buf, int bytes, int dest, int tag, mg_message **sent) {
	int state = callable();
	if (state != MG_DONE) return state;
	mg_message *m = calloc(1, sizeof *m);
	if (!m) return MG_NO_MEMORY;
	state = of(MPI_Isend(buf, bytes, MPI_BYTE, dest, tag, c->comm, &m->request));
	if (state != MG_DONE) {
		free(m);
		return state;
	}
	m->state = MG_PENDING;
	*sent = m;
	return MG_DONE;
}

int mg_irecv(mg_comm *c, char *buf, int bytes, int source, int tag, mg_message **received) {
	int state = callable();
	if (state != MG_DONE) return state;
	mg_message *m = calloc(1, sizeof *m);
	if (!m) return MG_NO_MEMORY;
	*m = (mg_message){
		.comm = c, .receive = 1, .buf = buf, .bytes = bytes, .envelope = {source, tag, 0}, .state = MG_PENDING};
	*received = m;
	mg_message **p = find(c, &m->envelope), *a = *p;
	if (a) {
		*p = a->next;
		receive(m, &a->message, &a->envelope);
		free(a);
	} else {
		m->waiting = 1;
		append(&c->waiting, m);
		progress();
	}
	return MG_DONE;
}

int mg_iprobe(mg_comm *c, int source, int tag, mg_envelope *e) {
	mg_envelope pattern = {source, tag, 0};
	int state = callable();
	while (state == MG_DONE) {
		mg_message *a = *find(c, &pattern);
		if (a) {
			*e = a->envelope;
			return MG_DONE;
		}
		state = pull(c);
	}
	return state;
}

// mg_test frees m when it returns anything but MG_PENDING, MG_FINALIZED and
// MG_WRONG_THREAD.
int mg_test(mg_message *m, mg_envelope *e) {
	int state = callable();
	if (state != MG_DONE) return state;
	progress();
	state = m->state;
	if (state == MG_PENDING && !m->waiting) {
		int done = 0;
		state = of(MPI_Test(&m->request, &done, MPI_STATUS_IGNORE));
		if (state == MG_DONE && !done) state = MG_PENDING;
		if (state == MG_DONE && m->truncated) state = MG_TRUNCATED;
	}
	if (state == MG_PENDING) return state;
	if (m->receive) *e = m->envelope;
	free(m);
	return state;
}

// mg_cancel ends a receive that waits.
int mg_cancel(mg_message *m) {
	int state = callable();
	if (state != MG_DONE) return state;
	progress();
	if (!m->waiting) return MG_DONE;
	mg_message **p = &m->comm->waiting;
	while (*p != m) p = &(*p)->next;
	*p = m->next;
	m->waiting = 0;
	m->state = MG_CANCELLED;
	return MG_DONE;
}
