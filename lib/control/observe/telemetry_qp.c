/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: QPs. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "control/obj/obj_qp_priv.h"
#include "control/observe/inspect_priv.h"
#include "control/observe/telemetry_priv.h"

enum { EVENTS_SHOWN = 32 };

static void
add_address(struct rte_tel_data *d, const char *name, const uint8_t ip[16], uint8_t version)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(version == 4 ? AF_INET : AF_INET6, ip, text, sizeof(text));
	rte_tel_data_add_dict_string(d, name, text);
}

static void
add_owner(struct rte_tel_data *d, const struct inspect_qp *qp)
{
	const struct qp_view *v = &qp->v;

	rte_tel_data_add_dict_uint(d, "qpn", v->qpn);
	rte_tel_data_add_dict_string(d, "type", qp_type_name(v->type));
	rte_tel_data_add_dict_string(d, "state", qp_state_name(v->state));
	rte_tel_data_add_dict_string(d, "program", qp->program);
	rte_tel_data_add_dict_uint(d, "pid", (uint64_t)qp->pid);
	rte_tel_data_add_dict_uint(d, "session", qp->session);
	rte_tel_data_add_dict_string(d, "device", qp->device);
	rte_tel_data_add_dict_uint(d, "engine", v->engine);
	rte_tel_data_add_dict_uint(d, "dest_qpn", v->dest_qpn);
	rte_tel_data_add_dict_uint(d, "pd", v->pd);
	rte_tel_data_add_dict_uint(d, "pkey", v->pkey);
	rte_tel_data_add_dict_uint(d, "mtu", v->mtu_bytes);
	rte_tel_data_add_dict_uint(d, "send_cq", qp->send_cq);
	rte_tel_data_add_dict_uint(d, "recv_cq", qp->recv_cq);
	if (v->ip_version == 0)
		return;
	add_address(d, "address", v->sip, v->ip_version);
	add_address(d, "peer", v->dip, v->ip_version);
	rte_tel_data_add_dict_uint(d, "udp_sport", v->sport);
	rte_tel_data_add_dict_string(d, "loopback", v->loopback ? "yes" : "no");
	rte_tel_data_add_dict_string(d, "path_mig", qp_mig_name(v->path_mig_state));
}

static void
add_requester(struct rte_tel_data *d, const struct qp_view *v)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_uint(d, "depth", v->tx.depth);
	rte_tel_data_add_dict_uint(d, "posted", v->tx.posted);
	rte_tel_data_add_dict_uint(d, "in_flight", v->tx.in_flight);
	rte_tel_data_add_dict_string(d, "oldest", wr_op_name(v->tx.head_op));
	rte_tel_data_add_dict_uint(d, "oldest_wr_id", v->tx.head_wr_id);
	rte_tel_data_add_dict_uint(d, "oldest_bytes", v->tx.head_bytes);
	rte_tel_data_add_dict_string(d, "next", wr_op_name(v->tx.next_op));
	rte_tel_data_add_dict_uint(d, "psn_una", v->tx.psn_una);
	rte_tel_data_add_dict_uint(d, "psn_cur", v->tx.psn_cur);
	rte_tel_data_add_dict_uint(d, "psn_max", v->tx.psn_max);
	rte_tel_data_add_dict_uint(d, "psn_next", v->tx.psn_next);
	rte_tel_data_add_dict_uint(d, "packets_in_flight", v->tx.packets_in_flight);
	rte_tel_data_add_dict_uint(d, "cwnd", v->tx.cwnd);
	rte_tel_data_add_dict_uint(d, "loss_cwnd", v->tx.loss_cwnd);
	rte_tel_data_add_dict_string(d, "cc", tp_cc_name(v->tx.cc));
	rte_tel_data_add_dict_uint(d, "cc_cwnd", v->tx.cc_cwnd);
	rte_tel_data_add_dict_uint(d, "rate_bps", v->tx.rate_bps);
	rte_tel_data_add_dict_uint(d, "max_rd_atomic", v->tx.max_rd);
	rte_tel_data_add_dict_uint(d, "rd_out", v->tx.rd_out);
	rte_tel_data_add_dict_uint(d, "timeout", v->tx.timeout);
	rte_tel_data_add_dict_uint(d, "retry_cnt", v->tx.retry_cnt);
	rte_tel_data_add_dict_uint(d, "retry_left", v->tx.retry_left);
	rte_tel_data_add_dict_uint(d, "rnr_retry", v->tx.rnr_retry);
	rte_tel_data_add_dict_uint(d, "rnr_left", v->tx.rnr_left);
	rte_tel_data_add_dict_string(d, "rnr_wait", v->tx.rnr_wait ? "yes" : "no");
	rte_tel_data_add_dict_string(d, "credits", v->tx.credits ? "yes" : "no");
	rte_tel_data_add_dict_int(d, "credits_left", v->tx.credits ? v->tx.credits_left : 0);
	rte_tel_data_add_dict_string(d, "selective_repeat", v->tx.selective ? "yes" : "no");
	rte_tel_data_add_dict_uint(d, "lost", v->tx.lost);
	rte_tel_data_add_dict_uint(d, "srtt_ns", v->tx.srtt_ns);
	rte_tel_data_add_dict_uint(d, "rtt_min_ns", v->tx.rtt_min_ns);
}

