/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storm_requests N SEED LOCAL PEER: send N messages to the daemon at $UROCE_SOCKET, valid, mutated and random ones, in sessions that begin, end and
 * overlap, some with descriptors; scribble over queues and ring doorbells in between. LOCAL is the port's IPv4 address, PEER that of somebody behind
 * it. Prints what was sent and answered. Status 1: the daemon is gone or doesn't answer.
 *
 * Processes of this one do the work, one after the other: requests may let others write to their memory, and one may die of that.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw.h"
#include "storm/random.h"
#include "stuck.h"

enum {
	SESSIONS = 12,
	SEGMENTS = 16,       /* of a session, mapped */
	UNANSWERED_MAX = 32, /* requests of a session that are under way */
	WORKER_REQUESTS = 20000,
	LIFE_MAX = 1500,     /* requests of a session, about */
	ANSWER_MS = 20000,   /* after which the daemon hangs */
	MUTE_PART = 16,      /* one of so many sessions says no HELLO */
	CM_PART = 3,         /* one of so many is of rdma_cm */
	FDS_PART = 32,       /* one of so many requests has descriptors, */
	TOO_MANY_PART = 16,  /* of which one of so many has more than are taken */
	SCRIBBLE_PART = 8,
	FDS = 8,
	STATUS_MAX = 160,
};

struct session {
	int sock; /* -1: none */
	int events;
	unsigned int unanswered, life;
	bool cm;
	struct request_handles handles;
	uint8_t *segments[SEGMENTS];
	size_t segment_bytes[SEGMENTS];
	unsigned int nb_segments;
	struct ring_db *db;
	size_t db_bytes;
};

/** What the processes add up. */
struct counts {
	uint64_t sent, of[STORM_KINDS], sessions, refused, ended, scribbled, with_fds, statuses[STATUS_MAX], other_statuses;
	bool hung;
};

static struct storm_random rnd;
static struct storm_world world;
static struct counts *counts;
static struct session sessions[SESSIONS];
static int fds[FDS];

static void
end_session(struct session *s)
{
	close(s->sock);
	if (s->events >= 0)
		close(s->events);
	for (unsigned int i = 0; i < s->nb_segments; i++)
		munmap(s->segments[i], s->segment_bytes[i]);
	if (s->db != NULL)
		munmap(s->db, s->db_bytes);
	*s = (struct session){ .sock = -1, .events = -1 };
}

/* Map a segment that came with a reply, or the doorbells; keep the events' socket. */
static void
note_fds(struct session *s, const struct ctl_rsp *r, const int *got, unsigned int n)
{
	const struct ctl_new_segment *seg = r->op == CTL_CQ_CREATE  ? &r->cq_create.seg :
					    r->op == CTL_CQ_RESIZE  ? &r->cq_resize.seg :
					    r->op == CTL_SRQ_CREATE ? &r->srq_create.seg :
					    r->op == CTL_QP_CREATE  ? &r->qp_create.seg :
					    r->op == CTL_DM_ALLOC   ? &r->dm_alloc.seg :
								      NULL;
	unsigned int db = r->device_open.nb_kicks;
	void *p;

	if (seg != NULL && seg->segment_bytes > 0 && n == 1 && s->nb_segments < SEGMENTS) {
		p = mmap(NULL, seg->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, got[0], 0);
		if (p != MAP_FAILED) {
			s->segments[s->nb_segments] = p;
			s->segment_bytes[s->nb_segments++] = seg->segment_bytes;
		}
	}
	if (r->op == CTL_DEVICE_OPEN && n > db && s->db == NULL) {
		p = mmap(NULL, r->device_open.db_stride, PROT_READ | PROT_WRITE, MAP_SHARED, got[db], 0);
		if (p != MAP_FAILED) {
			s->db = p;
			s->db_bytes = r->device_open.db_stride;
		}
		if (n > db + 2 && s->events < 0)
			s->events = fcntl(got[db + 2], F_DUPFD_CLOEXEC, 0);
	}
	if (r->op == CTL_CM_OPEN && n == 1 && s->events < 0)
		s->events = fcntl(got[0], F_DUPFD_CLOEXEC, 0);
}

