/* SPDX-License-Identifier: BSD-3-Clause */
/* QP 1 of a daemon: what strangers who want to connect get for an answer, and the ways of MADs. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "../wire/pcap.h"
#include "control/cma/gsi_priv.h"
#include "control/core/control_priv.h"
#include "daemon.h"

enum { ANSWER_MS = 5000, QUIET_MS = 50 };

/** Clients are in a PID namespace that the daemon can't see. */
static bool foreign;

int
getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	int rc = (int)syscall(SYS_getsockopt, fd, level, name, value, len);

	if (rc == 0 && level == SOL_SOCKET && name == SO_PEERCRED && __atomic_load_n(&foreign, __ATOMIC_SEQ_CST))
		((struct ucred *)value)->pid = 0;
	return rc;
}

/** Linux's REQ from 198.18.0.2 to port 9999 of 198.18.0.1, and its REJ. */
static uint8_t req_frame[512], linux_rej[512];
static uint32_t req_bytes;

static void
load_frames(void)
{
	struct pcap pcap;
	struct wire_pkt p;
	const uint8_t *f;
	uint32_t len;

	assert_true(pcap_open(&pcap, GOLDEN_DIR "/cm_reject.pcap"));
	while ((f = pcap_next(&pcap, &len)) != NULL) {
		if (wire_parse(f, len, true, &p) != WIRE_OK)
			continue;
		assert_in_range(len, 1, sizeof(req_frame));
		memcpy(req_bytes == 0 ? req_frame : linux_rej, f, len);
		req_bytes = len;
	}
	pcap_close(&pcap);
	assert_int_not_equal(req_bytes, 0);
}

/** @return the next RoCE packet that the daemon sends; its ARP and ND is passed over. */
static struct rte_mbuf *
next_roce(unsigned int timeout_ms, struct wire_pkt *p)
{
	struct rte_mbuf *m;

	while ((m = daemon_wire_take(timeout_ms)) != NULL) {
		if (wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, p) == WIRE_OK)
			return m;
		rte_pktmbuf_free(m);
	}
	return NULL;
}

/** The REQ again, as another frame: @p spoil changes it before the ICRC is made. */
static void
put_req(void (*spoil)(struct wire_addr *a, uint8_t *bth, uint8_t *mad))
{
	struct wire_addr a = { .ip_version = 4, .ttl = 64, .sport = 0xc000 };
	uint8_t frame[512] = { 0 }, bth[512];
	struct wire_tmpl t;
	struct wire_pkt p;
	uint16_t l4;

	assert_int_equal(wire_parse(req_frame, req_bytes, true, &p), WIRE_OK);
	l4 = (uint16_t)(req_bytes - (p.bthp - req_frame));
	memcpy(a.dmac, p.l2, 6);
	memcpy(a.smac, p.l2 + 6, 6);
	memcpy(a.sip, p.l3 + 12, 4);
	memcpy(a.dip, p.l3 + 16, 4);
	memcpy(bth, p.bthp, l4);
	spoil(&a, bth, bth + p.op->hdr_bytes);
	wire_tmpl_build(&t, &a);
	memcpy(frame + t.bth_off, bth, l4);
	wire_tmpl_write(&t, frame, l4, 0);
	wire_tmpl_seal(&t, frame, l4);
	daemon_wire_put(frame, t.bth_off + l4);
}

