/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What may come of UC and UD: messages get lost, but what arrives is whole and right. On a network that neither
 * reorders nor repeats it arrives in order and once; on one that loses nothing all of it does.
 */
#include <inttypes.h>
#include <string.h>

#include "model.h"

enum { SL_IPV4 = 0xa, SL_IPV6 = 0x9 };

static uint32_t
grh_bytes(const struct sim_qp *q)
{
	return q->params.type == UROCE_QPT_UD ? WIRE_GRH_BYTES : 0;
}

/* Is this message what the CQE and the bytes placed say? */
static bool
fits(const struct sim_op *op, const struct ring_cqe *e, union ring_cqe_ctl ctl, const uint8_t *seen, uint32_t len)
{
	bool write = e->opcode == UROCE_WC_RECV_RDMA_WITH_IMM, imm = (ctl.wc_flags & UROCE_WC_WITH_IMM) != 0;
	uint8_t *want = scratch(0, len + 1);

	if (!op_consumes(op) || op->plant != SIM_PLANT_NONE || op->len != len)
		return false;
	if (write != (op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM) || imm != (op->opcode != UROCE_WR_SEND) ||
	    (imm && e->imm != op->imm) || ctl.solicited != ((op->flags & UROCE_SEND_SOLICITED) != 0))
		return false;
	if (write)
		return true;
	op_data(op, 0, len, want);
	return memcmp(want, seen, len) == 0;
}

/* @return the first of the sender's messages, to @p group or to the QP, that this can be, or its number of operations. */
static uint32_t
find_message(const struct sim_world *w, const struct sim_qp *q, const struct sim_qp *from, uint32_t group,
	     const struct ring_cqe *e, union ring_cqe_ctl ctl, const uint8_t *seen, uint32_t len)
{
	uint32_t s = w->cfg.ordered ? q->rx_from[from->id][group] : 0;

	while (s < from->nb_posted && (from->ops[s].group != group || !op_reaches(&from->ops[s], q) ||
				       !fits(&from->ops[s], e, ctl, seen, len)))
		s++;
	return s;
}

/* The way of datagrams from one QP to another, or to a group that this is in. */
static const struct tp_path *
way_of(const struct sim_qp *from, const struct sim_qp *q, uint32_t group)
{
	return group != 0 ? &from->groups[group].path : &from->paths[q->id];
}

/* Was it this QP that sent the datagram? QPNs are an endpoint's own. */
static bool
sent_it(const struct sim_qp *from, const struct sim_qp *q, uint32_t group, const struct ring_cqe *e, const uint8_t *grh)
{
	const struct wire_addr *a = &way_of(from, q, group)->addr;
	bool ip4 = a->ip_version == 4;

	return (group != 0 ? from->groups[group].ah : from->ahs[q->id]) != 0 && e->src_qp == from->qpn && (ip4 ? grh[0] == 0 : grh[0] >> 4 == 6) &&
	       memcmp(ip4 ? grh + WIRE_GRH_BYTES - 8 : grh + 8, a->sip, ip4 ? 4 : 16) == 0;
}

/* @return who sent a message, or NULL. */
static const struct sim_qp *
sender(const struct sim_world *w, const struct sim_qp *q, uint32_t group, const struct ring_cqe *e, const uint8_t *grh)
{
	uint32_t i;

	if (q->params.type != UROCE_QPT_UD)
		return q->peer;
	for (i = 0; i < 2 * w->cfg.nb_conns; i++)
		if (sent_it(&w->conns[i / 2].qp[i & 1], q, group, e, grh))
			return &w->conns[i / 2].qp[i & 1];
	return NULL;
}

