/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "base/tsan.h"
#include "control/core/closer_priv.h"
#include "daemon.h"
#include "uroce/stack.h"

enum { WIRE_PACKETS = 1024 };

unsigned int daemon_engines = 1;
const struct checkpoint_host *daemon_checkpoint;
static struct rte_ring *to_daemon, *from_daemon;
static struct uroce *stack;
static struct sigaction sigbus_action;

/* For ThreadSanitizer (base/tsan.h), which doesn't see how EAL tells that a core's function has ended. */
static char cores;

int
daemon_run_engine(void *arg)
{
	int rc = uroce_engine_run(arg, rte_lcore_id() - 1);

	tsan_release(&cores);
	return rc;
}

void
daemon_wait_engines(void)
{
	rte_eal_mp_wait_lcore();
	tsan_acquire(&cores);
}

static void
run_engines(void)
{
	for (unsigned int i = 0; i < daemon_engines; i++)
		assert_int_equal(rte_eal_remote_launch(daemon_run_engine, stack, i + 1), 0);
}

static void
stop_engines(void)
{
	for (unsigned int i = 0; i < daemon_engines; i++)
		uroce_engine_stop(stack, i);
	daemon_wait_engines();
}

static void
start_eal(const char *program)
{
	static char prefix[32];
	char *argv[] = { (char *)(uintptr_t)program,
			 "--lcores",
			 daemon_engines > 1 ? "0@0,1@0,2@0" : "0@0,1@0",
			 "--no-huge",
			 "-m",
			 "200",
			 "--no-pci",
			 "--no-telemetry",
			 "--log-level",
			 "error",
			 "--file-prefix",
			 prefix,
#ifdef UROCE_TSAN
			 "--mbuf-pool-ops-name=tsan", /* tests/sanitize/pool.c */
#endif
	};

	snprintf(prefix, sizeof(prefix), "uroce-test-%d", (int)getpid());
	assert_true(rte_eal_init(sizeof(argv) / sizeof(argv[0]), argv) >= 0);
}

