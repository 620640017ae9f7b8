/* SPDX-License-Identifier: BSD-3-Clause */
/* LAP and APR: alternate paths, which RoCE doesn't have. A LAP is refused, an APR is never asked for. */
#include "cm_priv.h"

void
handle_lap(struct cm *cm, const struct cm_way *way, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, way, m->lap.remote_comm_id, m->lap.local_comm_id);
	struct cm_msg out;

	if (c != NULL && c->state != CM_ESTABLISHED) {
		CM_COUNT(cm, rx_wrong_state);
		return;
	}
	CM_COUNT(cm, apr_refused);
	cm_msg_init(&out, CM_ATTR_APR, m->hdr.tid);
	out.apr.local_comm_id = m->lap.remote_comm_id;
	out.apr.remote_comm_id = m->lap.local_comm_id;
	if (c == NULL)
		out.apr.status = CM_APR_INVALID_COMM_ID;
	else if (c->qpn != m->lap.remote_qpn)
		out.apr.status = CM_APR_INVALID_QPN;
	else
		out.apr.status = CM_APR_UNSUPPORTED;
	cm_send_msg(cm, way, &out);
}

void
handle_apr(struct cm *cm, const struct cm_way *way, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	if (conn_find(cm, way, m->apr.remote_comm_id, m->apr.local_comm_id) == NULL)
		CM_COUNT(cm, rx_unknown_id);
	else
		CM_COUNT(cm, rx_wrong_state);
}