/* The 40 bytes before a datagram (A17.4.5.1), and what the CQE says about where it comes from. */
static void
check_grh(struct sim_world *w, const struct sim_qp *q, const struct sim_qp *from, uint32_t group,
	  const struct ring_cqe *e, union ring_cqe_ctl ctl, const uint8_t *grh)
{
	const struct wire_addr *a = &way_of(from, q, group)->addr;
	bool ip4 = a->ip_version == 4;
	const uint8_t *ip = ip4 ? grh + WIRE_GRH_BYTES - WIRE_IPV4_BYTES : grh;
	uint32_t sum = 0, i;

	if (e->src_qp != from->qpn || (ctl.wc_flags & UROCE_WC_GRH) == 0 || ctl.sl != (ip4 ? SL_IPV4 : SL_IPV6) ||
	    ctl.pkey_index != q->attr.pkey_index)
		sim_fail(w, "QP %u: a datagram of QP 0x%06x, flags 0x%x, sl %u", q->id, e->src_qp, ctl.wc_flags,
			 ctl.sl);
	if (ip[0] >> 4 != a->ip_version || memcmp(ip + (ip4 ? 12 : 8), a->sip, ip4 ? 4 : 16) != 0 ||
	    memcmp(ip + (ip4 ? 16 : 24), a->dip, ip4 ? 4 : 16) != 0)
		sim_fail(w, "QP %u: the addresses before a datagram are wrong", q->id);
	for (i = 0; ip4 && i < WIRE_IPV4_BYTES; i += 2)
		sum += wire_get16(ip + i);
	if (ip4 && (sum & 0xffff) + (sum >> 16) != 0xffff)
		sim_fail(w, "QP %u: the IPv4 header before a datagram has a bad checksum", q->id);
}

/* The bytes of a WRITE are there, or those of another that may have come after it. */
static void
check_written(struct sim_world *w, const struct sim_qp *q, uint32_t s)
{
	const struct sim_op *op = &q->peer->ops[s];
	const uint8_t *seen = q->target_mr.base + op->target_off;
	uint8_t *want = scratch(0, op->len + 1);
	uint32_t from = w->cfg.ordered ? s + 1 : 0, i;

	op_data(op, 0, op->len, want);
	if (memcmp(want, seen, op->len) == 0)
		return;
	for (i = 0; i < op->len; i++)
		if (want[i] != seen[i] &&
		    !may_be_written(q->peer, from, q->peer->nb_posted, op->target_off + i, seen[i]))
			break;
	if (i != op->len)
		sim_fail(w, "QP %u: WRITE %u is there, but not its byte %u", q->id, s, i);
}

/* Bytes that lie before a receive's bad lkey. */
static uint32_t
usable_bytes(const struct sim_recv *r)
{
	return r->plant == SIM_PLANT_RECV_LKEY ? r->len - r->pieces[r->nsge - 1].len : r->len;
}

void
unreliable_recv_ok(struct sim_world *w, struct sim_qp *q, const struct sim_recv *r, const struct ring_cqe *e,
		   union ring_cqe_ctl ctl)
{
	uint32_t grh = grh_bytes(q), placed, s, group;
	const struct sim_qp *from;
	uint8_t *seen;
	bool left;

	if (q->rq_error || q->rq_flush)
		sim_fail(w, "QP %u: a receive succeeds after an error", q->id);
	if ((e->opcode != UROCE_WC_RECV && (e->opcode != UROCE_WC_RECV_RDMA_WITH_IMM || grh != 0)) ||
	    e->byte_len < grh) {
		sim_fail(w, "QP %u: a message of opcode %u, %u bytes", q->id, e->opcode, e->byte_len);
		return;
	}
	placed = e->opcode == UROCE_WC_RECV ? e->byte_len : 0;
	if (placed > usable_bytes(r)) {
		sim_fail(w, "QP %u: a message of %u bytes in a receive of %u", q->id, placed, usable_bytes(r));
		return;
	}
	seen = scratch(1, placed + 1);
	gather(r->pieces, r->nsge, placed, seen);
	group = grh != 0 ? mcast_group_of(w, seen) : 0;
	from = sender(w, q, group, e, seen);
	if (from == NULL) {
		sim_fail(w, "QP %u: a datagram of nobody, QP 0x%06x", q->id, e->src_qp);
		return;
	}
	s = find_message(w, q, from, group, e, ctl, seen + grh, e->byte_len - grh);
	if (s == from->nb_posted) {
		sim_fail(w, "QP %u: a message of opcode %u, %u bytes that wasn't sent, or not after %u", q->id,
			 e->opcode, e->byte_len, q->rx_from[from->id][group]);
		return;
	}
	/*
	 * A UC message that was abandoned may have left its bytes in the receive's room; so may a datagram that was dropped by a restart after
	 * its bytes had been copied, or in a turn that didn't count.
	 */
	left = q->params.type == UROCE_QPT_UC || ((w->copies || (w->cfg.faults & SIM_F_CRASH)) && q->ep->restarts != 0);
	if (!around_is_clean(r->pieces, r->nsge, left ? r->len : placed))
		sim_fail(w, "QP %u: message %u wrote beside its receive buffer", q->id, s);
	if (grh != 0)
		check_grh(w, q, from, group, e, ctl, seen);
	if (e->opcode == UROCE_WC_RECV_RDMA_WITH_IMM)
		check_written(w, q, s);
	q->rx_from[from->id][group] = s + 1;
	q->got_from[from->id]++;
	q->nb_messages++;
}

