/* SPDX-License-Identifier: BSD-3-Clause */
/* MRA: asks the other end for more time to answer. */
#include "base/mark.h"
#include "cm/cm_priv.h"

#define MAX_CODE 31

int
cm_mra(struct cm_conn *c, uint8_t service_timeout, struct cm_private private_data, uint64_t now_ns)
{
	bool of_req = c->state == CM_REQ_RCVD || c->state == CM_MRA_REQ_SENT;
	bool of_rep = c->state == CM_REP_RCVD || c->state == CM_MRA_REP_SENT;
	struct cm_msg m;

	if (!of_req && !of_rep)
		return EINVAL;
	if (service_timeout > MAX_CODE || !cm_private_ok(&private_data, CM_MRA_PRIVATE_BYTES))
		return EINVAL;
	cm_msg_init(&m, CM_ATTR_MRA, c->tid);
	m.mra.local_comm_id = c->local_id;
	m.mra.remote_comm_id = c->remote_id;
	m.mra.msg_mraed = of_req ? CM_MSG_OF_REQ : CM_MSG_OF_REP;
	m.mra.service_timeout = service_timeout;
	cm_private_put(&private_data, m.mra.private_data);
	conn_send(c, &m);
	if (c->state == CM_REQ_RCVD)
		conn_set_state(c, CM_MRA_REQ_SENT);
	else if (c->state == CM_REP_RCVD)
		conn_set_state(c, CM_MRA_REP_SENT);
	return 0;
}

void
handle_mra(struct cm *cm, const struct cm_av *av, const struct cm_msg *m, uint64_t now_ns, struct cm_event *ev)
{
	struct cm_conn *c = conn_find(cm, av, m->mra.remote_comm_id, m->mra.local_comm_id);
	bool of_req = m->mra.msg_mraed == CM_MSG_OF_REQ, of_rep = m->mra.msg_mraed == CM_MSG_OF_REP;

	if (c == NULL) {
		CM_COUNT(cm, rx_unknown_id);
		return;
	}
	if (of_req && c->state == CM_REQ_SENT) {
		MARK("an MRA asks for time to answer a REQ");
		conn_set_state(c, CM_MRA_REQ_RCVD);
	} else if (of_rep && c->state == CM_REP_SENT) {
		MARK("an MRA asks for time to answer a REP");
		conn_set_state(c, CM_MRA_REP_RCVD);
	} else if (!(of_req && c->state == CM_MRA_REQ_RCVD) && !(of_rep && c->state == CM_MRA_REP_RCVD)) {
		CM_COUNT(cm, rx_wrong_state);
		return;
	}
	/* 12.9.8.4: the service time begins when the MRA arrives, and the answer takes a packet life time to arrive. */
	conn_timer(c, now_ns + cm_time_ns(cm_at_most(m->mra.service_timeout, CM_MAX_SERVICE_TIMEOUT)) + 2 * c->life_ns);
	cm_event_set_msg(ev, CM_EV_MRA, c, av, m);
}