/** Take a reply, if there is one. @return false: there is none. A session that the daemon has ended has no socket any more. */
static bool
take(struct session *s)
{
	struct ctl_rsp r = { 0 };
	int got[CTL_MAX_FDS];
	unsigned int n;

	errno = 0;
	raw_receive(s->sock, &r, got, CTL_MAX_FDS);
	if (r.magic != CTL_MAGIC) {
		if (errno == EAGAIN)
			return false;
		counts->ended++;
		end_session(s);
		return true;
	}
	n = r.nb_fds < CTL_MAX_FDS ? r.nb_fds : CTL_MAX_FDS;
	s->unanswered -= s->unanswered > 0;
	if (r.status >= 0 && r.status < STATUS_MAX)
		counts->statuses[r.status]++;
	else
		counts->other_statuses++;
	if (r.status == 0) {
		request_note(&s->handles, &r);
		note_fds(s, &r, got, n);
	}
	for (unsigned int i = 0; i < n; i++)
		close(got[i]);
	return true;
}

static bool
send_counted(struct session *s, const void *bytes, size_t n, const int *with, unsigned int nb)
{
	int rc = raw_send_bytes(s->sock, bytes, n, with, nb);

	if (rc == EAGAIN || rc == ENOBUFS)
		return false;
	if (rc != 0) {
		/* Descriptors before HELLO, or the daemon has ended the session; then there may still be a reply. */
		if (rc != EPERM)
			end_session(s);
		return false;
	}
	counts->sent++;
	counts->with_fds += nb > 0;
	s->unanswered++;
	return true;
}

static void
begin_session(struct session *s)
{
	struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_HELLO, .hello = { .abi_version = UROCE_ABI_VERSION, .program = "storm" } };
	bool cm = storm_below(&rnd, CM_PART) == 0;

	*s = (struct session){ .sock = raw_connect(), .events = -1, .cm = cm, .life = 1 + storm_below(&rnd, LIFE_MAX) };
	fcntl(s->sock, F_SETFL, O_NONBLOCK);
	counts->sessions++;
	if (storm_below(&rnd, MUTE_PART) == 0)
		return;
	q.hello.pid = (uint32_t)getpid();
	if (!send_counted(s, &q, sizeof(q), NULL, 0))
		return;
	/* Until HELLO is accepted the kernel may refuse descriptors. */
	poll(&(struct pollfd){ .fd = s->sock, .events = POLLIN }, 1, ANSWER_MS);
	take(s);
	q = (struct ctl_req){ .magic = CTL_MAGIC, .op = CTL_MEMORY, .memory = { .pid = (uint32_t)getpid() } };
	if (s->sock >= 0)
		send_counted(s, &q, sizeof(q), fds, 2);
	q = (struct ctl_req){ .magic = CTL_MAGIC, .op = cm ? CTL_CM_OPEN : CTL_DEVICE_OPEN };
	if (s->sock >= 0)
		send_counted(s, &q, sizeof(q), NULL, 0);
}

/** What a program does with its objects, done badly. */
static void
scribble(struct session *s)
{
	uint8_t *p;
	size_t at, n;

	if (s->db == NULL || s->nb_segments == 0)
		return;
	counts->scribbled++;
	at = storm_below(&rnd, s->nb_segments);
	p = s->segments[at];
	n = s->segment_bytes[at];
	at = storm_below(&rnd, (uint32_t)n);
	for (uint32_t i = 0, bytes = 1 + storm_below(&rnd, 64); i < bytes && at + i < n; i++)
		p[at + i] = (uint8_t)(storm_random(&rnd) >> (storm_below(&rnd, 2) * 56));
	ring_db_ring(s->db, storm_below(&rnd, 64));
}

static void
one(struct session *s)
{
	uint8_t bytes[STORM_BYTES_MAX];
	enum storm_kind kind;
	unsigned int nb = 0;
	int with[3];
	size_t n;
	char event[512];

	if (s->life == 0) {
		end_session(s);
		return;
	}
	s->life--;
	world.cm = s->cm;
	n = storm_request(&rnd, &world, &s->handles, bytes, &kind);
	if (storm_below(&rnd, FDS_PART) == 0)
		nb = storm_below(&rnd, TOO_MANY_PART) == 0 ? 3 : 1 + storm_below(&rnd, 2);
	for (unsigned int i = 0; i < nb; i++)
		with[i] = fds[storm_below(&rnd, FDS)];
	if (send_counted(s, bytes, n, with, nb))
		counts->of[kind]++;
	if (s->sock >= 0 && storm_below(&rnd, SCRIBBLE_PART) == 0)
		scribble(s);
	if (s->sock >= 0 && s->events >= 0 && storm_below(&rnd, SCRIBBLE_PART) == 0)
		while (recv(s->events, event, sizeof(event), MSG_DONTWAIT) > 0)
			;
}

