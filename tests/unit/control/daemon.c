/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "daemon.h"
#include "mem.h"

static struct uroced_config conf;
static struct rte_mempool *pool;
static struct rte_rcu_qsbr *qsbr;
static struct mr_table *mrs;
static struct qp_table *qps;
static struct ah_table *ahs;
static struct net_port *ports[1];
static struct engine *engines[1];
static struct control *control;
static pthread_t thread;
static struct sigaction sigbus_action;

static void *
run(void *arg)
{
	control_run(control);
	return NULL;
}

static void
start_eal(const char *program)
{
	static char prefix[32];
	char *argv[] = { (char *)(uintptr_t)program,
			 "--lcores",
			 "0@0,1@0",
			 "--no-huge",
			 "-m",
			 "200",
			 "--no-pci",
			 "--no-telemetry",
			 "--log-level",
			 "error",
			 "--file-prefix",
			 prefix,
			 "--vdev",
			 "net_ring0",
			 NULL };

	snprintf(prefix, sizeof(prefix), "uroce-test-%d", (int)getpid());
	assert_true(rte_eal_init(14, argv) >= 0);
}

static void
make_parts(void)
{
	const char *sets[] = { "port uroce0.ethdev=net_ring0", "port uroce0.addresses=198.18.0.1/24 fd00:18::1/64" };
	struct engine_config ec = { .nb_engines = 1, .idle = ENGINE_IDLE_ADAPTIVE, .ports = ports, .nb_ports = 1 };
	uint32_t max_sessions = conf.max_sessions, max_qp = conf.max_qp;
	char err[CONFIG_ERR_BYTES];

	assert_int_equal(config_load(NULL, sets, 2, &conf, err), 0);
	conf.max_sessions = max_sessions;
	conf.max_qp = max_qp;
	snprintf(conf.socket, sizeof(conf.socket), "/tmp/uroce-test-%d.sock", (int)getpid());
	pool = rte_pktmbuf_pool_create("test", 8191, 0, 0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES + 7,
				       SOCKET_ID_ANY);
	assert_non_null(pool);
	qsbr = aligned_alloc(64, RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(1), 64));
	assert_int_equal(rte_rcu_qsbr_init(qsbr, 1), 0);
	mrs = mr_table_create(conf.max_mr, qsbr);
	qps = qp_table_create(conf.max_qp, qsbr);
	ahs = ah_table_create(conf.max_ah, qsbr);
	ports[0] = net_port_open(&conf.ports[0].net, 0, 1, pool, err, sizeof(err));
	if (ports[0] == NULL)
		fail_msg("%s", err);
	ec.mrs = mrs;
	ec.qps = qps;
	ec.ahs = ahs;
	ec.qsbr = qsbr;
	ec.pool = pool;
	engines[0] = engine_create(&ec);
	assert_non_null(engines[0]);
	engine_connect(engines, 1);
}

void
daemon_start(const char *program, uint32_t max_sessions, uint32_t max_qp)
{
	struct control_setup setup = { .conf = &conf, .engines = engines, .nb_engines = 1, .ports = ports, .nb_ports = 1 };
	char err[CONFIG_ERR_BYTES];
	int fd;

	signal(SIGPIPE, SIG_IGN);
	start_eal(program);
	conf.max_sessions = max_sessions;
	conf.max_qp = max_qp;
	make_parts();
	setup.mrs = mrs;
	setup.qps = qps;
	setup.ahs = ahs;
	setup.qsbr = qsbr;
	setup.pool = pool;
	if (control_socket_bind(conf.socket, 0600, "", &fd, err) != 0)
		fail_msg("%s", err);
	control = control_create(&setup, fd, err);
	if (control == NULL)
		fail_msg("%s", err);
	sigaction(SIGBUS, NULL, &sigbus_action);
	assert_int_equal(rte_eal_remote_launch(engine_loop, engines[0], 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	assert_int_equal(control_socket_publish(conf.socket, err), 0);
}

void
daemon_stop(void)
{
	control_stop(control);
	pthread_join(thread, NULL);
	control_socket_remove(conf.socket);
	control_destroy(control);
	engine_stop(engines[0]);
	rte_eal_mp_wait_lcore();
	engine_destroy(engines[0]);
	net_port_close(ports[0]);
	qp_table_destroy(qps);
	ah_table_destroy(ahs);
	mr_table_destroy(mrs);
	free(qsbr);
	rte_mempool_free(pool);
	rte_eal_cleanup();
}

void
daemon_take_sigbus(void)
{
	assert_int_equal(sigaction(SIGBUS, &sigbus_action, NULL), 0);
}

const char *
daemon_socket(void)
{
	return conf.socket;
}

struct daemon_counts
daemon_counts(void)
{
	struct daemon_counts c = { .mrs = mr_table_count(mrs), .qps = qp_table_count(qps) };
	DIR *d = opendir("/proc/self/fd");

	control_counts(control, &c.control);
	while (readdir(d) != NULL)
		c.fds++;
	closedir(d);
	return c;
}

bool
daemon_wait_empty(void)
{
	int i;

	for (i = 0; i < 10000; i++) {
		if (daemon_counts().control.sessions == 0)
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

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", conf.socket);
	assert_true(fd >= 0);
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

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(*rsp))
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

struct ctl_req
peer_req(uint32_t op)
{
	return (struct ctl_req){ .magic = CTL_MAGIC, .op = op };
}

int
peer_hello(int sock)
{
	struct ctl_req q = peer_req(CTL_HELLO);
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), rc;
	struct ctl_rsp r;

	q.hello.abi_version = UROCE_ABI_VERSION;
	q.hello.pid = (uint32_t)getpid();
	strcpy(q.hello.program, "test");
	rc = peer_call(sock, &q, &mem, 1, &r, NULL, 0);
	close(mem);
	return rc;
}

void
peer_open(struct peer *p)
{
	struct ctl_req q = peer_req(CTL_DEVICE_OPEN);
	int pipefd[2], fds[CTL_MAX_FDS] = { -1, -1, -1, -1 };
	struct ctl_rsp r;

	memset(p, 0, sizeof(*p));
	p->sock = peer_connect();
	assert_int_equal(peer_hello(p->sock), 0);
	assert_int_equal(pipe2(pipefd, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(peer_call(p->sock, &q, &pipefd[1], 1, &r, fds, CTL_MAX_FDS), 0);
	close(pipefd[1]);
	p->async_fd = pipefd[0];
	p->kick_fd = fds[0];
	p->mem_fd = fds[2];
	p->uffd = fds[3];
	p->dev = r.device_open;
	assert_int_equal(p->dev.nb_engines, 1);
	assert_int_equal(p->dev.have_uffd, p->uffd >= 0);
	p->db = mmap(NULL, p->dev.db_stride, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
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
	munmap(p->db, p->dev.db_stride);
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