static void
strangers_req_gets_the_rej_that_linux_sends(void **state)
{
	struct wire_pkt q, p, theirs;
	struct cm_msg req, rej;
	struct rte_mbuf *m;

	assert_int_equal(wire_parse(req_frame, req_bytes, true, &q), WIRE_OK);
	assert_int_equal(wire_parse(linux_rej, req_bytes, true, &theirs), WIRE_OK);
	assert_int_equal(cm_mad_decode(q.payload, q.payload_bytes, &req), CM_MAD_OK);
	daemon_wire_put(req_frame, req_bytes);
	m = next_roce(ANSWER_MS, &p);
	assert_non_null(m);
	/* To where it came from. */
	assert_memory_equal(p.l2, q.l2 + 6, 6);
	assert_memory_equal(p.l3 + 12, q.l3 + 16, 4);
	assert_memory_equal(p.l3 + 16, q.l3 + 12, 4);
	assert_int_equal(p.bth.dqpn, 1);
	assert_int_equal(p.bth.pkey, 0xffff);
	assert_int_equal(p.l3[8], 64);
	assert_int_equal(cm_mad_decode(p.payload, p.payload_bytes, &rej), CM_MAD_OK);
	assert_int_equal(rej.hdr.attr_id, CM_ATTR_REJ);
	assert_int_equal(rej.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(rej.rej.remote_comm_id, req.req.local_comm_id);
	assert_true(rej.hdr.tid == req.hdr.tid);
	assert_memory_equal(p.payload, theirs.payload, TP_MAD_BYTES);
	rte_pktmbuf_free(m);
	assert_int_equal(control_cm_counters(daemon_control())->rej_no_listener, 1);
	assert_int_equal(control_gsi_counters(daemon_control())->rx_mads, 1);
	assert_int_equal(control_gsi_counters(daemon_control())->tx_mads, 1);
	/* A repetition that is byte for byte the same gets the same. */
	daemon_wire_put(req_frame, req_bytes);
	m = next_roce(ANSWER_MS, &p);
	assert_non_null(m);
	assert_memory_equal(p.payload, theirs.payload, TP_MAD_BYTES);
	rte_pktmbuf_free(m);
}

static void
limited_member(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	wire_put16(bth + 2, 0x0001);
	mad[24 + 3] ^= 0x55; /* another communication ID */
}

/* The daemon's table is 0xffff, 0x8001. */
static void
answer_has_the_ports_own_pkey(void **state)
{
	struct rte_mbuf *m;
	struct wire_pkt p;

	put_req(limited_member);
	m = next_roce(ANSWER_MS, &p);
	assert_non_null(m);
	assert_int_equal(p.bth.pkey, 0x8001);
	rte_pktmbuf_free(m);
}

static void
not_ours(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	a->dip[3] = 77;
}

static void
from_a_group(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	a->sip[0] = 224;
}

static void
from_a_group_mac(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	a->smac[0] |= 1;
}

static void
from_ourselves(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	memcpy(a->sip, a->dip, 4);
}

static void
from_a_program(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	wire_put24(bth + WIRE_BTH_BYTES + 5, 0x42);
}

static void
of_another_class(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	mad[1] = 0x04;
}

static void
what_deserves_no_answer_gets_none(void **state)
{
	const struct gsi_counters *g = control_gsi_counters(daemon_control());
	const struct cm_counters *cm = control_cm_counters(daemon_control());
	const struct {
		void (*spoil)(struct wire_addr *a, uint8_t *bth, uint8_t *mad);
		const uint64_t *counter;
	} cases[] = {
		{ not_ours, &g->rx_not_ours },		{ from_a_group, &g->rx_bad_source },
		{ from_a_group_mac, &g->rx_bad_source }, { from_ourselves, &g->rx_bad_source },
		{ from_a_program, &g->rx_other_qp },	{ of_another_class, &cm->rx_other_class },
	};
	struct wire_pkt p;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t before = __atomic_load_n(cases[i].counter, __ATOMIC_RELAXED);
		unsigned int ms = 0;

		put_req(cases[i].spoil);
		while (__atomic_load_n(cases[i].counter, __ATOMIC_RELAXED) == before && ms++ < ANSWER_MS)
			usleep(1000);
		assert_int_equal(__atomic_load_n(cases[i].counter, __ATOMIC_RELAXED), before + 1);
	}
	assert_null(next_roce(QUIET_MS, &p));
}

/* ---- Linux's REQ, and a listener for it ---- */
static const struct cm_msg *forged;

static void
forge(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	cm_mad_encode(forged, mad);
}

/** Linux's next message. */
static void
put_msg(const struct cm_msg *m)
{
	forged = m;
	put_req(forge);
}

static void
take_msg(uint16_t attr_id, struct cm_msg *out)
{
	struct wire_pkt p;
	struct rte_mbuf *m = next_roce(ANSWER_MS, &p);

	assert_non_null(m);
	assert_int_equal(cm_mad_decode(p.payload, p.payload_bytes, out), CM_MAD_OK);
	assert_int_equal(out->hdr.attr_id, attr_id);
	rte_pktmbuf_free(m);
}

/** The daemon parts, which Linux confirms: nothing is repeated in the tests that follow. */
static void
part(void)
{
	struct cm_msg dreq, drep;

	take_msg(CM_ATTR_DREQ, &dreq);
	cm_msg_init(&drep, CM_ATTR_DREP, dreq.hdr.tid);
	drep.drep.local_comm_id = dreq.dreq.remote_comm_id;
	drep.drep.remote_comm_id = dreq.dreq.local_comm_id;
	put_msg(&drep);
}

enum { LINUX_PORT = 9999, OUR_QPN = 0x77 };