static void
add_responder(struct rte_tel_data *d, const struct qp_view *v)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_uint(d, "depth", v->rx.srq ? v->rx.srq_depth : v->rx.depth);
	rte_tel_data_add_dict_uint(d, "posted", v->rx.srq ? v->rx.srq_posted : v->rx.posted);
	rte_tel_data_add_dict_string(d, "srq", v->rx.srq ? "yes" : "no");
	rte_tel_data_add_dict_uint(d, "epsn", v->rx.epsn);
	rte_tel_data_add_dict_uint(d, "msn", v->rx.msn);
	rte_tel_data_add_dict_uint(d, "message_bytes", v->rx.message_bytes);
	rte_tel_data_add_dict_uint(d, "max_dest_rd_atomic", v->rx.max_dest_rd);
	rte_tel_data_add_dict_uint(d, "responses", v->rx.res_pending);
	rte_tel_data_add_dict_uint(d, "reordered", v->rx.reordered);
	rte_tel_data_add_dict_uint(d, "min_rnr_timer", v->rx.min_rnr_timer);
}

/** Add the QP's rare events, with their age. */
static void
add_events(struct control *c, struct rte_tel_data *d, uint32_t qpn)
{
	struct rte_tel_data *a = tel_array(d, "events", RTE_TEL_STRING_VAL);
	char text[DIAG_LINE_BYTES], line[DIAG_LINE_BYTES + 64];
	struct qp_event e[EVENTS_SHOWN];
	uint64_t now_ns;
	uint32_t n = inspect_qp_events(c, qpn, e, EVENTS_SHOWN, &now_ns);

	for (uint32_t i = 0; a != NULL && i < n; i++) {
		int len = snprintf(line, sizeof(line), "-%.3f ms", (double)(now_ns - e[i].ns) / 1e6);

		if (e[i].count > 1)
			len += snprintf(line + len, sizeof(line) - (size_t)len, " (%u times)", e[i].count);
		snprintf(line + len, sizeof(line) - (size_t)len, ": %s", qp_event_text(&e[i], text));
		line[RTE_TEL_MAX_STRING_LEN - 1] = '\0';
		rte_tel_data_add_array_string(a, line);
	}
}

int
tel_qp(struct control *c, const char *params, struct rte_tel_data *d)
{
	char text[INSPECT_TEXT_BYTES];
	struct inspect_qp qp;
	uint64_t number;

	if (!tel_number(params, &number))
		return tel_list(c, INSPECT_QP, params, d);
	if (number > UINT32_MAX || inspect_qp(c, (uint32_t)number, &qp) != 0) {
		tel_gone(d, "QP", params);
		if (number <= UINT32_MAX && number != 0)
			add_events(c, d, (uint32_t)number);
		return 0;
	}
	rte_tel_data_start_dict(d);
	add_owner(d, &qp);
	inspect_explain(&qp, text);
	tel_strings(d, "why", text, "\n");
	add_requester(tel_dict(d, "requester"), &qp.v);
	add_responder(tel_dict(d, "responder"), &qp.v);
	if (qp.v.send_cq.size > 0)
		tel_cq_view(tel_dict(d, "send_cq_state"), &qp.v.send_cq);
	if (qp.v.recv_cq.size > 0)
		tel_cq_view(tel_dict(d, "recv_cq_state"), &qp.v.recv_cq);
	add_events(c, d, qp.v.qpn);
	return 0;
}

static void
add_moves(const struct control *c, struct rte_tel_data *d)
{
	rte_tel_data_add_dict_uint(d, "moved", c->moves.done);
	rte_tel_data_add_dict_uint(d, "balanced", c->moves.balanced);
	rte_tel_data_add_dict_uint(d, "refused", c->moves.refused);
	rte_tel_data_add_dict_uint(d, "last_pause_ns", c->moves.last_ns);
	rte_tel_data_add_dict_uint(d, "longest_pause_ns", c->moves.longest_ns);
}

int
tel_move(struct control *c, const char *params, struct rte_tel_data *d)
{
	const char *comma = strchr(params, ','), *why;
	struct control_moved moved;
	uint64_t number, engine;
	char qpn[16], text[192];
	struct session *s;
	struct obj_qp *qp;
	int rc;

	if (params[0] == '\0') {
		rte_tel_data_start_dict(d);
		add_moves(c, d);
		return 0;
	}
	if (comma == NULL || (size_t)(comma - params) >= sizeof(qpn))
		return tel_error(d, "QPN,ENGINE");
	snprintf(qpn, sizeof(qpn), "%.*s", (int)(comma - params), params);
	if (!tel_number(qpn, &number) || !tel_number(comma + 1, &engine) || engine > UINT32_MAX)
		return tel_error(d, "QPN,ENGINE");
	qp = number <= UINT32_MAX ? inspect_find_one(c, INSPECT_QP, (uint32_t)number, &s) : NULL;
	if (qp == NULL)
		return tel_gone(d, "QP", qpn);
	rc = obj_qp_move(s, qp, (unsigned int)engine, false, &moved, &why);
	if (rc != 0) {
		snprintf(text, sizeof(text), "QP %#x stays at engine %u: %s", qp->qpn, qp->engine, why);
		return tel_error(d, text);
	}
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "qpn", qp->qpn);
	rte_tel_data_add_dict_uint(d, "engine", qp->engine);
	rte_tel_data_add_dict_uint(d, "qps", moved.qps);
	rte_tel_data_add_dict_uint(d, "pause_ns", moved.pause_ns);
	add_moves(c, d);
	return 0;
}