/** @return whether anything happened. */
static bool
turn(uint64_t end)
{
	bool busy = false;

	for (unsigned int i = 0; i < SESSIONS && counts->sent < end; i++) {
		struct session *s = &sessions[i];

		if (s->sock < 0)
			begin_session(s);
		while (s->sock >= 0 && take(s))
			busy = true;
		if (s->sock >= 0 && s->unanswered < UNANSWERED_MAX) {
			uint64_t before = counts->sent;

			one(s);
			busy |= counts->sent != before || s->sock < 0;
		}
	}
	return busy;
}

static void
make_world(void)
{
	int area = memfd_create("storm", MFD_CLOEXEC), two[2];

	if (area < 0 || ftruncate(area, STORM_AREA_BYTES) != 0 || pipe2(two, O_CLOEXEC | O_NONBLOCK) != 0)
		attack_die("memfd_create");
	world.shared = mmap(NULL, STORM_AREA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, area, 0);
	world.private = mmap(NULL, STORM_AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (world.shared == MAP_FAILED || world.private == MAP_FAILED)
		attack_die("mmap");
	memset(world.private, 1, STORM_AREA_BYTES);
	fds[0] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	fds[1] = open("/proc", O_PATH | O_CLOEXEC);
	fds[2] = area;
	fds[3] = two[0];
	fds[4] = two[1];
	fds[5] = eventfd(0, EFD_CLOEXEC);
	fds[6] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[7] = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned int i = 0; i < FDS; i++)
		if (fds[i] < 0)
			attack_die("a descriptor to send");
}

/** Send until @p end messages were sent in sum. */
static void
work(uint64_t end)
{
	struct pollfd waiting[SESSIONS];

	make_world();
	for (unsigned int i = 0; i < SESSIONS; i++)
		sessions[i].sock = sessions[i].events = -1;
	while (counts->sent < end) {
		if (turn(end))
			continue;
		for (unsigned int i = 0; i < SESSIONS; i++)
			waiting[i] = (struct pollfd){ .fd = sessions[i].sock, .events = POLLIN };
		if (poll(waiting, SESSIONS, ANSWER_MS) == 0) {
			counts->hung = true;
			attack_die("the daemon doesn't answer");
		}
	}
}

static void
print(unsigned int died)
{
	printf("%" PRIu64 " requests: %" PRIu64 " valid, %" PRIu64 " mutated, %" PRIu64 " random, %" PRIu64 " garbage; %" PRIu64
	       " with descriptors; %" PRIu64 " sessions, %" PRIu64 " ended by the daemon; %" PRIu64
	       " times scribbled over queues; %u processes died\n",
	       counts->sent, counts->of[STORM_VALID], counts->of[STORM_MUTATED], counts->of[STORM_RANDOM], counts->of[STORM_GARBAGE],
	       counts->with_fds, counts->sessions, counts->ended, counts->scribbled, died);
	printf("answers:");
	for (int i = 0; i < STATUS_MAX; i++)
		if (counts->statuses[i] > 0)
			printf(" %s %" PRIu64 ",", i == 0 ? "done" : strerrorname_np(i), counts->statuses[i]);
	printf(" others %" PRIu64 "\n", counts->other_statuses);
}

int
main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 0, seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, end;
	unsigned int died = 0;
	int status;
	pid_t pid;

	if (argc != 5 || inet_pton(AF_INET, argv[3], world.local) != 1 || inet_pton(AF_INET, argv[4], world.peer) != 1)
		attack_die("usage: storm_requests N SEED LOCAL PEER");
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		attack_die("mmap");
	for (uint64_t worker = 0; counts->sent < n; worker++) {
		end = counts->sent + WORKER_REQUESTS < n ? counts->sent + WORKER_REQUESTS : n;
		rnd.state = (seed << 32) + worker * 2654435761 + 1;
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			work(end);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			attack_die("fork");
		if (counts->hung || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
			print(died);
			return 1;
		}
		died += WIFSIGNALED(status);
	}
	print(died);
	return 0;
}
