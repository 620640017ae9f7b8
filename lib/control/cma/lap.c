/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Alternate paths: a LAP of the peer sets the alternate path of the id's QP (17.2.8), to which the QP migrates when its
 * primary path fails or the peer migrates. The program gets IBV_EVENT_PATH_MIG.
 */
#include "control/cma/cma_priv.h"
#include "control/obj/obj_qp_priv.h"

/**
 * @return the QP that the program named.
 * @param owner  Receives its session, which is another one of the same process.
 */
static struct obj_qp *
find_qp(const struct cma_id *id, struct session **owner)
{
	const struct qp *named;
	struct obj_qp *qp;

	*owner = cma_qp_session(id, id->qpn, &named);
	if (*owner == NULL)
		return NULL;
	for (uint32_t pos = 0; (qp = handles_next(&(*owner)->tab[OBJ_QP], &pos)) != NULL;)
		if (qp->qp == named)
			return qp;
	return NULL;
}

static void
answer(struct cma_id *id, enum cm_apr_status status)
{
	/* 12.8.2: an answer that refuses an address contains one that would be accepted. */
	const struct cm_private gid = { cma_own_gid(id), sizeof(struct gid) }, none = { 0 };

	cm_apr(id->conn, (uint8_t)status, status == CM_APR_INVALID_GID ? gid : none, none);
}

static void
load(struct cma_id *id, const uint8_t mac[6])
{
	struct session *s;
	struct obj_qp *qp = find_qp(id, &s);

	if (qp == NULL)
		answer(id, CM_APR_UNSUPPORTED);
	else if (obj_qp_load_alternate(s, qp, &id->lap.ah, id->lap.timeout, mac) != 0)
		answer(id, CM_APR_REJECT);
	else
		answer(id, CM_APR_SUCCESS);
}

static void
on_resolved(void *arg, int status, const uint8_t mac[6])
{
	struct cma_lap *lap = arg;
	struct cma_id *id = container_of(lap, struct cma_id, lap);

	lap->resolving = false;
	if (status != 0)
		answer(id, CM_APR_REJECT);
	else
		load(id, mac);
}

void
cma_lap_stop(struct cma_id *id)
{
	if (id->lap.resolving)
		net_resolve_cancel(id->port, &id->lap);
	id->lap.resolving = false;
}

void
cma_lap(struct cma_id *id, const struct cm_lap *m)
{
	const struct cm_path *p = &m->alternate;
	struct session *s;
	uint8_t sgid_index, mac[6];
	int rc;

	if (find_qp(id, &s) == NULL) {
		answer(id, CM_APR_UNSUPPORTED);
		return;
	}
	/* An address of another port belongs to another device than this QP. */
	if (cma_port_of(id->session->control, &p->remote_gid, &sgid_index) != id->port) {
		answer(id, CM_APR_INVALID_GID);
		return;
	}
	id->lap.timeout = p->ack_timeout;
	id->lap.ah = (struct uroce_ah_attr){
		.flow_label = p->flow_label,
		.sgid_index = sgid_index,
		.hop_limit = p->hop_limit,
		.traffic_class = p->traffic_class,
		.sl = p->traffic_class >> 5,
		.is_global = 1,
		.port_num = 1,
	};
	memcpy(id->lap.ah.dgid, &p->local_gid, sizeof(id->lap.ah.dgid));
	/* An earlier LAP may still be resolving. */
	cma_lap_stop(id);
	rc = net_resolve(id->port, sgid_index, &p->local_gid, control_now_ns(), mac, on_resolved, &id->lap);
	if (rc == EINPROGRESS)
		id->lap.resolving = true;
	else if (rc != 0)
		answer(id, rc == EINVAL ? CM_APR_INVALID_GID : CM_APR_REJECT);
	else
		load(id, mac);
}
