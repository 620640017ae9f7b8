/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to the peer, as the header template that every packet of a QP begins with.
 */
#include "transport/cc/cc.h"
#include "transport/path/path.h"

/* More may come from programs (UCX): the upper bits aren't the label's, as for NICs' drivers. */
#define FLOW_LABEL_MASK 0xfffffu

/* The header template: everything that the way to the peer and the QP numbers decide. */
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
	qp->path.port = path->port;
	qp->path.pkey = path->pkey;
	qp->path.loopback = path->loopback;
}

void
qp_use_path(struct transport *tp, struct qp *qp, const struct tp_path *path)
{
	/*
	 * No memory here: who goes without congestion control, because the port did when the QP was connected, goes on without.
	 */
	if (qp->req.cc != NULL)
		cc_attach(tp, qp, path);
	path_build_template(qp, path);
}

void
path_reset(struct qp *qp)
{
	const struct qp_path *p = &qp->path;

	/* The port is the QP's for life; a UD QP's longest message too. alt is a buffer, empty without alt_loaded. */
	qp->path = (struct qp_path){ .port = p->port, .pkey = p->pkey, .mtu_shift = p->mtu_shift, .alt = p->alt };
}
