/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path migration of RC and UC (17.2.8): a QP that has an alternate path changes to it when its retries are used up,
 * when its program says so, or when the peer has done so. It can do that once for each alternate path it is given.
 *
 * MigReq 1 says that the sender has no alternate path left, 0 that it has one. So both ends know when both have an
 * alternate path: REARM becomes ARMED with the first packet whose MigReq is 0.
 */
#include "base/mark.h"
#include "transport/core/async_priv.h"
#include "transport/core/checks_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/path/path_priv.h"
#include "transport/cc/cwnd_priv.h"

int
migration_load(struct qp *qp, const struct tp_path *path)
{
	if (qp->path.alt == NULL)
		qp->path.alt = malloc(sizeof(*qp->path.alt));
	if (qp->path.alt == NULL)
		return ENOMEM;
	*qp->path.alt = *path;
	qp->path.alt_loaded = true;
	return 0;
}

bool
migration_may(const struct qp *qp, uint32_t to, bool loading)
{
	if (to == TP_MIG_MIGRATED)
		return true;
	return to == TP_MIG_REARM && qp->path.mig != TP_MIG_ARMED && (qp->path.alt_loaded || loading);
}

void
migration_reset(struct qp *qp)
{
	qp->path.mig = TP_MIG_MIGRATED;
	qp->path.alt_loaded = false;
}

bool
migration_go(struct transport *tp, struct qp *qp)
{
	struct uroce_qp_attr *a = &qp->attr;

	if (qp->path.mig != TP_MIG_ARMED)
		return false;
	a->ah = a->alt_ah;
	a->pkey_index = a->alt_pkey_index;
	a->port_num = a->alt_port_num;
	a->timeout = qp->loss.timeout = a->alt_timeout;
	MARK_IF(qp->req.psn_una != qp->req.psn_max, "a QP migrates while sends are in flight");
	MARK_IF(qp->rcv.reorder != NULL, "a QP migrates while packets are held beyond a gap");
	MARK_IF(qp->loss.rnr_wait, "a QP migrates while its RNR timer runs");
	migration_reset(qp);
	qp_use_path(tp, qp, qp->path.alt);
	qp->path.migrated = true;
	diag_note(tp, qp, QP_EV_MIGRATED, 0, 0, qp->req.psn_una);
	cwnd_new_path(qp);
	/* Packets lost on the old path get all retries on this one, even if the peer changed first. */
	qp->loss.retry_left = qp->loss.retry_cnt;
	/* The QP may have been waiting for the congestion control of the old path. */
	qp_activate(tp, qp);
	qp_event(tp, UROCE_EVENT_PATH_MIG, qp);
	return true;
}

void
migration_set(struct transport *tp, struct qp *qp, uint32_t to)
{
	if (to == TP_MIG_REARM)
		qp->path.mig_err_event = false;
	if (to == TP_MIG_REARM || !migration_go(tp, qp))
		qp->path.mig = (uint8_t)to;
}

/* @return whether the packet came from the peer's alternate address to ours. */
static bool
on_alternate(const struct transport *tp, const struct qp *qp, const struct wire_pkt *p)
{
	const struct wire_addr *a = &qp->path.alt->addr;

	if (p->ip_version != a->ip_version || !pkey_match(p->bth.pkey, qp->path.alt->pkey) ||
	    !vlan_match_at(tp, qp->path.port, a->vlan ? a->vlan_tci & WIRE_VID : 0, p))
		return false;
	if (p->ip_version == 4)
		return memcmp(p->l3 + 12, a->dip, 4) == 0 && memcmp(p->l3 + 16, a->sip, 4) == 0;
	return memcmp(p->l3 + 8, a->dip, 16) == 0 && memcmp(p->l3 + 24, a->sip, 16) == 0;
}

bool
migration_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (qp->path.mig == TP_MIG_REARM) {
		if (!p->bth.migreq && qp_path_match(tp, qp, p) && pkey_match(p->bth.pkey, qp->path.pkey))
			qp->path.mig = TP_MIG_ARMED;
		return true;
	}
	if (!p->bth.migreq)
		return true;
	if (on_alternate(tp, qp, p)) {
		migration_go(tp, qp);
		return true;
	}
	/*
	 * The checks that follow drop a packet from another address. A packet on the primary path asks for a change to
	 * an alternate path that this QP doesn't have.
	 */
	if (!qp_path_match(tp, qp, p))
		return true;
	MARK("a peer asks for a migration to a path that doesn't exist");
	tp->counters.rx_bad_migreq++;
	if (!qp->path.mig_err_event)
		qp_event(tp, UROCE_EVENT_PATH_MIG_ERR, qp);
	qp->path.mig_err_event = true;
	return false;
}
