/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes, on one machine or two, that exchange the attributes of their QPs over TCP. The client initiates. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "lane.h"

enum {
	HELLO_MAGIC = 0x75706631,
	HELLO_VERSION = 1,
	CONNECT_TRIES = 100,
	CONNECT_WAIT_US = 100000,
	LINK_TRIES = 1000,
	LINK_WAIT_US = 10000,
};

struct meeting {
	struct perf_host host;
	struct perf_lane lanes[PERF_MAX_ENGINES];
	int fd;
	_Atomic bool stop;
};

/** What client and server send each other at the end. */
struct goodbye {
	uint64_t ok;
	uint64_t ops[PERF_MAX_ENGINES];
};

static bool
send_all(int fd, const void *data, size_t len)
{
	for (const uint8_t *p = data; len > 0;) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool
recv_all(int fd, void *data, size_t len)
{
	return recv(fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

static int
listen_and_accept(const struct addrinfo *list)
{
	const int on = 1;
	int s = -1, fd;

	for (const struct addrinfo *a = list; a != NULL && s < 0; a = a->ai_next) {
		s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
		if (s < 0)
			continue;
		setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(s, a->ai_addr, a->ai_addrlen) != 0 || listen(s, 1) != 0) {
			close(s);
			s = -1;
		}
	}
	if (s < 0)
		return -1;
	fd = accept(s, NULL, NULL);
	close(s);
	return fd;
}

static int
connect_to(const struct addrinfo *list)
{
	for (unsigned int i = 0; i < CONNECT_TRIES; i++) {
		for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
			int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

			if (fd < 0)
				continue;
			if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
				return fd;
			close(fd);
		}
		usleep(CONNECT_WAIT_US);
	}
	return -1;
}

static int
meet(const struct perf_opts *o)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = o->role == PERF_SERVER ? AI_PASSIVE : 0,
	};
	const char *node = o->role == PERF_SERVER ? NULL : o->peer;
	struct addrinfo *list;
	char port[8];
	int rc, fd;

	snprintf(port, sizeof(port), "%u", o->tcp_port);
	rc = getaddrinfo(node, port, &hints, &list);
	if (rc != 0) {
		fprintf(stderr, "uroce-perf: --peer %s: %s\n", o->peer, gai_strerror(rc));
		return -1;
	}
	fd = o->role == PERF_SERVER ? listen_and_accept(list) : connect_to(list);
	if (fd < 0)
		fprintf(stderr, "uroce-perf: TCP port %u of %s: %s\n", o->tcp_port,
			o->role == PERF_SERVER ? "this host" : o->peer, strerror(errno));
	freeaddrinfo(list);
	return fd;
}

/** Check that both processes run the same test. */
static bool
hellos_agree(const struct perf_hello *mine, const struct perf_hello *theirs)
{
	if (theirs->magic != HELLO_MAGIC || theirs->version != HELLO_VERSION) {
		fprintf(stderr, "uroce-perf: the other end isn't uroce-perf of this version\n");
		return false;
	}
	if (mine->op == theirs->op && mine->test == theirs->test && mine->size == theirs->size &&
	    mine->mtu == theirs->mtu && mine->qps == theirs->qps && mine->engines == theirs->engines &&
	    mine->depth == theirs->depth)
		return true;
	fprintf(stderr, "uroce-perf: give server and client the same --op, --test, --size, --mtu, --qps, --engines and "
		"--depth\n");
	return false;
}

/** Wait until both ends have a link: if the first packet were lost, that would cost an ACK timeout. */
static bool
wait_for_link(struct meeting *m)
{
	uint8_t up = 1;

	for (unsigned int i = 0; !net_port_link(m->host.port, NULL); i++) {
		if (i == LINK_TRIES) {
			fprintf(stderr, "uroce-perf: port %s has no link\n", m->host.o->ethdev);
			return false;
		}
		usleep(LINK_WAIT_US);
	}
	if (send_all(m->fd, &up, sizeof(up)) && recv_all(m->fd, &up, sizeof(up)))
		return true;
	fprintf(stderr, "uroce-perf: the other end is gone\n");
	return false;
}

static bool
exchange(struct meeting *m)
{
	const struct perf_opts *o = m->host.o;
	struct perf_peer *mine = calloc(o->qps, sizeof(*mine)), *theirs = calloc(o->qps, sizeof(*theirs));
	struct perf_hello hello, other;
	bool ok = mine != NULL && theirs != NULL;

	host_hello(&m->host, &hello);
	hello.magic = HELLO_MAGIC;
	hello.version = HELLO_VERSION;
	ok = ok && send_all(m->fd, &hello, sizeof(hello)) && recv_all(m->fd, &other, sizeof(other));
	if (!ok)
		fprintf(stderr, "uroce-perf: the other end is gone\n");
	ok = ok && hellos_agree(&hello, &other);
	for (unsigned int i = 0; ok && i < o->engines; i++) {
		host_peers(&m->host, i, mine);
		ok = send_all(m->fd, mine, o->qps * sizeof(*mine)) &&
		     recv_all(m->fd, theirs, o->qps * sizeof(*theirs)) &&
		     host_connect(&m->host, i, &other, theirs, false);
	}
	free(mine);
	free(theirs);
	return ok && wait_for_link(m);
}