/* Only the program's own mistakes: a message that is too long for its receive is dropped. */
bool
unreliable_recv_error_possible(const struct sim_qp *q, const struct sim_recv *r, uint8_t status)
{
	return status == UROCE_WC_LOC_PROT_ERR && (r->plant == SIM_PLANT_RECV_LKEY || q->local_dereg == &q->rq->mr);
}

/* Nothing in the way of any message to p. */
static bool
all_must_arrive(const struct sim_world *w, const struct sim_qp *p)
{
	uint32_t i;

	if (!w->cfg.lossless || !w->cfg.ordered || (w->cfg.faults & SIM_F_ENDS))
		return false;
	for (i = 0; i < p->ep->nb_engines; i++) {
		const struct tp_counters *c = transport_counters(p->ep->engines[i].tp);

		if (c->rx_uc_no_wqe != 0 || c->rx_ud_no_wqe != 0 || c->resp_local_length_error != 0 ||
		    c->rx_handoff_dropped != 0 || c->rx_copy_dropped != 0)
			return false;
	}
	return true;
}

/* Every byte of the peer's target area is 0 or one that some WRITE put there. */
static void
check_target(struct sim_world *w, const struct sim_qp *q)
{
	const struct sim_mr *t = &q->peer->target_mr;
	uint8_t *known = scratch(0, t->len), *data;
	uint32_t i, k;

	for (i = 0; i < t->len; i++)
		known[i] = t->base[i] == 0;
	for (i = 0; i < q->nb_posted; i++) {
		const struct sim_op *op = &q->ops[i];

		if (!op_writes(op))
			continue;
		data = scratch(1, op->len + 1);
		op_data(op, 0, op->len, data);
		for (k = 0; k < op->len; k++)
			known[op->target_off + k] |= data[k] == t->base[op->target_off + k];
	}
	for (i = 0; i < t->len && known[i]; i++)
		;
	if (i != t->len)
		sim_fail(w, "QP %u: byte %u of its target area was never sent", q->id, i);
}

/* Copies for members on the sender's host need mbufs. */
static bool
no_loop_dropped(const struct sim_ep *ep)
{
	uint32_t i;

	for (i = 0; i < ep->nb_engines && transport_counters(ep->engines[i].tp)->mcast_loop_dropped == 0; i++)
		;
	return i == ep->nb_engines;
}

static void
check_all_arrived(struct sim_world *w, const struct sim_qp *q, const struct sim_qp *to)
{
	uint32_t i, sent = 0;

	for (i = 0; i < q->nb_posted; i++)
		sent += op_reaches(&q->ops[i], to) && op_consumes(&q->ops[i]);
	if (all_must_arrive(w, to) && mcast_steady(to) && (q->ep != to->ep || no_loop_dropped(q->ep)) && sent != to->got_from[q->id])
		sim_fail(w, "QP %u: %u messages sent to QP %u, %u arrived, nothing was lost", q->id, sent, to->id,
			 to->got_from[q->id]);
}

void
unreliable_end(struct sim_world *w, struct sim_qp *q)
{
	struct sim_qp *p = q->peer;
	int64_t bad;
	uint32_t i;

	check_target(w, q);
	for (i = 0; i < 2 * w->cfg.nb_conns; i++)
		check_all_arrived(w, q, &w->conns[i / 2].qp[i & 1]);
	if (!all_must_arrive(w, p))
		return;
	bad = target_compare(q, p->target_mr.base, 0, p->target_mr.len, q->nb_posted, q->nb_posted);
	if (bad >= 0)
		sim_fail(w, "QP %u: byte %" PRId64 " of its target area is wrong", q->id, bad);
}