/** The port's two ends are the test's. */
static void
make_wire(void)
{
	to_daemon = rte_ring_create("to_daemon", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	from_daemon = rte_ring_create("from_daemon", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	assert_non_null(to_daemon);
	assert_non_null(from_daemon);
	daemon_wire_again();
}

void
daemon_wire_again(void)
{
	struct rte_ring *const none = daemon_engines > 1 ? rte_ring_create("none", WIRE_PACKETS, SOCKET_ID_ANY, 0) : NULL;
	struct rte_ring *rx[DAEMON_ENGINES_MOST] = { to_daemon, none }, *tx[DAEMON_ENGINES_MOST] = { from_daemon, from_daemon };

	assert_true(rte_eth_from_rings("wire", rx, daemon_engines, tx, daemon_engines, 0) >= 0);
}

void
daemon_start(const char *program, uint32_t max_sessions, uint32_t max_qp)
{
	char socket_set[64], sessions_set[64], qp_set[64], err[UROCE_ERR_BYTES];
	const char *const sets[] = { "port uroce0.ethdev=net_ring_wire",
				     "port uroce0.addresses=198.18.0.1/24 fd00:18::1/64",
				     "port uroce0.pkeys=0xffff 0x8001",
				     "daemon.mbufs=8191",
				     "daemon.socket_mode=0600",
				     socket_set,
				     sessions_set,
				     qp_set };
	const struct uroce_params p = { .sets = sets, .nb_sets = sizeof(sets) / sizeof(sets[0]), .nb_engines = daemon_engines, .serve = true };
	const struct stack_host host = { .checkpoint = daemon_checkpoint };

	signal(SIGPIPE, SIG_IGN);
	start_eal(program);
	make_wire();
	snprintf(socket_set, sizeof(socket_set), "daemon.socket=/tmp/uroce-test-%d.sock", (int)getpid());
	snprintf(sessions_set, sizeof(sessions_set), "daemon.max_sessions=%u", max_sessions);
	snprintf(qp_set, sizeof(qp_set), "daemon.max_qp=%u", max_qp);
	stack = stack_create_on(&p, NULL, -1, &host, err);
	if (stack == NULL)
		fail_msg("%s", err);
	sigaction(SIGBUS, NULL, &sigbus_action);
	run_engines();
	if (uroce_control_start(stack, err) != 0)
		fail_msg("%s", err);
}

void
daemon_stop(void)
{
	struct rte_mbuf *m;

	uroce_shutdown(stack);
	stop_engines();
	while ((m = daemon_wire_take(0)) != NULL)
		rte_pktmbuf_free(m);
	uroce_destroy(stack);
	rte_eal_cleanup();
}

int
daemon_move(uint32_t qpn, unsigned int engine, struct control_moved *moved)
{
	const char *why = "";
	int rc = control_move_qp(stack->control, qpn, engine, moved, &why);

	if (rc != 0)
		assert_string_not_equal(why, "");
	return rc;
}

struct uroce *
daemon_hold(void)
{
	uroce_control_stop(stack);
	control_hold(stack->control, true);
	while (!control_is_settled(stack->control))
		control_turn(stack->control, 1);
	stop_engines();
	control_turn(stack->control, 0);
	return stack;
}

struct uroce *
daemon_kill(void)
{
	uroce_control_stop(stack);
	stop_engines();
	return stack;
}

void
daemon_go_on(void)
{
	char err[UROCE_ERR_BYTES];

	control_hold(stack->control, false);
	run_engines();
	assert_int_equal(uroce_control_start(stack, err), 0);
}

static struct {
	uint32_t max_sessions, max_qp;
	void (*begin)(void);
} group;

static int
group_setup(void **state)
{
	daemon_start(program_invocation_short_name, group.max_sessions, group.max_qp);
	if (group.begin != NULL)
		group.begin();
	return 0;
}

static int
group_teardown(void **state)
{
	daemon_stop();
	return 0;
}

int
daemon_tests(const struct CMUnitTest *tests, size_t n, uint32_t max_sessions, uint32_t max_qp, void (*begin)(void))
{
	group.max_sessions = max_sessions;
	group.max_qp = max_qp;
	group.begin = begin;
	return _cmocka_run_group_tests("tests", tests, n, group_setup, group_teardown);
}

struct rte_mempool *
daemon_pool(void)
{
	return stack->sh.pool;
}

void
daemon_wire_put(const void *frame, uint32_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(stack->sh.pool);

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)bytes), frame, bytes);
	assert_int_equal(rte_ring_enqueue(to_daemon, m), 0);
}

struct rte_mbuf *
daemon_wire_take(unsigned int timeout_ms)
{
	void *m;

	for (unsigned int i = 0; rte_ring_dequeue(from_daemon, &m) != 0; i++) {
		if (i >= 10 * timeout_ms)
			return NULL;
		usleep(100);
	}
	return m;
}

struct control *
daemon_control(void)
{
	return stack->control;
}

void
daemon_take_sigbus(void)
{
	assert_int_equal(sigaction(SIGBUS, &sigbus_action, NULL), 0);
}

const char *
daemon_socket(void)
{
	return stack->conf.socket;
}

struct daemon_counts
daemon_counts(void)
{
	struct daemon_counts c = { .mrs = mr_table_count(stack->sh.mrs), .qps = qp_table_count(stack->sh.qps),
				   .attached = mcast_table_attached(stack->sh.mcasts) };
	DIR *d = opendir("/proc/self/fd");

	/* Between two turns: what a turn has ended is written down at its end, and what it has opened for itself is closed. */
	control_lock(stack->control);
	control_counts(stack->control, &c.control);
	while (readdir(d) != NULL)
		c.fds++;
	control_unlock(stack->control);
	closedir(d);
	return c;
}

unsigned int daemon_kept_sessions;