/** The client stops when its workloads are done, the server when the client tells it to. */
static void
watch(void *arg)
{
	struct meeting *m = arg;
	struct pollfd fd = { .fd = m->fd, .events = POLLIN };

	if (poll(&fd, 1, 0) > 0 || (m->host.o->role == PERF_CLIENT && ends_done(m->host.ends, m->host.nb_ends)))
		atomic_store(&m->stop, true);
}

static void
run_lanes(struct meeting *m)
{
	unsigned int lcore = (unsigned int)-1;

	m->lanes[0].watch = watch;
	m->lanes[0].watch_arg = m;
	for (unsigned int i = 1; i < m->host.nb_engines; i++) {
		lcore = rte_get_next_lcore(lcore, 1, 0);
		rte_eal_remote_launch(lane_run, &m->lanes[i], lcore);
	}
	lane_run(&m->lanes[0]);
	rte_eal_mp_wait_lcore();
}

/**
 * Compare the data that arrived. The engines must still run: the other host may be waiting for its last READ response.
 */
static bool
part(struct meeting *m)
{
	const struct perf_opts *o = m->host.o;
	struct perf_result *r[PERF_MAX_ENGINES];
	struct cores cores = lanes_cores(o->engines);
	bool checks = op_is_inbound(o->op) == (o->role == PERF_CLIENT);
	struct goodbye bye = { .ok = 1 }, other;

	for (unsigned int i = 0; i < o->engines; i++) {
		bye.ok = check_end(m->host.ends[i]) && bye.ok;
		r[i] = m->host.ends[i]->result;
		r[i]->busy_cycles[o->role == PERF_SERVER] = m->lanes[i].busy_cycles;
		bye.ops[i] = r[i]->all_ops;
		cores.late_turns += m->lanes[i].late_turns;
	}
	if (o->role == PERF_CLIENT && !send_all(m->fd, &bye, sizeof(bye)))
		return false;
	if (!recv_all(m->fd, &other, sizeof(other))) {
		fprintf(stderr, "uroce-perf: the other end is gone\n");
		return false;
	}
	for (unsigned int i = 0; checks && bye.ok && i < o->engines; i++)
		if (!end_verify(m->host.ends[i], o->role == PERF_CLIENT ? bye.ops[i] : other.ops[i])) {
			fprintf(stderr, "uroce-perf: the data that arrived isn't what was sent\n");
			bye.ok = 0;
		}
	if (o->role == PERF_SERVER)
		return send_all(m->fd, &bye, sizeof(bye)) && bye.ok && other.ok;
	if (bye.ok && other.ok)
		report(o, r, o->engines, rte_get_tsc_hz(), &cores);
	return bye.ok && other.ok;
}

/**
 * Close the ports in turn, the client's first. memif's interrupt thread unmaps the other end's rings without a lock, so
 * the port must not be used or closed meanwhile.
 */
static void
part_ports(struct meeting *m)
{
	char none;

	if (m->fd >= 0 && m->host.o->role == PERF_SERVER) {
		while (recv(m->fd, &none, 1, 0) > 0)
			;
		interrupts_handled();
	}
	host_close(&m->host);
	if (m->fd >= 0)
		close(m->fd);
}

int
run_tcp(const struct perf_opts *o)
{
	struct meeting *m = calloc(1, sizeof(*m));
	bool ok = m != NULL;

	if (ok)
		m->fd = -1;
	if (ok && rte_lcore_count() < o->engines) {
		fprintf(stderr, "uroce-perf: --engines %u needs as many lcores, EAL has %u: give -l 0-%u\n", o->engines,
			rte_lcore_count(), o->engines - 1);
		ok = false;
	}
	ok = ok && host_open(&m->host, o, 0, o->ethdev, o->address) && host_impairs_found();
	for (unsigned int i = 0; ok && i < o->engines; i++)
		ok = lane_add(&m->lanes[i], &m->host, i, o->role == PERF_CLIENT, &m->stop);
	if (ok) {
		m->fd = meet(o);
		ok = m->fd >= 0 && exchange(m);
		if (ok) {
			run_lanes(m);
			ok = part(m);
			if (!ok)
				host_print_counters(&m->host, perf_role_name(o->role));
		}
	}
	if (m != NULL)
		part_ports(m);
	free(m);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
