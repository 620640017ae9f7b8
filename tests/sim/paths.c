/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Automatic path migration (17.2.8): connections whose ends have several addresses. Programs load alternate paths and change to
 * them; paths die. Whatever happens nothing is lost that the service promises, and both ends end up on the same path.
 */
#include <string.h>

#include "sim.h"
#include "transport/core/rx_wait_priv.h"

enum {
	STREAM_PATHS = 1280,
	PATHS_PER_CONN = 40, /* then they are used again; a byte holds all numbers */
	MIG_MIGRATED = 0,
	MIG_REARM,
	MIG_ARMED, /* of enum ibv_mig_state */
	PATH_CHANGES_MOST = 30,
	TIMEOUT_MIN = 9,
	TIMEOUT_MAX = 11,
};

static uint8_t
next_number(const struct sim_conn *c, uint8_t number)
{
	uint8_t first = (uint8_t)(1 + c->id * PATHS_PER_CONN);

	return number < first || number + 1 == first + PATHS_PER_CONN ? first : (uint8_t)(number + 1);
}

void
paths_begin(struct sim_world *w, struct sim_conn *c)
{
	unsigned int i;

	if (c->paths == 0) {
		c->path_rng = rng_stream(w->cfg.seed, STREAM_PATHS + c->id);
		c->several_paths = (w->cfg.faults & SIM_F_APM) && c->type != UROCE_QPT_UD && !c->loopback && !c->foreign &&
				   !rng_one_in(&c->path_rng, 4);
	}
	if (!c->several_paths)
		return;
	c->paths = next_number(c, c->paths);
	c->dead_path = 0;
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		q->paths_now = (struct sim_paths){ .number = c->paths };
		paths_address(&q->path, &q->attr.ah, c->paths);
		/* Without an ACK timeout it would never notice that its path is dead. */
		if (q->attr.timeout == 0)
			q->attr.timeout = TIMEOUT_MIN;
	}
}

static void
number_address(uint8_t *ip, bool ip6, uint8_t number)
{
	ip[ip6 ? 14 : 2] = number;
}

void
paths_address(struct tp_path *path, struct uroce_ah_attr *ah, uint8_t number)
{
	bool ip6 = path->addr.ip_version == 6;

	number_address(path->addr.sip, ip6, number);
	number_address(path->addr.dip, ip6, number);
	ah->dgid[14] = number;
}

static uint32_t
state(const struct sim_qp *q)
{
	struct uroce_qp_attr a;

	qp_query(q->qp, &a);
	return a.path_mig_state;
}

/* What it has loaded, and whether the peer's packets have said that it has too. */
static void
check_state(struct sim_world *w, const struct sim_qp *q)
{
	const struct sim_paths *s = &q->paths_now;
	struct uroce_qp_attr a;

	qp_query(q->qp, &a);
	if (!s->loaded ? a.path_mig_state != MIG_MIGRATED : a.path_mig_state == MIG_MIGRATED)
		sim_fail(w, "QP %u: migration state %u, %s alternate path", q->id, a.path_mig_state,
			 s->loaded ? "with an" : "without");
	if (a.path_mig_state == MIG_ARMED && !s->peer_ready && !w->copies)
		sim_fail(w, "QP %u: is armed, but its peer hasn't said that it is ready", q->id);
	/* In ERR it looks at nothing any more, and not yet at packets that wait for its turn. What it was told in a turn that doesn't count it hasn't heard. */
	if (s->loaded && a.path_mig_state != MIG_ARMED && s->peer_ready && q->ep->nb_engines == 1 &&
	    (a.qp_state == UROCE_QPS_RTS || a.qp_state == UROCE_QPS_SQD) &&
	    !(w->cfg.faults & (SIM_F_CORRUPT | SIM_F_STALL | SIM_F_CRASH)) && !w->copies && !rx_waits(q->qp))
		sim_fail(w, "QP %u: isn't armed, but its peer has said that it is ready", q->id);
	if (a.qp_state == UROCE_QPS_RTS && memcmp(&a.ah, &q->attr.ah, sizeof(a.ah)) != 0)
		sim_fail(w, "QP %u: an address that isn't its own", q->id);
}

