/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon on one thread, and its clients. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_random.h>
#include <rte_ring.h>

#include "cm/cm.h"
#include "control/cma/gsi_priv.h"
#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/loop_priv.h"
#include "daemon.h"
#include "engine/engine_priv.h"

enum {
	WIRE_PACKETS = 256,
	ASK_TURNS = 1000, /**< that an answer may take */
	TURNS = 3,
	LAST_WAIT_S = 600,
	LAST_STEPS = 2000,
	STEP_NS = 1000,
};

struct uroce *daemon_stack;
uint64_t daemon_clock_ns = UINT64_C(1000000000000000);

static struct rte_ring *to_daemon, *from_daemon;
static int own_memory[2]; /* what CTL_MEMORY takes */

/* ---- What the daemon has of its own accord, here in the hands of the target ---- */
uint64_t __wrap_engine_now(struct engine *e);
uint64_t __wrap_control_now_ns(void);
void __wrap_closer_close(int fd, uid_t uid);
void __wrap_closer_close_socket(int sock, uid_t uid);
ssize_t __wrap_getrandom(void *buf, size_t size, unsigned int flags);

uint64_t
__wrap_engine_now(struct engine *e)
{
	e->tsc++;
	e->now_ns = daemon_clock_ns;
	return e->now_ns;
}

uint64_t
__wrap_control_now_ns(void)
{
	return daemon_clock_ns;
}

void
__wrap_closer_close(int fd, uid_t uid)
{
	close(fd);
}

void
__wrap_closer_close_socket(int sock, uid_t uid)
{
	close(sock);
}

ssize_t
__wrap_getrandom(void *buf, size_t size, unsigned int flags)
{
	memset(buf, 1, size);
	return (ssize_t)size;
}

/* ---- The daemon ---- */
void
daemon_begin(void)
{
	static const char *const sets[] = { "port uroce0.ethdev=net_ring_wire",
					    "port uroce0.addresses=198.18.0.1/24 fd00:18::1/64",
					    "port uroce0.pkeys=0xffff 0x8001",
					    "daemon.mbufs=2047",
					    "daemon.socket_mode=0600",
					    "daemon.session_max_rings=8",
					    "daemon.max_sessions=4",
					    "daemon.max_pd=64",
					    "daemon.max_qp=64",
					    "daemon.max_cq=64",
					    "daemon.max_mr=64",
					    "daemon.max_srq=16",
					    "daemon.max_ah=32",
					    "daemon.max_cm_id=64" };
	const struct uroce_params p = { .sets = sets, .nb_sets = sizeof(sets) / sizeof(sets[0]) };
	char err[UROCE_ERR_BYTES];

	fuzz_eal();
	to_daemon = rte_ring_create("to_daemon", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	from_daemon = rte_ring_create("from_daemon", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	FUZZ_CHECK(to_daemon != NULL && from_daemon != NULL);
	FUZZ_CHECK(rte_eth_from_rings("wire", &to_daemon, 1, &from_daemon, 1, 0) >= 0);
	daemon_stack = uroce_create(&p, err);
	if (daemon_stack == NULL) {
		fprintf(stderr, "%s\n", err);
		FUZZ_CHECK(!"the stack is created");
	}
	own_memory[0] = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	own_memory[1] = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(own_memory[0] >= 0 && own_memory[1] >= 0);
	daemon_turns(TURNS);
}

void
daemon_turns(unsigned int n)
{
	while (n-- > 0) {
		daemon_clock_ns += STEP_NS;
		uroce_control_poll(daemon_stack);
		uroce_engine_poll(daemon_stack, 0);
	}
}

void
daemon_pass(uint64_t ns)
{
	uint64_t end = daemon_clock_ns + ns;

	for (unsigned int i = 0; i < 16 && daemon_clock_ns < end; i++) {
		uint64_t next = transport_next_timeout(engine_transport(daemon_stack->engines[0]));
		uint64_t step = daemon_clock_ns + ns / 8 + 1;

		next = next < step ? next : step;
		daemon_clock_ns = next > daemon_clock_ns ? next : daemon_clock_ns + 1;
		daemon_turns(1);
	}
	daemon_clock_ns = daemon_clock_ns < end ? end : daemon_clock_ns;
	daemon_turns(1);
}

void
daemon_frame(const uint8_t *frame, size_t size)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(daemon_stack->sh.pool);
	char *room = m != NULL ? rte_pktmbuf_append(m, (uint16_t)size) : NULL;

	if (room == NULL) {
		rte_pktmbuf_free(m);
		return;
	}
	memcpy(room, frame, size);
	if (rte_ring_enqueue(to_daemon, m) != 0)
		rte_pktmbuf_free(m);
}

unsigned int
daemon_sent(uint8_t *first, size_t *size, size_t max)
{
	unsigned int n = 0;
	void *p;

	while (rte_ring_dequeue(from_daemon, &p) == 0) {
		struct rte_mbuf *m = p;

		FUZZ_CHECK(m->nb_segs == 1 && m->data_len == m->pkt_len);
		if (n++ == 0 && m->data_len <= max) {
			*size = m->data_len;
			memcpy(first, rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
		}
		rte_pktmbuf_free(m);
	}
	return n;
}

/** Connections that sessions had end in their own time. */
static void
wait_for_conns(void)
{
	struct control_counts counts;
	struct cm_usage u;
	size_t size;

	for (unsigned int i = 0; i < LAST_STEPS; i++) {
		control_counts(daemon_stack->control, &counts);
		cm_usage(gsi_cm(daemon_stack->control->gsi), &u);
		if (counts.sessions == 0 && u.conns == 0 && u.timers == 0)
			return;
		if (u.timers != 0)
			daemon_clock_ns += LAST_WAIT_S * 1000 * DAEMON_MS / LAST_STEPS;
		daemon_turns(1);
		daemon_sent(NULL, &size, 0);
	}
	FUZZ_CHECK(!"sessions and connections end");
}

void
daemon_end(struct daemon_client *clients, unsigned int n)
{
	struct control_counts c;
	size_t size;

	rte_srand(1);
	for (unsigned int i = 0; i < n; i++)
		client_end(&clients[i]);
	daemon_turns(TURNS);
	wait_for_conns();
	daemon_sent(NULL, &size, 0);
	control_counts(daemon_stack->control, &c);
	FUZZ_CHECK(c.sessions == 0 && c.pds == 0 && c.mrs == 0 && c.cqs == 0 && c.srqs == 0 && c.qps == 0 && c.ahs == 0 &&
		   c.xrcds == 0 && c.cm_ids == 0);
	FUZZ_CHECK(mr_table_count(daemon_stack->sh.mrs) == 0 && qp_table_count(daemon_stack->sh.qps) == 0 &&
		   ah_table_count(daemon_stack->sh.ahs) == 0 && mcast_table_attached(daemon_stack->sh.mcasts) == 0);
}

/* ---- Clients ---- */
void
client_begin(struct daemon_client *c)
{
	struct control *control = daemon_stack->control;
	struct session *s;
	int socks[2];

	*c = (struct daemon_client){ .sock = -1, .events = -1 };
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks) == 0);
	/* As begin_session() does with what it accepts. */
	control_lock(control);
	s = session_new(control, socks[1], false);
	FUZZ_CHECK(s != NULL && quota_session(s, NULL) == 0 && dispatch_session(s) == 0);
	control_unlock(control);
	c->sock = socks[0];
}

