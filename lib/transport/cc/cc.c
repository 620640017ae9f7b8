/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all congestion control algorithms share: CNPs in both directions, pacing, and giving each QP its algorithm.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/tx_priv.h"

#define CC_ROW(NAME, name) [TP_CC_##NAME] = &cc_##name,
static const struct cc_ops *const algorithms[TP_CC_ALGORITHMS] = { [TP_CC_NONE] = &cc_none, CC_TABLE(CC_ROW) };
#undef CC_ROW

const char *
tp_cc_name(enum tp_cc cc)
{
	return cc < TP_CC_ALGORITHMS ? algorithms[cc]->name : "?";
}

void
transport_set_cc(struct transport *tp, uint16_t port, enum tp_cc cc, uint32_t mbps)
{
	tp->c.ports[port].cc = cc;
	tp->c.ports[port].mbps = mbps;
}

int
cc_attach(struct transport *tp, struct qp *qp, const struct tp_path *path)
{
	const struct tp_port_config *port = &tp->c.ports[path->port];
	const struct cc_ops *ops = algorithms[port->cc];

	cc_stop(tp, qp);
	if ((ops->services & 1 << (qp->service >> 5)) == 0 || path->loopback) {
		free(qp->req.cc);
		qp->req.cc = NULL;
		return 0;
	}
	if (qp->req.cc == NULL)
		qp->req.cc = malloc(sizeof(*qp->req.cc));
	if (qp->req.cc == NULL)
		return ENOMEM;
	*qp->req.cc = (struct cc){
		.ops = ops,
		.algorithm = port->cc,
		.qp = qp,
		.pace.kind = TP_TIMER_PACE,
		.line_bps = (port->mbps != 0 ? port->mbps : CC_LINE_MBPS_UNKNOWN) * 1e6,
		.cwnd = TP_CWND_MAX,
	};
	ops->init(qp->req.cc, tp->now_ns);
	return 0;
}

void
cc_stop(struct transport *tp, struct qp *qp)
{
	if (qp->req.cc != NULL)
		wheel_del(&tp->wheel, &qp->req.cc->pace);
}

uint8_t
cc_traffic_class(const struct qp *qp, uint8_t tclass)
{
	return qp->req.cc == NULL ? tclass : (uint8_t)((tclass & ~CC_TCLASS_ECN) | CC_TCLASS_ECT0);
}

/* ---- Pacing ---- */
bool
cc_may_send(struct transport *tp, struct qp *qp)
{
	struct cc *cc = qp->req.cc;

	if (cc->ops->advance != NULL)
		cc->ops->advance(cc, tp->now_ns);
	if (cc->rate_bps == 0 || tp->now_ns >= cc->next_ns)
		return true;
	if (!wheel_pending(&cc->pace) || cc->pace.tick > cc->next_ns >> WHEEL_TICK_SHIFT)
		wheel_add(&tp->wheel, &cc->pace, cc->next_ns);
	return false;
}

void
cc_sent(struct transport *tp, struct cc *cc, uint32_t bytes)
{
	if (cc->ops->sent != NULL)
		cc->ops->sent(cc, bytes);
	if (cc->rate_bps == 0)
		return;
	if (cc->next_ns + CC_BURST_NS < tp->now_ns)
		cc->next_ns = tp->now_ns - CC_BURST_NS;
	cc->next_ns += (uint64_t)(bytes * 8e9 / cc->rate_bps);
}

void
cc_timer(struct transport *tp, struct wheel_entry *e)
{
	struct cc *cc = (struct cc *)((uint8_t *)e - offsetof(struct cc, pace));

	qp_activate(tp, cc->qp);
}

/* ---- CNPs ---- */
/*
 * Change the traffic class of a finished packet. The ICRC doesn't cover it; IPv4's header checksum is updated (RFC
 * 1624).
 */
static void
set_traffic_class(const struct wire_tmpl *t, uint8_t *frame, uint8_t tclass)
{
	uint8_t *ip = frame + t->l3_off;
	uint32_t sum;

	if (t->ip_version == 4) {
		sum = (uint16_t)~wire_get16(ip + 10) + (uint16_t)~wire_get16(ip);
		ip[1] = tclass;
		sum += wire_get16(ip);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		wire_put16(ip + 10, (uint16_t)~sum);
	} else {
		ip[0] = (uint8_t)((ip[0] & 0xf0) | tclass >> 4);
		ip[1] = (uint8_t)((ip[1] & 0x0f) | tclass << 4);
	}
}

/* A17.9.3: a CNP is a BTH with BECN and 16 reserved bytes, without a PSN. */
static bool
send_cnp(struct transport *tp, struct qp *qp)
{
	struct wire_bth b = { .opcode = WIRE_OPCODE_CNP, .dqpn = qp->path.dest_qpn, .pkey = qp->path.pkey, .becn = true };
	struct tp_out o;

	if (!tp_begin(tp, qp, WIRE_OPCODE_CNP, &o))
		return false;
	memset(tp_payload(&o), 0, WIRE_CNP_PAYLOAD_BYTES);
	tp_finish(tp, qp, &o, b, WIRE_CNP_PAYLOAD_BYTES);
	set_traffic_class(&qp->path.tmpl, o.frame, CC_CNP_TCLASS);
	return true;
}

/*
 * A CNP is sent whatever this port's own algorithm is: a packet can only be marked because its sender announced that it
 * reacts. The sender of a datagram isn't this QP's peer, so it gets none.
 */
void
cc_marked_rx(struct transport *tp, struct qp *qp)
{
	tp->counters.np_ecn_marked_roce_packets++;
	if (qp->req.cc != NULL && qp->req.cc->ops->marked != NULL)
		qp->req.cc->ops->marked(qp->req.cc, tp->now_ns);
	if (qp->service == WIRE_UD || tp->now_ns < qp->rcv.cnp_next_ns)
		return;
	if (!send_cnp(tp, qp)) {
		MARK("a CNP finds no room");
		return;
	}
	tp->counters.np_cnp_sent++;
	qp->rcv.cnp_next_ns = tp->now_ns + CC_CNP_INTERVAL_NS;
}

void
cc_cnp_rx(struct transport *tp, struct qp *qp)
{
	if (qp->req.cc == NULL || qp->req.cc->ops->cnp == NULL) {
		tp->counters.rp_cnp_ignored++;
		return;
	}
	tp->counters.rp_cnp_handled++;
	diag_note(tp, qp, QP_EV_CNP, 0, 0, qp->req.psn_una);
	qp->req.cc->ops->cnp(qp->req.cc, tp->now_ns);
}