bool
daemon_wait_empty(void)
{
	int i;

	for (i = 0; i < 10000; i++) {
		if (daemon_counts().control.sessions == daemon_kept_sessions && closer_pending() == 0)
			return true;
		usleep(1000);
	}
	return false;
}

int
peer_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", stack->conf.socket);
	assert_true(fd >= 0);
	/* As the library does: the kernel chooses a name. */
	assert_int_equal(bind(fd, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)), 0);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		fail_msg("connect to %s: %s", sa.sun_path, strerror(errno));
	return fd;
}

int
peer_send(int sock, const void *data, size_t n, const int *fds, unsigned int nb_fds)
{
	char space[CMSG_SPACE(64 * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (nb_fds > 0) {
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nb_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == (ssize_t)n ? 0 : errno;
}

bool
peer_recv(int sock, struct ctl_rsp *rsp, int *fds, unsigned int max_fds)
{
	char space[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = rsp, .iov_len = sizeof(*rsp) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *c;
	unsigned int i, n;
	int got[CTL_MAX_FDS];
	ssize_t bytes = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);

	/* As in lib/verbs: that a connection was closed with requests unread is reported before the reply is delivered. */
	if (bytes < 0 && errno == ECONNRESET)
		bytes = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (bytes != (ssize_t)sizeof(*rsp))
		return false;
	c = CMSG_FIRSTHDR(&msg);
	n = c == NULL ? 0 : (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	assert_int_equal(rsp->magic, CTL_MAGIC);
	assert_int_equal(rsp->nb_fds, n);
	if (n > 0)
		memcpy(got, CMSG_DATA(c), n * sizeof(int));
	for (i = 0; i < n; i++) {
		if (i < max_fds)
			fds[i] = got[i];
		else
			close(got[i]);
	}
	return true;
}

int
peer_call(int sock, struct ctl_req *req, const int *fds, unsigned int nb_fds, struct ctl_rsp *rsp, int *out,
	  unsigned int max_out)
{
	if (peer_send(sock, req, sizeof(*req), fds, nb_fds) != 0 || !peer_recv(sock, rsp, out, max_out))
		return -1;
	assert_int_equal(rsp->op, req->op);
	return rsp->status;
}

void
peer_must(int sock, struct ctl_req *req, struct ctl_rsp *rsp, int *fd)
{
	int rc = peer_call(sock, req, NULL, 0, rsp, fd, fd != NULL);

	if (rc != 0)
		fail_msg("request %u: %d, %s", req->op, rc, rc > 0 ? rsp->message : "connection ended");
}

uint32_t
peer_pd(int sock)
{
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	struct ctl_rsp r;

	peer_must(sock, &q, &r, NULL);
	return r.handle.handle;
}

int
peer_handle(int sock, uint32_t op, uint32_t handle)
{
	struct ctl_req q = peer_req(op);
	struct ctl_rsp r;

	q.handle.handle = handle;
	return peer_call(sock, &q, NULL, 0, &r, NULL, 0);
}

struct ctl_req
peer_req(uint32_t op)
{
	return (struct ctl_req){ .magic = CTL_MAGIC, .op = op };
}

int
peer_hello(int sock)
{
	struct ctl_req q = peer_req(CTL_HELLO);
	int fds[] = { open("/proc/self/mem", O_RDWR | O_CLOEXEC), open("/proc", O_PATH | O_CLOEXEC) }, rc;
	struct ctl_rsp r;

	q.hello.abi_version = UROCE_ABI_VERSION;
	q.hello.pid = (uint32_t)getpid();
	strcpy(q.hello.program, "test");
	rc = peer_call(sock, &q, NULL, 0, &r, NULL, 0);
	if (rc == 0) {
		q = peer_req(CTL_MEMORY);
		q.memory.pid = (uint32_t)getpid();
		rc = peer_call(sock, &q, fds, 2, &r, NULL, 0);
	}
	close(fds[0]);
	close(fds[1]);
	return rc;
}

void
peer_open(struct peer *p)
{
	struct ctl_req q = peer_req(CTL_DEVICE_OPEN);
	int fds[CTL_MAX_FDS] = { -1, -1, -1, -1, -1 };
	struct ctl_rsp r;

	memset(p, 0, sizeof(*p));
	p->sock = peer_connect();
	assert_int_equal(peer_hello(p->sock), 0);
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, fds, CTL_MAX_FDS), 0);
	p->kick_fd = fds[0];
	p->mem_fd = fds[2];
	p->async_fd = fds[3];
	p->uffd = fds[4];
	p->dev = r.device_open;
	assert_int_equal(p->dev.nb_engines, daemon_engines);
	assert_int_equal(p->dev.have_uffd, p->uffd >= 0);
	p->db = mmap(NULL, p->dev.nb_engines * p->dev.db_stride, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	assert_ptr_not_equal(p->db, MAP_FAILED);
	close(fds[1]);
}

void
peer_close(struct peer *p)
{
	close(p->sock);
	close(p->async_fd);
	close(p->kick_fd);
	close(p->mem_fd);
	if (p->uffd >= 0)
		close(p->uffd);
	munmap(p->db, p->dev.nb_engines * p->dev.db_stride);
}

int
peer_ask(struct peer *p, struct ctl_req *q, struct ctl_rsp *r)
{
	int fds[2] = { -1, -1 }, rc = peer_call(p->sock, q, NULL, 0, r, fds, 2);

	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc;
}

int
peer_ask_cq(struct peer *p, uint32_t cqe, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_CQ_CREATE);

	q.cq_create.cqe = cqe;
	return peer_ask(p, &q, r);
}

int
peer_ask_qp(struct peer *p, uint32_t pd, uint32_t cq, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);

	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq,
						  .srq = UINT32_MAX, .cap = { 16, 32, 1, 1, 0 } };
	return peer_ask(p, &q, r);
}