void
client_end(struct daemon_client *c)
{
	if (c->sock < 0)
		return;
	close(c->sock);
	if (c->events >= 0)
		close(c->events);
	for (unsigned int i = 0; i < DAEMON_SEGMENTS; i++)
		if (c->segments[i] != NULL)
			munmap(c->segments[i], c->segment_bytes[i]);
	if (c->db != NULL) {
		munmap(c->db, c->db_bytes);
		munmap(c->mem, DAEMON_MEM_BYTES);
	}
	*c = (struct daemon_client){ .sock = -1, .events = -1 };
}

struct ctl_req
client_req(uint32_t op)
{
	return (struct ctl_req){ .magic = CTL_MAGIC, .op = op };
}

/** Map a segment that came with a reply, and the doorbells. Takes the descriptors. */
static void
note_fds(struct daemon_client *c, int *fds, unsigned int n)
{
	const struct ctl_new_segment *seg = c->rsp.op == CTL_CQ_CREATE	? &c->rsp.cq_create.seg :
					    c->rsp.op == CTL_CQ_RESIZE	? &c->rsp.cq_resize.seg :
					    c->rsp.op == CTL_SRQ_CREATE ? &c->rsp.srq_create.seg :
					    c->rsp.op == CTL_QP_CREATE	? &c->rsp.qp_create.seg :
					    c->rsp.op == CTL_DM_ALLOC	? &c->rsp.dm_alloc.seg :
									  NULL;

	if (seg != NULL && seg->segment_bytes > 0 && n == 1 && seg->segment < DAEMON_SEGMENTS) {
		if (c->segments[seg->segment] != NULL)
			munmap(c->segments[seg->segment], c->segment_bytes[seg->segment]);
		c->segment_bytes[seg->segment] = seg->segment_bytes;
		c->segments[seg->segment] = mmap(NULL, seg->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
		FUZZ_CHECK(c->segments[seg->segment] != MAP_FAILED);
	}
	if (c->rsp.op == CTL_DEVICE_OPEN && n > c->rsp.device_open.nb_kicks + 1) {
		c->device = true;
		c->db_bytes = c->rsp.device_open.db_stride;
		c->db = mmap(NULL, c->db_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[c->rsp.device_open.nb_kicks], 0);
		c->mem = mmap(NULL, DAEMON_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[c->rsp.device_open.nb_kicks + 1], 0);
		FUZZ_CHECK(c->db != MAP_FAILED && c->mem != MAP_FAILED);
		if (n > c->rsp.device_open.nb_kicks + 2)
			c->events = dup(fds[c->rsp.device_open.nb_kicks + 2]);
	}
	if (c->rsp.op == CTL_CM_OPEN && n == 1)
		c->events = dup(fds[0]);
	for (unsigned int i = 0; i < n; i++)
		close(fds[i]);
}

int
client_take(struct daemon_client *c)
{
	char space[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = &c->rsp, .iov_len = sizeof(c->rsp) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *cm;
	int fds[CTL_MAX_FDS];
	unsigned int n;
	ssize_t got = recvmsg(c->sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0 && errno == EAGAIN)
		return -1;
	if (got <= 0) {
		client_end(c);
		return -1;
	}
	cm = CMSG_FIRSTHDR(&msg);
	n = cm == NULL ? 0 : (unsigned int)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	if (n > 0)
		memcpy(fds, CMSG_DATA(cm), n * sizeof(int));
	FUZZ_CHECK(got == (ssize_t)sizeof(c->rsp) && c->rsp.magic == CTL_MAGIC && c->rsp.nb_fds == n);
	FUZZ_CHECK(c->rsp.status >= 0 && c->rsp.status < 4096);
	if (c->rsp.status == 0)
		request_note(&c->handles, &c->rsp);
	else if (c->rsp.status != EPROTO)
		FUZZ_CHECK(n == 0 && memchr(c->rsp.message, 0, sizeof(c->rsp.message)) != NULL);
	note_fds(c, fds, n);
	return c->rsp.status;
}

int
client_call(struct daemon_client *c, const void *bytes, size_t n, const int *fds, unsigned int nb_fds)
{
	char space[CMSG_SPACE(16 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;

	if (c->sock < 0)
		return -1;
	if (nb_fds > 0) {
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, nb_fds * sizeof(int));
	}
	/* The daemon may have closed the connection. */
	if (sendmsg(c->sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		return -1;
	daemon_turns(1);
	return client_take(c);
}

/* A request that is served, though perhaps not in this turn: a session whose last request took long has to wait. */
static int
client_ask(struct daemon_client *c, const struct ctl_req *q, const int *fds, unsigned int nb_fds)
{
	int rc = client_call(c, q, sizeof(*q), fds, nb_fds);

	for (unsigned int i = 0; i < ASK_TURNS && rc != 0 && c->sock >= 0; i++) {
		daemon_turns(1);
		rc = client_take(c);
	}
	return rc;
}

static void
client_hello(struct daemon_client *c)
{
	struct ctl_req q = client_req(CTL_HELLO);

	q.hello.abi_version = UROCE_ABI_VERSION;
	strcpy(q.hello.program, "fuzz");
	FUZZ_CHECK(client_ask(c, &q, NULL, 0) == 0);
	q = client_req(CTL_MEMORY);
	q.memory.pid = (uint32_t)getpid();
	FUZZ_CHECK(client_ask(c, &q, own_memory, 2) == 0);
}

void
client_open(struct daemon_client *c)
{
	struct ctl_req q;

	client_hello(c);
	q = client_req(CTL_DEVICE_OPEN);
	FUZZ_CHECK(client_ask(c, &q, NULL, 0) == 0 && c->events >= 0);
}

void
client_open_cm(struct daemon_client *c)
{
	struct ctl_req q;

	client_hello(c);
	q = client_req(CTL_CM_OPEN);
	FUZZ_CHECK(client_call(c, &q, sizeof(q), NULL, 0) == 0 && c->events >= 0);
}

void *
client_area(struct daemon_client *c, const struct ctl_area *a)
{
	if (a->length == 0 || a->segment >= DAEMON_SEGMENTS || c->segments[a->segment] == NULL)
		return NULL;
	FUZZ_CHECK(a->offset + a->length <= c->segment_bytes[a->segment]);
	return c->segments[a->segment] + a->offset;
}
