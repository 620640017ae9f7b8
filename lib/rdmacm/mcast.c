/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining and leaving multicast groups with UD ids. */
#include "rdmacm/rdmacm_priv.h"

static int
join(struct cmid *id, const struct sockaddr *addr, bool send_only, void *context)
{
	struct cm_member *m = calloc(1, sizeof(*m));
	struct client_call c;
	int err;

	if (!m)
		return ENOMEM;
	client_call_init(&c, CTL_CM_JOIN);
	c.req.cm_join.id = id->handle;
	c.req.cm_join.join_flags = send_only ? 2 : 1;
	err = cm_addr_of(addr, &c.req.cm_join.addr);
	if (!err) {
		m->context = context;
		m->send_only = send_only;
		memcpy(&m->addr, addr, cm_sockaddr_len(addr));
		memcpy(m->mgid.raw, c.req.cm_join.addr.gid, sizeof(m->mgid.raw));
		/* Another thread may read the event before this one has the response; it waits for this mutex. */
		pthread_mutex_lock(&id->members_lock);
		err = cm_call(id->channel, &c);
		if (!err) {
			m->handle = c.rsp.handle.handle;
			m->next = id->members;
			id->members = m;
		}
		pthread_mutex_unlock(&id->members_lock);
	}
	if (err)
		free(m);
	return err;
}

RDMACM_EXPORT int
rdma_join_multicast(struct rdma_cm_id *rid, struct sockaddr *addr, void *context)
{
	struct cmid *id = to_cmid(rid);
	bool sync = id->sync;

	return cmid_complete(id, sync, addr ? join(id, addr, false, context) : EINVAL);
}

RDMACM_EXPORT int
rdma_join_multicast_ex(struct rdma_cm_id *rid, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const uint32_t known = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct cmid *id = to_cmid(rid);
	bool send_only, sync = id->sync;

	if (!attr || (attr->comp_mask & ~known) || !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !attr->addr)
		return cm_result(EINVAL);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_result(EINVAL);
	send_only = attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	return cmid_complete(id, sync, join(id, attr->addr, send_only, context));
}

RDMACM_EXPORT int
rdma_leave_multicast(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	struct cmid *id = to_cmid(rid);
	struct cm_member **at, *m;
	int err;

	if (!addr)
		return cm_result(EINVAL);
	pthread_mutex_lock(&id->members_lock);
	for (at = &id->members; *at && memcmp(&(*at)->addr, addr, cm_sockaddr_len(addr)); at = &(*at)->next)
		;
	m = *at;
	if (m)
		*at = m->next;
	pthread_mutex_unlock(&id->members_lock);
	if (!m)
		return cm_result(EADDRNOTAVAIL);
	err = cm_call_handle(id->channel, CTL_CM_LEAVE, m->handle);
	cm_member_free(id, m);
	return cm_result(err);
}