static void
load(struct sim_world *w, struct sim_qp *q)
{
	struct sim_conn *c = q->conn;
	struct sim_paths *s = &q->paths_now;
	struct uroce_qp_attr a = q->attr;

	/* Both ends load the same one; the next one when both have changed to it. */
	if (c->alternate == 0 || (c->qp[0].paths_now.number == c->alternate && c->qp[1].paths_now.number == c->alternate)) {
		c->paths = next_number(c, c->paths);
		c->alternate = c->paths;
	}
	if (s->number == c->alternate)
		return;
	s->alt = q->path;
	a.alt_ah = a.ah;
	paths_address(&s->alt, &a.alt_ah, c->alternate);
	a.alt_port_num = 1;
	a.alt_pkey_index = a.pkey_index;
	a.alt_timeout = (uint8_t)(rng_between(&c->path_rng, TIMEOUT_MIN, TIMEOUT_MAX) +
				  ((w->cfg.faults & SIM_F_RESTART) ? SIM_RESTART_TIMEOUT : 0));
	a.path_mig_state = MIG_REARM;
	if (qp_modify_paths(q->tp, q->qp, &a, UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE, NULL, &s->alt, w->now_ns) != 0) {
		sim_fail(w, "QP %u: an alternate path is refused", q->id);
		return;
	}
	q->rnr_count = 0;
	q->attr.alt_ah = a.alt_ah;
	q->attr.alt_pkey_index = a.alt_pkey_index;
	q->attr.alt_timeout = a.alt_timeout;
	s->loaded = true;
	s->peer_ready = s->ordered = false;
	s->alt_number = c->alternate;
	s->since_ns = w->now_ns;
	sim_trace(w, "QP %u: has the alternate path %u", q->id, s->alt_number);
}

static void
order(struct sim_world *w, struct sim_qp *q)
{
	struct uroce_qp_attr a = { .path_mig_state = MIG_MIGRATED };
	uint8_t to = q->paths_now.alt_number;

	sim_trace(w, "QP %u: is to migrate", q->id);
	q->paths_now.ordered = true;
	if (qp_modify(q->tp, q->qp, &a, UROCE_QP_PATH_MIG_STATE, NULL, w->now_ns) != 0)
		sim_fail(w, "QP %u: a migration is refused", q->id);
	else if (q->paths_now.number != to || state(q) != MIG_MIGRATED)
		sim_fail(w, "QP %u: hasn't migrated as it was told", q->id);
	world_run_at(w, q->ep->id, w->now_ns);
}

void
paths_unheard(struct sim_qp *q)
{
	if (rx_waits(q->qp) && state(q) != MIG_ARMED)
		q->paths_now.peer_ready = false;
}

void
paths_turn(struct sim_world *w, struct sim_qp *q)
{
	struct sim_conn *c = q->conn;
	struct rng *r = &c->path_rng;

	if (!c->several_paths || c->done || q->abandoned)
		return;
	check_state(w, q);
	if (!q->ready || !q->peer->ready || (qp_state(q->qp) != UROCE_QPS_RTS && qp_state(q->qp) != UROCE_QPS_SQD) ||
	    q->peer->qp == NULL)
		return;
	if (!q->paths_now.loaded) {
		if (rng_one_in(r, 4))
			load(w, q);
		return;
	}
	/* Who changes while the peer isn't armed leaves it behind. */
	if (state(q) != MIG_ARMED || state(q->peer) != MIG_ARMED || !rng_one_in(r, 8))
		return;
	/* Where every path dies at once nothing gets done. */
	if (c->path_changes == PATH_CHANGES_MOST)
		return;
	c->path_changes++;
	if (c->type == UROCE_QPT_RC && rng_one_in(r, 2)) {
		c->dead_path = q->paths_now.number;
		sim_trace(w, "connection %u: path %u dies", c->id, c->dead_path);
	} else {
		order(w, q);
	}
}

