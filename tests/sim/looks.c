/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at QPs as `uroce qp` and telemetry do (transport/diag/diag.h), now and then at one of them, whatever it is doing:
 *
 * - What the view says agrees with what the client knows: sizes of queues, attributes, state. No more is posted and in flight than its
 *   client has posted and not seen complete; PSNs are in order; nothing is more than there can be.
 * - The explanation and the text of each event are whole sentences of the promised length, the state first; events are in order of time.
 * - What another thread may read at a glance is the same.
 * - The address that a QP says to be its own is that of its path. An engine's depths are those of its TX vectors and pools.
 *
 * A look draws nothing: the seeds stay what they are without it.
 */
#include <string.h>

#include "sim.h"
#include "transport/core/srq_priv.h"
#include "transport/core/types_priv.h"
#include "transport/diag/diag.h"
#include "transport/path/changes.h"

enum { LOOK_EVERY = 251, EVENTS_EVERY = 7, LOOK_EVENTS = 16 };

#define AGREES(what) \
	do { \
		if (!(what)) { \
			sim_fail(w, "QP %u (%s): a look at it doesn't agree: %s", q->id, qp_state_name(v->state), #what); \
			return; \
		} \
	} while (0)

static void
check_queues(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	bool sends = q->params.type != UROCE_QPT_XRC_RECV, receives = q->params.type != UROCE_QPT_XRC_SEND && sends;

	AGREES(v->tx.depth == (sends ? q->sq_depth : 0));
	AGREES(v->tx.posted == (sends ? q->sq.counter - q->qp->req.sq.counter : 0));
	AGREES(v->tx.posted + v->tx.in_flight <= v->tx.depth);
	AGREES(!q->ready || v->tx.posted + v->tx.in_flight <= q->nb_posted - q->nb_retired);
	AGREES((v->tx.head_op == UROCE_WR_OPS) == (v->tx.in_flight == 0));
	AGREES(v->send_cq.unpolled <= v->send_cq.size && v->recv_cq.unpolled <= v->recv_cq.size);
	if (!receives)
		return;
	AGREES(v->rx.srq == (q->rq->srq != NULL));
	AGREES(v->rx.depth == (v->rx.srq ? 0 : q->rq->depth));
	AGREES(v->rx.posted == (v->rx.srq ? 0 : q->rq->ring.counter - q->qp->rcv.rq.counter));
	AGREES(v->rx.srq_depth == (v->rx.srq ? q->rq->depth : 0));
	AGREES(v->rx.srq_posted == (v->rx.srq ? q->rq->ring.counter - q->rq->srq->ring.counter : 0));
}

static void
check_connection(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	struct uroce_qp_attr a;

	qp_query(q->qp, &a);
	AGREES(v->state == a.qp_state && v->qpn == q->qpn && v->port == q->port && v->type == q->params.type);
	/* Where nothing is sent any more nothing is waited for. */
	if (v->state == UROCE_QPS_RESET || v->state == UROCE_QPS_ERR)
		AGREES(v->tx.deadline_ns == 0 && !v->tx.rnr_wait);
	if (q->conn->type != UROCE_QPT_RC || v->state < UROCE_QPS_RTS || v->state > UROCE_QPS_SQD)
		return;
	AGREES(v->dest_qpn == a.dest_qp_num && v->mtu_bytes == q->mtu && v->ip_version != 0);
	/* In SQD its program may have allowed fewer than there are. */
	AGREES(v->tx.max_rd == a.max_rd_atomic && v->tx.rd_out <= UROCE_MAX_RD_ATOMIC);
	AGREES(v->rx.max_dest_rd == a.max_dest_rd_atomic && v->rx.res_pending <= v->rx.max_dest_rd);
	AGREES(v->tx.retry_cnt == a.retry_cnt && v->tx.retry_left <= v->tx.retry_cnt);
	AGREES(v->tx.rnr_retry == a.rnr_retry && v->tx.rnr_left <= v->tx.rnr_retry);
	AGREES(v->tx.timeout == a.timeout && v->rx.min_rnr_timer == a.min_rnr_timer);
	AGREES(wire_psn_diff(v->tx.psn_cur, v->tx.psn_una) >= 0 && wire_psn_diff(v->tx.psn_max, v->tx.psn_cur) >= 0);
	AGREES(wire_psn_diff(v->tx.psn_next, v->tx.psn_max) >= 0);
	AGREES(v->tx.packets_in_flight == (uint32_t)wire_psn_diff(v->tx.psn_max, v->tx.psn_una));
	AGREES(v->tx.lost <= v->tx.packets_in_flight);
	AGREES(!v->rx.midway || v->rx.message_bytes <= UINT32_C(1) << 31);
}

/* One sentence in each line. */
static void
check_text(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	char text[DIAG_TEXT_BYTES];
	const char *line = qp_explain(v, text), *state = qp_state_name(v->state), *end;

	AGREES(memchr(text, '\0', sizeof(text)) != NULL);
	if (v->state != UROCE_QPS_RTS)
		AGREES(strncmp(text, state, strlen(state)) == 0);
	/* It is in one state, and only the first line says which. */
	for (enum uroce_qp_state other = UROCE_QPS_RESET; other <= UROCE_QPS_ERR; other++) {
		size_t bytes = strlen(qp_state_name(other));

		for (const char *next = strchr(text, '\n'); next != NULL; next = strchr(next + 1, '\n'))
			AGREES(strncmp(next + 1, qp_state_name(other), bytes) != 0 || next[1 + bytes] != ':');
	}
	for (; line != NULL; line = end != NULL ? end + 1 : NULL) {
		end = strchr(line, '\n');
		AGREES(end != line && *line != '\0');
		AGREES((end != NULL ? (size_t)(end - line) : strlen(line)) < DIAG_LINE_BYTES);
	}
}

static void
check_events(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	struct qp_event ev[LOOK_EVENTS];
	char text[DIAG_LINE_BYTES];
	uint32_t n = qp_events(q->tp, q->qpn, ev, LOOK_EVENTS);

	for (uint32_t i = 0; i < n; i++) {
		AGREES(ev[i].qpn == q->qpn && ev[i].count != 0);
		AGREES(i == 0 || ev[i].ns >= ev[i - 1].ns);
		AGREES(qp_event_text(&ev[i], text)[0] != '\0' && memchr(text, '\0', sizeof(text)) != NULL);
	}
}

static void
check_glance(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	struct qp_glance g;

	qp_glance(q->qp, &g);
	AGREES(g.qpn == v->qpn && g.dest_qpn == v->dest_qpn && g.type == v->type && g.state == v->state);
	AGREES(g.cwnd == v->tx.cwnd && g.wait == v->tx.wait && g.srtt_ns == v->tx.srtt_ns);
	AGREES(g.packets_in_flight == v->tx.packets_in_flight && g.receives == v->rx.msn);
	AGREES(g.ip_version == v->ip_version && (g.ip_version == 0 || memcmp(g.dip, v->dip, g.ip_version == 4 ? 4 : 16) == 0));
}

static void
check_own_address(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	const struct wire_addr *a = &q->path.addr;
	struct gid gid, own = gid_from_ip(a->ip_version, a->sip);

	if (v->state < UROCE_QPS_RTR || q->conn->type == UROCE_QPT_UD || q->conn->several_paths)
		return;
	AGREES(qp_own_gid(q->qp, &gid) && memcmp(&gid, &own, sizeof(gid)) == 0);
}

/* Of the QP's engine. */
static void
check_depths(struct sim_world *w, const struct sim_qp *q, const struct qp_view *v)
{
	uint32_t waiting = transport_loop(q->tp)->n;
	struct tp_depths d;

	for (uint16_t port = 0; port < q->ep->nb_ports; port++)
		waiting += transport_tx(q->tp, port)->n;
	transport_depths(q->tp, &d);
	AGREES(d.tx_waiting == waiting && d.active_qps <= d.qps && d.qps != 0);
	AGREES(d.inflight_blocks <= d.inflight_blocks_max && d.reordered <= d.reordered_max);
}

void
looks_turn(struct sim_world *w)
{
	uint64_t n = w->stats.events / LOOK_EVERY;
	struct sim_qp *q = &w->conns[n / 2 % w->cfg.nb_conns].qp[n % 2];
	struct qp_view v;

	if (w->stats.events % LOOK_EVERY != 0 || q->qp == NULL || q->foreign != NULL || moves_away(q))
		return;
	qp_look(q->qp, w->now_ns, &v);
	check_connection(w, q, &v);
	check_queues(w, q, &v);
	check_text(w, q, &v);
	/* Those of all QPs are in one ring, which is long. */
	if (n % EVENTS_EVERY == 0)
		check_events(w, q, &v);
	check_glance(w, q, &v);
	check_own_address(w, q, &v);
	check_depths(w, q, &v);
}