void
peer_segment(struct peer *p, const struct ctl_new_segment *seg, int fd)
{
	void *m;

	if (seg->segment_bytes == 0)
		return;
	assert_in_range(seg->segment, 0, 63);
	m = mmap(NULL, seg->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(m, MAP_FAILED);
	p->segs[seg->segment] = m;
	close(fd);
}

void *
peer_area(const struct peer *p, const struct ctl_area *a)
{
	assert_in_range(a->segment, 0, 63);
	assert_non_null(p->segs[a->segment]);
	return p->segs[a->segment] + a->offset;
}

struct ctl_cq_create_rsp
peer_cq(struct peer *p, uint32_t cqe)
{
	struct ctl_req q = peer_req(CTL_CQ_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	q.cq_create.cqe = cqe;
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, &fd, 1), 0);
	peer_segment(p, &r.cq_create.seg, fd);
	return r.cq_create;
}

int
peer_try_qp(struct peer *p, uint32_t type, uint32_t pd, uint32_t cq, uint32_t wr, uint32_t sge, uint32_t inl)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	int fd = -1, rc;

	q.qp_create = (struct ctl_qp_create_req){
		.type = type,
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.srq = UINT32_MAX,
		.cap = { wr, wr, sge, sge, inl },
	};
	rc = peer_call(p->sock, &q, NULL, 0, &r, &fd, 1);
	if (rc == 0)
		peer_segment(p, &r.qp_create.seg, fd);
	return rc;
}

uint32_t
peer_new_qp(struct peer *p, uint32_t type)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	uint32_t pd = peer_pd(p->sock), cq = peer_cq(p, 1).handle;
	struct ctl_rsp r;
	int fd = -1;

	q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = pd, .send_cq = cq, .recv_cq = cq, .srq = UINT32_MAX,
						  .cap = { 1, 1, 1, 1, 0 } };
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, &fd, 1), 0);
	peer_segment(p, &r.qp_create.seg, fd);
	return r.qp_create.qpn;
}

void
daemon_assert_well(void)
{
	int sock = peer_connect();

	assert_int_equal(peer_hello(sock), 0);
	close(sock);
	assert_true(daemon_wait_empty());
}
