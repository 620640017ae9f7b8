/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers flood a daemon with requests for connections: each host has its share, all together have theirs, what is more is
 * refused and counted, and a connection that is there, its QP's traffic included, goes on as if nothing were.
 */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_mbuf.h>

#include "cm/cm.h"
#include "control/cma/gsi_priv.h"
#include "control/core/session_priv.h"
#include "pair.h"

enum {
	ANSWER_MS = 5000,
	FIRST_PORT = 7471, SECOND_PORT, /* no listener's backlog may be what all together have */
	SURPLUS = 500,      /* requests beyond each limit */
	UNANSWERED = 128,   /* requests under way: well below what engines hold for the control thread */
	WRITE_EACH = 100,   /* requests, there is traffic */
	BUSY_BYTES = 4000,
	MEMORY_BACK = 4 << 20, /* bytes at least, of all that were half open */
	GOOD_HOST = 2, GREEDY_HOST, OTHER_HOSTS,
};

/* ---- Strangers ---- */
static unsigned int rejected, other_answers;
static uint32_t next_id = 1;

static struct gid
host_gid(uint8_t host)
{
	return (struct gid){ { [10] = 0xff, 0xff, 198, 18, 0, host } };
}

static void
put_msg(uint8_t host, const struct cm_msg *m)
{
	const struct wire_addr a = { .ip_version = 4, .ttl = 64, .dmac = { 2 }, .smac = { 2, 0, 0, 0, 0, host },
				     .sip = { 198, 18, 0, host }, .dip = { 198, 18, 0, 1 } };
	uint8_t mad[CM_MAD_BYTES], frame[512];

	cm_mad_encode(m, mad);
	daemon_wire_put(frame, gsi_build(frame, &a, 0xffff, 0, mad));
}

static void
put_req(uint8_t host, uint16_t port)
{
	const struct cm_ip_hdr h = { .ip_version = 4, .port = 1234, .src = host_gid(host), .dst = host_gid(1) };
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_REQ, next_id);
	m.req.local_comm_id = next_id;
	m.req.service_id = cm_service_id(CM_PS_TCP, port);
	m.req.ca_guid = host;
	m.req.qpn = 100 + next_id++;
	m.req.path_mtu = UROCE_MTU_256;
	m.req.primary.ack_timeout = 19;
	m.req.primary.hop_limit = 64;
	m.req.primary.local_gid = h.src;
	m.req.primary.remote_gid = h.dst;
	cm_ip_hdr_put(&h, m.req.private_data);
	put_msg(host, &m);
}

/** @return true with the daemon's next MAD. */
static bool
take_msg(unsigned int timeout_ms, struct cm_msg *out)
{
	struct wire_pkt p;
	struct rte_mbuf *m;
	bool is_mad;

	while ((m = daemon_wire_take(timeout_ms)) != NULL) {
		is_mad = wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, &p) == WIRE_OK &&
			 cm_mad_decode(p.payload, p.payload_bytes, out) == CM_MAD_OK;
		rte_pktmbuf_free(m);
		if (is_mad)
			return true;
	}
	return false;
}

static void
count_answers(void)
{
	struct cm_msg m;

	while (take_msg(0, &m)) {
		if (m.hdr.attr_id == CM_ATTR_REJ && m.rej.reason == CM_REJ_NO_RESOURCES)
			rejected++;
		else
			other_answers++;
	}
}

