/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of QPs and AHs whose own address goes from the port, or comes back; and of QPs when the device goes. */
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/own_address_priv.h"

/** QPs of one engine that are looked at by one message. */
struct gone_args {
	const struct gid *gid; /**< NULL: the device has gone */
	bool gone;
	uint32_t n, found;
	struct qp *qp[CONTROL_DESTROY_BURST];
};

static int
gone_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct gone_args *a = arg;

	for (uint32_t i = 0; i < a->n; i++) {
		if (a->gid != NULL)
			a->found += qp_address_gone(a->qp[i], a->gid, a->gone);
		else
			qp_device_gone(engine_transport(e), a->qp[i], now_ns);
	}
	return 0;
}

/** Call gone_on_engine() for the QPs of the session. */
static void
tell_qps(struct session *s, struct gone_args *a)
{
	struct control *c = s->control;
	struct obj_qp *qp;
	uint32_t pos;

	for (unsigned int e = 0; e < c->s.nb_engines; e++) {
		pos = 0;
		do {
			qp = handles_next(&s->tab[OBJ_QP], &pos);
			if (qp != NULL && qp->engine == e && qp->qp != NULL && (qp->gids != 0 || a->gid == NULL))
				a->qp[a->n++] = qp->qp;
			if (a->n == 0 || (qp != NULL && a->n < CONTROL_DESTROY_BURST))
				continue;
			engine_call(c->s.engines[e], gone_on_engine, a);
			a->n = 0;
		} while (qp != NULL);
	}
}

uint32_t
own_address_gone(struct session *s, const struct gid *gid, bool gone)
{
	struct gone_args a = { .gid = gid, .gone = gone };
	struct obj_ah *ah;

	tell_qps(s, &a);
	for (uint32_t pos = 0; (ah = handles_next(&s->tab[OBJ_AH], &pos)) != NULL;)
		a.found += ah_address_gone(s->control->s.sh.ahs, ah->wqe_handle, gid, gone);
	return a.found;
}

uint32_t
own_ahs_follow_mac(struct session *s, tp_mac_fn fn, const void *arg)
{
	const struct obj_ah *ah;
	uint32_t n = 0;

	for (uint32_t pos = 0; (ah = handles_next(&s->tab[OBJ_AH], &pos)) != NULL;)
		n += ah_follow_mac(s->control->s.sh.ahs, ah->wqe_handle, fn, arg);
	return n;
}

void
own_device_gone(struct session *s)
{
	struct gone_args a = { .gid = NULL };

	s->device_gone = true;
	tell_qps(s, &a);
}

uint32_t
own_address_indices(const struct session *s)
{
	const struct obj_qp *qp;
	const struct obj_ah *ah;
	uint32_t pos, bits = 0;

	for (pos = 0; (qp = handles_next(&s->tab[OBJ_QP], &pos)) != NULL;)
		bits |= qp->gids;
	for (pos = 0; (ah = handles_next(&s->tab[OBJ_AH], &pos)) != NULL;)
		bits |= UINT32_C(1) << ah->sgid_index;
	return bits;
}

/** Have the path follow if the neighbour's MAC address changes. @return its own address. */
static struct gid
remember(const struct session *s, const struct wire_addr *a)
{
	const struct gid sgid = gid_from_ip(a->ip_version, a->sip), dgid = gid_from_ip(a->ip_version, a->dip);

	net_neigh_remember(s->port, &sgid, &dgid, a->dmac);
	return sgid;
}

uint32_t
own_address_resumed_qp(const struct session *s, struct qp *qp)
{
	struct wire_addr a;
	struct gid gid;
	int index;

	if (!qp_path_addr(qp, &a))
		return 0;
	gid = remember(s, &a);
	index = net_gid_index(s->port, &gid);
	if (index < 0)
		qp_address_gone(qp, &gid, true);
	return index < 0 ? 0 : UINT32_C(1) << index;
}

uint8_t
own_address_resumed_ah(const struct session *s, uint32_t wqe_handle)
{
	struct tp_path path;
	struct gid gid;
	int index;

	if (!ah_path(s->control->s.sh.ahs, wqe_handle, &path))
		return 0;
	gid = remember(s, &path.addr);
	index = net_gid_index(s->port, &gid);
	if (index < 0)
		ah_address_gone(s->control->s.sh.ahs, wqe_handle, &gid, true);
	return index < 0 ? 0 : (uint8_t)index;
}
