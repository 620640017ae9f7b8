/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to the peer, in the form of the header template that every packet of a QP begins with.
 */
#include "base/gid.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/held_priv.h"
#include "transport/core/journal_priv.h"
#include "transport/core/qp_table_priv.h"
#include "transport/path/changes.h"
#include "transport/path/path_priv.h"

/* A flow label has 20 bits. Programs (UCX) set more; drivers of NICs ignore the upper bits too. */
#define FLOW_LABEL_MASK 0xfffffu

/* Build the header template: the parts that depend on the path and on the QP numbers. */
void
path_build_template(struct qp *qp, const struct tp_path *path)
{
	struct wire_addr a = path->addr;

	a.traffic_class = cc_traffic_class(qp, a.traffic_class);
	if ((qp->attr.ah.flow_label & FLOW_LABEL_MASK) == 0) {
		a.flow_label = wire_calc_flow_label(qp->qpn, qp->path.dest_qpn);
		a.sport = wire_flow_label_to_sport(a.flow_label);
	}
	wire_tmpl_build(&qp->path.tmpl, &a);
	qp->path.vlan = a.vlan ? a.vlan_tci & WIRE_VID : 0;
	journal_cold(qp);
	qp->path.port = path->port;
	qp->path.pkey = path->pkey;
	qp->path.loopback = path->loopback;
	qp->path.detour = path->loopback ? DETOUR_LOOPBACK : 0;
}

bool
qp_own_gid(const struct qp *qp, struct gid *gid)
{
	const struct wire_tmpl *t = &qp->path.tmpl;

	if (t->bth_off == 0 || qp->service == WIRE_UD)
		return false;
	*gid = gid_from_ip(t->ip_version, t->hdr + t->l3_off + (t->ip_version == 4 ? 12 : 8));
	return true;
}

bool
qp_path_addr(const struct qp *qp, struct wire_addr *addr)
{
	if (qp->path.tmpl.bth_off == 0 || qp->service == WIRE_UD)
		return false;
	*addr = wire_tmpl_addr(&qp->path.tmpl);
	return true;
}

bool
qp_address_gone(struct qp *qp, const struct gid *gid, bool gone)
{
	struct gid own;

	if (!qp_own_gid(qp, &own) || !gid_equal(&own, gid))
		return false;
	qp->path.detour = (uint8_t)((qp->path.detour & ~DETOUR_GONE) | (gone ? DETOUR_GONE : 0));
	return true;
}

void
transport_set_mtu(struct transport *tp, uint16_t port, uint32_t ip_mtu, uint8_t mtu_shift)
{
	tp->c.ports[port].ip_mtu = ip_mtu;
	tp->c.ports[port].mtu_shift = mtu_shift;
}

void
path_follow_mtu(const struct transport *tp, struct qp *qp)
{
	const struct tp_port_config *port = &tp->c.ports[qp->path.port];
	struct qp_path *path = &qp->path;

	if (qp->service == WIRE_UD && port->mtu_shift > path->mtu_shift)
		path->mtu_shift = port->mtu_shift;
	path->detour &= (uint8_t)~DETOUR_MTU;
	if (port->ip_mtu != 0 && path->mtu_shift > port->mtu_shift && !path->loopback)
		path->detour |= DETOUR_MTU;
}

uint32_t
transport_follow_mtu(struct transport *tp, uint16_t port, uint32_t first, uint32_t n)
{
	uint32_t too_large = 0;

	for (uint32_t i = first; i < first + n; i++) {
		struct qp *qp = qp_table_at(tp->c.sh.qps, i);

		/* One that is on its way to another transport heeds the MTU when it arrives. */
		if (qp == NULL || qp_transport(qp) != tp || qp->path.port != port)
			continue;
		path_follow_mtu(tp, qp);
		too_large += (qp->path.detour & DETOUR_MTU) != 0 && (qp->path.tmpl.bth_off != 0 || qp->service == WIRE_UD);
	}
	return too_large;
}

/** @return true, and the MAC address in @p a, if the path has to follow. */
static bool
follows(struct wire_addr *a, tp_mac_fn fn, const void *arg)
{
	const struct gid sgid = gid_from_ip(a->ip_version, a->sip), dgid = gid_from_ip(a->ip_version, a->dip);

	return fn(arg, &sgid, &dgid, a->dmac);
}

static bool
follow_mac(struct qp *qp, tp_mac_fn fn, const void *arg)
{
	struct qp_path *path = &qp->path;
	struct wire_addr a;
	bool follow = false;

	if (qp_path_addr(qp, &a) && !path->loopback && follows(&a, fn, arg)) {
		/* The ICRC doesn't cover it. */
		wire_tmpl_set_dmac(&path->tmpl, a.dmac);
		follow = true;
	}
	if (path->alt_loaded && !path->alt->loopback && follows(&path->alt->addr, fn, arg))
		follow = true;
	if (follow)
		journal_cold(qp);
	return follow;
}

uint32_t
transport_follow_mac(struct transport *tp, uint16_t port, tp_mac_fn fn, const void *arg, uint32_t first, uint32_t n)
{
	uint32_t followed = 0;

	for (uint32_t i = first; i < first + n; i++) {
		struct qp *qp = qp_table_at(tp->c.sh.qps, i);

		if (qp != NULL && qp_transport(qp) == tp && qp->path.port == port)
			followed += follow_mac(qp, fn, arg);
	}
	return followed;
}

void
qp_use_path(struct transport *tp, struct qp *qp, const struct tp_path *path)
{
	/*
	 * This must not allocate: a QP without congestion control, because its port had none when it was connected,
	 * gets none.
	 */
	if (qp->req.cc != NULL)
		cc_attach(tp, qp, path);
	path_build_template(qp, path);
	path_follow_mtu(tp, qp);
}

void
path_reset(struct qp *qp)
{
	const struct qp_path *p = &qp->path;

	/*
	 * The QP keeps its port, and a UD QP its maximum message size. alt is only a buffer, empty without alt_loaded.
	 */
	qp->path = (struct qp_path){ .port = p->port, .pkey = p->pkey, .mtu_shift = p->mtu_shift, .alt = p->alt };
}