static void
other_id_and_mtu(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	static uint8_t connections;

	mad[24 + 3] ^= (uint8_t)(0x33 + connections);
	mad[24 + 34] ^= connections++; /* QPN */
	mad[24 + 50] = (uint8_t)(UROCE_MTU_256 << 4 | (mad[24 + 50] & 15)); /* the daemon's port has no 4096 */
}

/** An event channel whose id listens at any address. @return its connection; *@p events: where its events come. */
static int
listen_at(uint16_t family, int *events)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);
	int sock = peer_connect();
	struct ctl_rsp r;
	uint32_t id;

	assert_int_equal(peer_hello(sock), 0);
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, events, 1), 0);
	q = peer_req(CTL_CM_CREATE_ID);
	q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	id = r.handle.handle;
	q = peer_req(CTL_CM_BIND);
	q.cm_bind = (struct ctl_cm_bind_req){ .id = id, .addr = { .family = family, .port = LINUX_PORT } };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	q = peer_req(CTL_CM_LISTEN);
	q.cm_listen = (struct ctl_cm_listen_req){ .id = id, .backlog = 1 };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	return sock;
}

static int
listen_for_linux(int *events)
{
	return listen_at(4, events);
}

/** Say in the REQ at @p mad, and in the RDMA CM's header in it, that it goes from @p src to @p dst. */
static void
say_from(uint8_t *mad, uint8_t ip_version, const struct gid *src, const struct gid *dst)
{
	const struct cm_ip_hdr h = { .ip_version = ip_version, .port = 1, .src = *src, .dst = *dst };
	struct cm_msg m;

	assert_int_equal(cm_mad_decode(mad, CM_MAD_BYTES, &m), CM_MAD_OK);
	m.req.primary.local_gid = *src;
	m.req.primary.remote_gid = *dst;
	cm_ip_hdr_put(&h, m.req.private_data);
	cm_mad_encode(&m, mad);
}

/* Its last four bytes are an IPv4 address that it isn't. */
static void
ipv6_as_ipv4(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	static const struct gid theirs = { { 0xfd, 0, 0, 0x18, [12] = 198, 18, 0, 2 } };
	static const struct gid ours = { { 0xfd, 0, 0, 0x18, [15] = 1 } };

	other_id_and_mtu(a, bth, mad);
	a->ip_version = 6;
	memcpy(a->sip, &theirs, 16);
	memcpy(a->dip, &ours, 16);
	say_from(mad, 4, &theirs, &ours);
}

static void
ipv4_as_ipv6(struct wire_addr *a, uint8_t *bth, uint8_t *mad)
{
	static const struct gid theirs = { { [10] = 0xff, 0xff, 198, 18, 0, 2 } };
	static const struct gid ours = { { [10] = 0xff, 0xff, 198, 18, 0, 1 } };

	other_id_and_mtu(a, bth, mad);
	say_from(mad, 6, &theirs, &ours);
}

/* A program may let peers in by their address. */
static void
address_of_the_other_family_is_refused(void **state)
{
	void (*const spoils[])(struct wire_addr *a, uint8_t *bth, uint8_t *mad) = { ipv6_as_ipv4, ipv4_as_ipv6 };
	int events, sock = listen_at(6, &events);
	struct pollfd fd = { .fd = events, .events = POLLIN };
	struct cm_msg rej;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		put_req(spoils[i]);
		take_msg(CM_ATTR_REJ, &rej);
		assert_int_equal(rej.rej.reason, CM_REJ_INVALID_GID);
		assert_int_equal(poll(&fd, 1, 0), 0);
	}
	close(sock);
	close(events);
	assert_true(daemon_wait_empty());
}

