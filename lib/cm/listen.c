/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, found by service ID and local address, the most specific one first. */
#include "cm/cm_priv.h"

static const struct gid no_gid;

/** Loopback addresses are one and the same. */
static const struct gid *
loopback_gid(bool v4)
{
	static const struct gid ipv4 = { { [10] = 0xff, 0xff, 127, 0, 0, 1 } }, ipv6 = { { [15] = 1 } };

	return v4 ? &ipv4 : &ipv6;
}

static struct cm_listener *
listener_get(const struct cm *cm, uint64_t service_id, enum cm_listen_scope scope, const struct gid *gid)
{
	struct cm_key key = cm_key(CM_KEY_LISTEN, gid, service_id, scope);
	struct cm_node *n = table_find(cm, &key);

	return n == NULL ? NULL : container_of(n, struct cm_listener, node);
}

/** @return true if the RDMA CM's header belongs to the service and has a loopback address as its destination. */
static bool
asks_for_loopback(uint64_t service_id, const uint8_t *private_data, uint32_t len_bytes)
{
	enum cm_port_space ps = cm_service_port_space(service_id);
	struct cm_ip_hdr h;

	return (ps == CM_PS_TCP || ps == CM_PS_UDP) && cm_ip_hdr_get(private_data, len_bytes, &h) && gid_is_loopback(&h.dst);
}

struct cm_listener *
listener_find(const struct cm *cm, uint64_t service_id, const struct cm_av *av, const uint8_t *private_data, uint32_t len_bytes)
{
	bool v4 = gid_is_v4(&av->local_gid);
	struct cm_listener *l = NULL;

	if (av->own && asks_for_loopback(service_id, private_data, len_bytes))
		l = listener_get(cm, service_id, CM_LISTEN_GID, loopback_gid(v4));
	if (l == NULL)
		l = listener_get(cm, service_id, CM_LISTEN_GID, &av->local_gid);
	if (l == NULL)
		l = listener_get(cm, service_id, v4 ? CM_LISTEN_ANY_IPV4 : CM_LISTEN_ANY_IPV6, &no_gid);
	if (l == NULL)
		l = listener_get(cm, service_id, CM_LISTEN_ANY, &no_gid);
	return l;
}

struct cm_conn *
listener_admit(struct cm *cm, struct cm_listener *l, const struct cm_av *av)
{
	struct cm_conn *c;
	int rc;

	if (l->nb_pending >= l->backlog) {
		CM_COUNT(cm, rej_backlog);
		return NULL;
	}
	if (cm->nb_half_open >= cm->cfg.max_half_open) {
		CM_COUNT(cm, rej_half_open_limit);
		return NULL;
	}
	c = conn_new(cm, av);
	if (c == NULL) {
		if (errno == ENOSPC)
			CM_COUNT(cm, rej_table_full);
		else
			CM_COUNT(cm, rej_no_memory);
		return NULL;
	}
	rc = peer_take(cm, c);
	if (rc != 0) {
		if (rc == EDQUOT)
			CM_COUNT(cm, rej_peer_limit);
		else
			CM_COUNT(cm, rej_no_memory);
		conn_free(c);
		return NULL;
	}
	c->listener = l;
	l->nb_pending++;
	cm_list_append(&l->pending, &c->pending);
	return c;
}

bool
request_ip_hdr_ok(uint64_t service_id, const uint8_t *private_data, uint32_t len_bytes)
{
	enum cm_port_space ps = cm_service_port_space(service_id);
	struct cm_ip_hdr h;

	/* PS_IB is also used with native addresses, without a header; the listener knows which. */
	if (ps != CM_PS_TCP && ps != CM_PS_UDP && ps != CM_PS_IPOIB)
		return true;
	return cm_ip_hdr_get(private_data, len_bytes, &h);
}

struct cm_listener *
cm_listen(struct cm *cm, const struct cm_listen_param *p)
{
	const struct gid *gid = p->scope == CM_LISTEN_GID ? &p->gid : &no_gid;
	struct cm_listener *l;
	struct cm_key key;

	if ((unsigned int)p->scope > CM_LISTEN_ANY)
		return cm_null(EINVAL);
	if (gid_is_loopback(gid))
		gid = loopback_gid(gid_is_v4(gid));
	if (listener_get(cm, p->service_id, p->scope, gid) != NULL)
		return cm_null(EADDRINUSE);
	if (cm->nb_listeners >= cm->cfg.max_listeners)
		return cm_null(ENOSPC);
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	l->backlog = p->backlog == 0 || p->backlog > CM_MAX_BACKLOG ? CM_MAX_BACKLOG : p->backlog;
	l->owner = p->owner;
	cm_list_init(&l->pending);
	key = cm_key(CM_KEY_LISTEN, gid, p->service_id, p->scope);
	table_add(cm, &l->node, &key);
	cm_list_append(&cm->listeners, &l->all);
	cm->nb_listeners++;
	return l;
}

void
cm_unlisten(struct cm *cm, struct cm_listener *l)
{
	while (!cm_list_empty(&l->pending)) {
		struct cm_conn *c = container_of(l->pending.next, struct cm_conn, pending);

		cm_list_del(&c->pending);
		c->listener = NULL;
	}
	table_del(&l->node);
	cm_list_del(&l->all);
	free(l);
	cm->nb_listeners--;
}
