/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stale connections: a REQ or REP names a QP of the peer with which we have a connection.
 *
 * 12.9.8.3.1 and Linux (cm_match_req()) take that as proof that the peer has forgotten the connection, and end it. But the message
 * proves nothing: its source address may be forged, and a program may name a QP that isn't its own. So it is rejected (stale
 * connection), and the connection ends only if the peer really has forgotten it:
 *  - Our QP has failed, or is gone: then a DREQ is sent, as Linux does.
 *  - The peer sent the REQ: it gets our REP again. A peer that knows the connection answers by an RTU (uroce and Linux do); then nothing
 *    changes. If it doesn't, or says that it doesn't know the ID, the connection ends.
 *  - We sent the REQ: there is no message that a living peer answers without consequences. Our QP will find out when it sends.
 */
#include "base/mark.h"
#include "cm/cm_priv.h"

static bool
qp_gone(const struct cm_conn *c)
{
	const struct cm_config *cfg = &c->cm->cfg;

	return cfg->ops.qp_gone != NULL && c->owner != NULL && cfg->ops.qp_gone(cfg->arg, c->owner);
}

static void
end(struct cm_conn *c, uint64_t now_ns)
{
	static const struct cm_private none;

	c->probing = false;
	CM_COUNT(c->cm, stale_ended);
	disconnect_send_dreq(c, &none, now_ns);
}

void
stale_conn(struct cm_conn *old, uint64_t now_ns)
{
	if (old->state != CM_ESTABLISHED)
		return;
	if (qp_gone(old)) {
		MARK_UNIT("a stale connection's QP is gone", "unit/cm/reject");
		end(old, now_ns);
		return;
	}
	if (!old->passive || conn_out_attr(old) != CM_ATTR_REP || old->probing ||
	    (old->probed_ns != 0 && now_ns - old->probed_ns < CM_PROBE_GAP_NS))
		return;
	MARK_UNIT("a connection that may be stale is probed", "unit/cm/reject");
	CM_COUNT(old->cm, stale_probes);
	old->probing = true;
	old->probed_ns = now_ns;
	old->retries_left = CM_PROBES - 1;
	conn_resend(old);
	conn_timer(old, now_ns + CM_PROBE_NS);
}

void
stale_stop(struct cm_conn *c)
{
	if (!c->probing)
		return;
	c->probing = false;
	conn_timer_stop(c);
}

bool
stale_answered(struct cm_conn *c)
{
	if (!c->probing)
		return false;
	MARK_UNIT("a peer still knows a connection that looked stale", "unit/cm/reject");
	CM_COUNT(c->cm, stale_answered);
	stale_stop(c);
	return true;
}

void
stale_expired(struct cm_conn *c, uint64_t now_ns)
{
	if (c->retries_left == 0) {
		MARK_UNIT("a stale connection ends because no probe was answered", "unit/cm/reject");
		end(c, now_ns);
		return;
	}
	c->retries_left--;
	conn_resend(c);
	conn_timer(c, now_ns + CM_PROBE_NS);
}