/* 12.6.5: each end says at which PSN the *other* one begins. */
static void
qp_begins_where_the_peer_wants_it(void **state)
{
	struct ctl_req q = peer_req(CTL_CM_QP_ATTR);
	struct ctl_cm_event ev;
	struct cm_msg req, rep;
	struct rte_mbuf *m;
	struct ctl_rsp r;
	struct wire_pkt p;
	int events, sock = listen_for_linux(&events);
	struct pollfd fd = { .fd = events, .events = POLLIN };
	uint32_t rq_psn;

	assert_int_equal(wire_parse(req_frame, req_bytes, true, &p), WIRE_OK);
	assert_int_equal(cm_mad_decode(p.payload, p.payload_bytes, &req), CM_MAD_OK);
	put_req(other_id_and_mtu);
	assert_int_equal(poll(&fd, 1, ANSWER_MS), 1);
	assert_int_equal(read(events, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.type, CTL_CM_EV_CONNECT_REQUEST);
	q.cm_qp_attr = (struct ctl_cm_qp_attr_req){ .id = ev.id, .state = UROCE_QPS_RTR };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(r.cm_qp_attr.attr.sq_psn, req.req.starting_psn);
	assert_int_equal(r.cm_qp_attr.attr.dest_qp_num, req.req.qpn);
	assert_int_equal(r.cm_qp_attr.attr.ah.flow_label, req.req.primary.flow_label);
	assert_true((r.cm_qp_attr.rts_mask & UROCE_QP_SQ_PSN) != 0);
	rq_psn = r.cm_qp_attr.attr.rq_psn;
	q = peer_req(CTL_CM_ACCEPT);
	q.cm_connect = (struct ctl_cm_connect_req){ .id = ev.id, .param = { .qp_num = OUR_QPN } };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	m = next_roce(ANSWER_MS, &p);
	assert_non_null(m);
	assert_int_equal(cm_mad_decode(p.payload, p.payload_bytes, &rep), CM_MAD_OK);
	assert_int_equal(rep.hdr.attr_id, CM_ATTR_REP);
	assert_int_equal(rep.rep.starting_psn, rq_psn);
	assert_int_equal(rep.rep.qpn, OUR_QPN);
	rte_pktmbuf_free(m);
	close(sock);
	close(events);
	assert_true(daemon_wait_empty());
	/* The peer may wait for the REP, or for a DREQ. */
	take_msg(CM_ATTR_REJ, &rep);
	part();
}

/* ---- LAP ---- */
static struct ctl_cm_event
take_event(int events, uint32_t type)
{
	struct pollfd fd = { .fd = events, .events = POLLIN };
	struct ctl_cm_event ev;

	assert_int_equal(poll(&fd, 1, ANSWER_MS), 1);
	assert_int_equal(read(events, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.type, type);
	return ev;
}

static void
modify_qp(struct peer *p, uint32_t handle, uint32_t mask, const struct uroce_qp_attr *attr)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct ctl_rsp r;

	q.qp_modify.handle = handle;
	q.qp_modify.mask = mask;
	q.qp_modify.attr = *attr;
	if (peer_call(p->sock, &q, NULL, 0, &r, NULL, 0) != 0)
		fail_msg("state %u: %s", attr->qp_state, r.message);
}

/** A QP in RTS that talks to itself: its alternate path may be this host as well, and no neighbour is asked. */
static struct ctl_qp_create_rsp
make_qp(struct peer *p)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1 };
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	struct ctl_qp_create_rsp qp;
	struct ctl_rsp r;
	uint32_t pd;

	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, NULL, 0), 0);
	pd = r.handle.handle;
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create.cqe = 4;
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, NULL, 0), 0);
	q = peer_req(CTL_QP_CREATE);
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_RC, .pd = pd, .send_cq = r.cq_create.handle,
						  .recv_cq = r.cq_create.handle, .srq = UINT32_MAX,
						  .cap = { 1, 1, 1, 1, 0 } };
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, NULL, 0), 0);
	qp = r.qp_create;
	modify_qp(p, qp.handle, UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS, &a);
	a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTR, .path_mtu = UROCE_MTU_1024, .dest_qp_num = qp.qpn,
				    .ah = { .dgid = { [10] = 0xff, 0xff, 198, 18, 0, 1 }, .sgid_index = 1,
					    .hop_limit = 64, .is_global = 1, .port_num = 1 } };
	modify_qp(p, qp.handle, UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
		  UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER, &a);
	a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
	modify_qp(p, qp.handle, UROCE_QP_STATE | UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT |
		  UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC, &a);
	return qp;
}

/** Linux connects to @p qpn. @return a LAP with the connection's IDs. */
static struct cm_msg
connect_linux(int sock, int events, uint32_t qpn)
{
	struct ctl_req q = peer_req(CTL_CM_ACCEPT);
	struct cm_msg rep, rtu, lap;
	struct ctl_rsp r;

	put_req(other_id_and_mtu);
	q.cm_connect = (struct ctl_cm_connect_req){ .id = take_event(events, CTL_CM_EV_CONNECT_REQUEST).id,
						    .param = { .qp_num = qpn } };
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	take_msg(CM_ATTR_REP, &rep);
	cm_msg_init(&rtu, CM_ATTR_RTU, rep.hdr.tid);
	rtu.rtu.local_comm_id = rep.rep.remote_comm_id;
	rtu.rtu.remote_comm_id = rep.rep.local_comm_id;
	put_msg(&rtu);
	take_event(events, CTL_CM_EV_ESTABLISHED);
	cm_msg_init(&lap, CM_ATTR_LAP, 1);
	lap.lap.local_comm_id = rep.rep.remote_comm_id;
	lap.lap.remote_comm_id = rep.rep.local_comm_id;
	lap.lap.remote_qpn = qpn;
	lap.lap.alternate.hop_limit = 64;
	lap.lap.alternate.ack_timeout = 17;
	return lap;
}