static uint64_t
now_is(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/** Until the daemon has seen all MADs but @p but of those that were sent since it had seen @p before. */
static void
wait_seen(uint64_t before, uint64_t sent, uint64_t but)
{
	const struct cm_counters *n = control_cm_counters(daemon_control());

	for (unsigned int i = 0; now_is(&n->rx_mads) - before + but < sent; i++) {
		assert_in_range(i, 0, 10 * ANSWER_MS);
		count_answers();
		usleep(100);
	}
}

/* ---- Traffic ---- */
static struct pair busy;

/** A WRITE through the transport and back. */
static void
busy_write(void)
{
	static uint8_t seed;
	struct ring_cqe e;

	memset(busy.mem, ++seed, BUSY_BYTES);
	pair_post(&busy, 0, UROCE_WR_RDMA_WRITE, busy.mem, BUSY_BYTES, busy.mem + PAIR_BYTES);
	assert_true(pair_poll(&busy, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(busy.mem, busy.mem + PAIR_BYTES, BUSY_BYTES);
}

/* ---- A program that listens, and answers the first who asks ---- */
static struct {
	int sock, events;
	uint32_t conn;
} ears;

static void
ears_listen(uint16_t port)
{
	struct ctl_req q = peer_req(CTL_CM_CREATE_ID);
	struct ctl_rsp r;
	uint32_t id;

	q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	peer_must(ears.sock, &q, &r, NULL);
	id = r.handle.handle;
	q = peer_req(CTL_CM_BIND);
	q.cm_bind = (struct ctl_cm_bind_req){ .id = id, .addr = { .family = 4, .port = port } };
	peer_must(ears.sock, &q, &r, NULL);
	q = peer_req(CTL_CM_LISTEN);
	q.cm_listen = (struct ctl_cm_listen_req){ .id = id, .backlog = CM_MAX_BACKLOG };
	peer_must(ears.sock, &q, &r, NULL);
}

static void
ears_open(void)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);
	struct ctl_rsp r;

	ears.sock = peer_connect();
	assert_int_equal(peer_hello(ears.sock), 0);
	assert_int_equal(peer_call(ears.sock, &q, NULL, 0, &r, &ears.events, 1), 0);
	ears_listen(FIRST_PORT);
	ears_listen(SECOND_PORT);
}

static struct ctl_cm_event
ears_event(uint32_t type)
{
	struct pollfd fd = { .fd = ears.events, .events = POLLIN };
	struct ctl_cm_event ev;

	assert_int_equal(poll(&fd, 1, ANSWER_MS), 1);
	assert_int_equal(read(ears.events, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.type, type);
	return ev;
}

/** @return the good host's DREQ, for later. */
static struct cm_msg
connect_good_host(void)
{
	struct ctl_req q = peer_req(CTL_CM_ACCEPT);
	struct cm_msg rep, rtu, dreq;
	struct ctl_rsp r;

	put_req(GOOD_HOST, FIRST_PORT);
	ears.conn = ears_event(CTL_CM_EV_CONNECT_REQUEST).id;
	q.cm_connect = (struct ctl_cm_connect_req){ .id = ears.conn, .param = { .qp_num = busy.end[0].qp.qpn } };
	peer_must(ears.sock, &q, &r, NULL);
	assert_true(take_msg(ANSWER_MS, &rep));
	assert_int_equal(rep.hdr.attr_id, CM_ATTR_REP);
	cm_msg_init(&rtu, CM_ATTR_RTU, rep.hdr.tid);
	rtu.rtu.local_comm_id = rep.rep.remote_comm_id;
	rtu.rtu.remote_comm_id = rep.rep.local_comm_id;
	put_msg(GOOD_HOST, &rtu);
	assert_int_equal(ears_event(CTL_CM_EV_ESTABLISHED).id, ears.conn);
	cm_msg_init(&dreq, CM_ATTR_DREQ, 77);
	dreq.dreq.local_comm_id = rep.rep.remote_comm_id;
	dreq.dreq.remote_comm_id = rep.rep.local_comm_id;
	dreq.dreq.remote_qpn = busy.end[0].qp.qpn;
	return dreq;
}

/* ---- The flood ---- */
static struct cm_usage
usage(void)
{
	struct cm_usage u;

	control_lock(daemon_control());
	cm_usage(gsi_cm(daemon_control()->gsi), &u);
	control_unlock(daemon_control());
	return u;
}

/** @return resident bytes of this process. */
static uint64_t
resident(void)
{
	unsigned long all, pages;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &all, &pages), 2);
	fclose(f);
	return (uint64_t)pages * (uint64_t)getpagesize();
}