void
paths_event(struct sim_world *w, struct sim_qp *q, enum uroce_event type, bool may_fail)
{
	struct sim_paths *s = &q->paths_now;

	if (type == UROCE_EVENT_PATH_MIG_ERR) {
		/* A packet that has waited for a copy may be older than the alternate path. */
		if (!s->loaded || (!s->provoked && !w->copies) || s->told)
			sim_fail(w, "QP %u: a failed migration without a reason, or told twice", q->id);
		s->told = true;
		return;
	}
	if (!s->loaded) {
		sim_fail(w, "QP %u: migrates without an alternate path", q->id);
		return;
	}
	/* Copies may be so slow that retries are used up. */
	if (!s->ordered && !may_fail && !w->copies && q->conn->dead_path != s->number && q->peer->paths_now.number != s->alt_number)
		sim_fail(w, "QP %u: migrates without a reason", q->id);
	sim_trace(w, "QP %u: migrates from path %u to %u", q->id, s->number, s->alt_number);
	q->path = s->alt;
	q->attr.ah = q->attr.alt_ah;
	q->attr.timeout = q->attr.alt_timeout;
	s->old_number = s->number;
	s->number = s->alt_number;
	s->loaded = s->told = s->provoked = false;
	s->since_ns = w->now_ns;
	/* Congestion of the old path says nothing of the new one. */
	q->cnp_ns = 0;
}

static uint8_t
packet_number(const struct wire_pkt *p, bool source)
{
	return p->ip_version == 4 ? p->l3[(source ? 12 : 16) + 2] : p->l3[(source ? 8 : 24) + 14];
}

bool
paths_current(const struct sim_qp *q, const struct wire_pkt *p)
{
	return !q->conn->several_paths || packet_number(p, true) == q->paths_now.number;
}

void
paths_sent(struct sim_world *w, const struct sim_qp *q, const struct wire_pkt *p)
{
	const struct sim_paths *s = &q->paths_now;
	/* What was built before it changed leaves after that. */
	bool late = w->now_ns == s->since_ns;
	uint8_t number = packet_number(p, true);
	/* An offer is made when a forged SACK comes, and leaves with the next turn. */
	bool offer = w->hostile && WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_WRITE_ONLY && p->payload_bytes == 0;

	/* It may have waited in a TX vector for any time. */
	if (!q->conn->several_paths || (w->cfg.faults & SIM_F_SLOW_TX))
		return;
	if (number != packet_number(p, false) || (number != s->number && !(late && number == s->old_number)))
		sim_fail(w, "QP %u: sends by path %u, is on %u", q->id, number, s->number);
	/* 1: it stands on its last path. */
	if (p->bth.migreq == s->loaded && !late && !offer && p->bth.opcode != WIRE_OPCODE_CNP)
		sim_fail(w, "QP %u: MigReq is %d, %s alternate path", q->id, p->bth.migreq, s->loaded ? "with an" : "without");
}

void
paths_arrives(const struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p)
{
	struct sim_paths *s = &q->paths_now;

	if (!s->loaded || p->bth.opcode == WIRE_OPCODE_CNP || packet_number(p, true) != s->number)
		return;
	if (!p->bth.migreq)
		s->peer_ready = true;
	/* From before the peer was ready. */
	else if (w->cfg.faults & SIM_F_REORDER)
		s->provoked = true;
}

bool
paths_dead(const struct sim_world *w, struct rte_mbuf *m)
{
	const uint8_t *l3 = rte_pktmbuf_mtod_offset(m, const uint8_t *, WIRE_ETH_BYTES);
	uint8_t number = l3[0] >> 4 == 4 ? l3[12 + 2] : l3[8 + 14];
	uint32_t i;

	if ((w->cfg.faults & SIM_F_APM) == 0 || number == 0)
		return false;
	for (i = 0; i < w->cfg.nb_conns; i++)
		if (w->conns[i].dead_path == number)
			return true;
	return false;
}

void
paths_retired(struct sim_world *w, const struct sim_qp *q, const struct sim_op *op)
{
	if (!q->conn->several_paths || q->conn->type != UROCE_QPT_RC || op_local(op) ||
	    op->posted_ns <= q->paths_now.since_ns || q->paths_now.loaded || q->abandoned || q->peer->abandoned)
		return;
	/* An answer to what was sent by the new path comes by it. */
	if (q->peer->paths_now.number != q->paths_now.number)
		sim_fail(w, "QP %u: its peer is on path %u, not on %u, but answers", q->id, q->peer->paths_now.number,
			 q->paths_now.number);
}