static void
alternate_path_of_a_LAP_is_the_qps(void **state)
{
	static const struct gid own6 = { { 0xfd, 0, 0, 0x18, [15] = 1 } }, own4 = { { [10] = 0xff, 0xff, 198, 18, 0, 1 } };
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct ctl_qp_create_rsp qp;
	struct cm_msg lap, apr;
	struct ctl_rsp r;
	struct peer p;
	int events, sock = listen_for_linux(&events);

	peer_open(&p);
	qp = make_qp(&p);
	lap = connect_linux(sock, events, qp.qpn);
	/* An address that isn't ours: the answer has one that is. */
	lap.lap.alternate.local_gid = own6;
	lap.lap.alternate.remote_gid = own6;
	lap.lap.alternate.remote_gid.raw[14] = 9;
	put_msg(&lap);
	take_msg(CM_ATTR_APR, &apr);
	assert_int_equal(apr.apr.status, CM_APR_INVALID_GID);
	assert_int_equal(apr.apr.info_bytes, sizeof(own4));
	assert_memory_equal(apr.apr.info, &own4, sizeof(own4));
	q.handle.handle = qp.handle;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(r.qp_query.attr.path_mig_state, 0);
	/* One that is. */
	lap.hdr.tid++;
	lap.lap.alternate.remote_gid.raw[14] = 0;
	put_msg(&lap);
	take_msg(CM_ATTR_APR, &apr);
	assert_int_equal(apr.apr.status, CM_APR_SUCCESS);
	assert_int_equal(apr.hdr.tid, lap.hdr.tid);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(r.qp_query.attr.path_mig_state, 1);
	assert_memory_equal(r.qp_query.attr.alt_ah.dgid, &own6, sizeof(own6));
	assert_int_equal(r.qp_query.attr.alt_timeout, 17);
	/* A QP that is gone has none. */
	q = peer_req(CTL_QP_DESTROY);
	q.handle.handle = qp.handle;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	lap.hdr.tid++;
	put_msg(&lap);
	take_msg(CM_ATTR_APR, &apr);
	assert_int_equal(apr.apr.status, CM_APR_UNSUPPORTED);
	peer_close(&p);
	close(sock);
	close(events);
	assert_true(daemon_wait_empty());
	part();
}

/* The QP's session and the id's may be of two processes, which both are number 0. */
static void
LAP_for_an_unknown_process_is_refused(void **state)
{
	static const struct gid own6 = { { 0xfd, 0, 0, 0x18, [15] = 1 } };
	struct ctl_qp_create_rsp qp;
	struct cm_msg lap, apr;
	int events, sock;
	struct peer p;

	__atomic_store_n(&foreign, true, __ATOMIC_SEQ_CST);
	sock = listen_for_linux(&events);
	peer_open(&p);
	__atomic_store_n(&foreign, false, __ATOMIC_SEQ_CST);
	qp = make_qp(&p);
	lap = connect_linux(sock, events, qp.qpn);
	lap.lap.alternate.local_gid = own6;
	lap.lap.alternate.remote_gid = own6;
	put_msg(&lap);
	take_msg(CM_ATTR_APR, &apr);
	assert_int_equal(apr.apr.status, CM_APR_UNSUPPORTED);
	close(sock);
	close(events);
	peer_close(&p);
	assert_true(daemon_wait_empty());
	part();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_req_gets_the_rej_that_linux_sends),
		cmocka_unit_test(answer_has_the_ports_own_pkey),
		cmocka_unit_test(what_deserves_no_answer_gets_none),
		cmocka_unit_test(qp_begins_where_the_peer_wants_it),
		cmocka_unit_test(alternate_path_of_a_LAP_is_the_qps),
		cmocka_unit_test(LAP_for_an_unknown_process_is_refused),
		cmocka_unit_test(address_of_the_other_family_is_refused),
	};

	return DAEMON_TESTS(tests, 8, 64, load_frames);
}