/** @p n requests to @p port of @p nb_hosts hosts in turn; of them @p refused must be refused and no more. */
static void
flood(uint16_t port, uint8_t first_host, uint8_t nb_hosts, unsigned int n, unsigned int refused)
{
	const struct cm_counters *c = control_cm_counters(daemon_control());
	uint64_t before = now_is(&c->rx_mads);
	uint32_t admitted = usage().half_open;

	rejected = 0;
	for (unsigned int i = 0; i < n; i++) {
		put_req((uint8_t)(first_host + i % nb_hosts), port);
		wait_seen(before, i + 1, UNANSWERED);
		if (i % WRITE_EACH == 0)
			busy_write();
	}
	wait_seen(before, n, 0);
	for (unsigned int i = 0; rejected < refused && i < 10 * ANSWER_MS; i++) {
		count_answers();
		usleep(100);
	}
	assert_int_equal(rejected, refused);
	assert_int_equal(other_answers, 0);
	assert_int_equal(usage().half_open, admitted + n - refused);
}

static void
flood_is_refused_and_what_is_there_goes_on(void **state)
{
	const struct cm_counters *c = control_cm_counters(daemon_control());
	const unsigned int nb_others = 4;
	struct cm_msg dreq, answer;
	uint64_t most;

	pair_open(&busy, CTL_SEG_CONVERTED);
	ears_open();
	dreq = connect_good_host();
	flood(FIRST_PORT, GREEDY_HOST, 1, CM_DEFAULT_MAX_PER_PEER + SURPLUS, SURPLUS);
	assert_int_equal(now_is(&c->rej_peer_limit), SURPLUS);
	/* Other hosts have their share still, up to what all may have. */
	flood(SECOND_PORT, OTHER_HOSTS, nb_others, CM_DEFAULT_MAX_HALF_OPEN - CM_DEFAULT_MAX_PER_PEER + SURPLUS,
	      SURPLUS);
	assert_int_equal(now_is(&c->rej_half_open_limit), SURPLUS);
	assert_int_equal(now_is(&c->rej_peer_limit), SURPLUS);
	assert_int_equal(now_is(&c->rej_backlog), 0);
	assert_int_equal(usage().half_open, CM_DEFAULT_MAX_HALF_OPEN);
	/* The connection that was there can be ended as always, and its end is told behind all that was asked. */
	busy_write();
	put_msg(GOOD_HOST, &dreq);
	for (unsigned int i = 0; i < CM_DEFAULT_MAX_HALF_OPEN; i++)
		ears_event(CTL_CM_EV_CONNECT_REQUEST);
	assert_int_equal(ears_event(CTL_CM_EV_DISCONNECTED).id, ears.conn);
	assert_int_equal(peer_handle(ears.sock, CTL_CM_DISCONNECT, ears.conn), 0);
	assert_true(take_msg(ANSWER_MS, &answer));
	assert_int_equal(answer.hdr.attr_id, CM_ATTR_DREP);
	/* Nobody answers those who asked any more: they are told, nothing of them stays half open, and their memory comes back. */
	most = resident();
	close(ears.sock);
	close(ears.events);
	pair_close(&busy);
	assert_int_equal(now_is(&c->rej_owner), CM_DEFAULT_MAX_HALF_OPEN);
	assert_int_equal(usage().half_open, 0);
	/* A sanitizer's allocator keeps what is freed, and doesn't count. */
	for (unsigned int i = 0; mallinfo2().uordblks != 0 && resident() + MEMORY_BACK > most; i++) {
		assert_in_range(i, 0, ANSWER_MS / 10);
		usleep(10000);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flood_is_refused_and_what_is_there_goes_on),
	};

	return DAEMON_TESTS(tests, 8, 64, NULL);
}
