/* SPDX-License-Identifier: BSD-3-Clause */
/* QP 1: MADs between the wire and the connection manager. */
#include "control/cma/gsi_priv.h"

#include <sys/queue.h>
#include <sys/random.h>

#include <rte_mbuf.h>

#include "control/cma/cma_priv.h"

/**
 * A MAD to this daemon itself that has not been received yet, or one that waits for the MAC address of its receiver.
 */
struct gsi_mad {
	TAILQ_ENTRY(gsi_mad) link;
	struct gsi *gsi;
	struct net_port *port;
	unsigned int sgid_index;
	struct cm_av av;
	uint8_t data[TP_MAD_BYTES];
};
TAILQ_HEAD(gsi_mad_list, gsi_mad);

struct gsi {
	struct control *control;
	struct cm *cm;
	struct gsi_mad_list loop, waiting;
	uint32_t nb_loop, nb_waiting;
	uint32_t psn;
	struct gsi_counters counters;
};

static_assert((int)TP_MAD_BYTES == (int)CM_MAD_BYTES, "one MAD");

/* ---- Out ---- */
static struct gsi_mad *
mad_new(struct gsi *g, struct net_port *p, unsigned int sgid_index, const struct cm_av *av, const uint8_t *data)
{
	struct gsi_mad *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->gsi = g;
	m->port = p;
	m->sgid_index = sgid_index;
	m->av = *av;
	memcpy(m->data, data, sizeof(m->data));
	return m;
}

static void
transmit(struct gsi *g, struct net_port *p, unsigned int sgid_index, const struct cm_av *av, const uint8_t mac[6],
	 const uint8_t *data)
{
	struct uroce_ah_attr ah = {
		.flow_label = av->flow_label,
		.hop_limit = av->hop_limit,
		.traffic_class = av->traffic_class,
		.sl = av->resolved ? (uint8_t)(av->vlan_tci >> 13) : 0,
	};
	struct rte_mbuf *m = rte_pktmbuf_alloc(g->control->s.sh.pool);
	struct wire_addr addr;
	uint32_t bytes;

	if (m == NULL) {
		g->counters.tx_no_mbuf++;
		return;
	}
	memcpy(ah.dgid, &av->remote_gid, sizeof(ah.dgid));
	net_path_addr(p, sgid_index, &ah, mac, &addr);
	bytes = gsi_build(rte_pktmbuf_mtod(m, uint8_t *), &addr, av->pkey, g->psn++, data);
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	g->counters.tx_mads++;
	engine_send(g->control->s.engines[0], p->index, m);
}

static void
on_resolved(void *arg, int status, const uint8_t mac[6])
{
	struct gsi_mad *m = arg;
	struct gsi *g = m->gsi;

	TAILQ_REMOVE(&g->waiting, m, link);
	g->nb_waiting--;
	/* Its own address may have gone, or be at another index. */
	if (status == 0 && net_gid_index(m->port, &m->av.local_gid) != (int)m->sgid_index)
		g->counters.tx_no_address++;
	else if (status == 0 || m->av.resolved)
		transmit(g, m->port, m->sgid_index, &m->av, status == 0 ? mac : m->av.remote_mac, m->data);
	else
		g->counters.tx_unreachable++;
	free(m);
}

/** A MAC address that was resolved before is used only if there is no newer one. */
static void
resolve_and_send(struct gsi *g, struct net_port *p, unsigned int sgid_index, const struct cm_av *av,
		 const uint8_t *data)
{
	uint8_t mac[6];
	int rc;
	struct gsi_mad *m = g->nb_waiting < GSI_MAX_WAITING ? mad_new(g, p, sgid_index, av, data) : NULL;

	if (m == NULL) {
		g->counters.tx_waiting++;
		return;
	}
	rc = net_resolve(p, sgid_index, &av->remote_gid, control_now_ns(), mac, on_resolved, m);
	if (rc == EINPROGRESS) {
		TAILQ_INSERT_TAIL(&g->waiting, m, link);
		g->nb_waiting++;
		return;
	}
	free(m);
	if (rc == 0 || av->resolved)
		transmit(g, p, sgid_index, av, rc == 0 ? mac : av->remote_mac, data);
	else
		g->counters.tx_unreachable++;
}

/** Send a MAD to this daemon itself. The CM must not be called from its own callback, so gsi_run() delivers it. */
static void
loop_back(struct gsi *g, struct net_port *p, const struct cm_av *av, const uint8_t *data)
{
	struct gsi_mad *m = g->nb_loop < GSI_MAX_LOOP ? mad_new(g, p, 0, av, data) : NULL;

	if (m == NULL) {
		g->counters.loop_full++;
		return;
	}
	m->av.local_gid = av->remote_gid;
	m->av.remote_gid = av->local_gid;
	memcpy(m->av.remote_mac, p->mac, sizeof(p->mac));
	m->av.resolved = true;
	m->av.own = true;
	TAILQ_INSERT_TAIL(&g->loop, m, link);
	g->nb_loop++;
	g->counters.loop_mads++;
}

static void
on_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
	struct gsi *g = arg;
	struct net_port *p = av->port < g->control->s.nb_ports ? g->control->s.ports[av->port] : NULL;
	int sgid_index = p != NULL ? net_gid_index(p, &av->local_gid) : -1;

	if (sgid_index < 0)
		g->counters.tx_no_address++;
	else if (net_port_owns(p, &av->remote_gid))
		loop_back(g, p, av, mad);
	else if (av->resolved && net_neigh_changes(p, NULL) == 0)
		transmit(g, p, (unsigned int)sgid_index, av, av->remote_mac, mad);
	else
		resolve_and_send(g, p, (unsigned int)sgid_index, av, mad);
}

/* ---- In ---- */
static void
on_event(void *arg, const struct cm_event *ev)
{
	struct gsi *g = arg;

	cma_cm_event(g->control->cma, ev);
}

void
gsi_take(struct gsi *g, const struct tp_mad *mad, uint64_t now_ns)
{
	const struct net_port *p = g->control->s.ports[mad->port];
	struct cm_av av = {
		.port = mad->port,
		.local_gid = mad->dgid,
		.remote_gid = mad->sgid,
		.pkey = mad->pkey,
		.flow_label = mad->flow_label,
		.traffic_class = mad->traffic_class,
		/* Use our default, not the hops that the sender's packet had left: the path back may be longer. */
		.hop_limit = 0,
		.resolved = true,
		.vlan_tci = mad->vlan_tci,
	};
	uint8_t group[6];

	g->counters.rx_mads++;
	if (!net_port_owns(p, &mad->dgid)) {
		g->counters.rx_not_ours++;
		return;
	}
	if ((mad->smac[0] & 1) != 0 || net_multicast_mac(&mad->sgid, group) || net_port_owns(p, &mad->sgid)) {
		g->counters.rx_bad_source++;
		return;
	}
	if (mad->src_qpn != CM_GSI_QPN) {
		g->counters.rx_other_qp++;
		return;
	}
	memcpy(av.remote_mac, mad->smac, sizeof(av.remote_mac));
	cm_rx(g->cm, &av, mad->data, sizeof(mad->data), now_ns);
}

uint64_t
gsi_run(struct gsi *g, uint64_t now_ns)
{
	struct gsi_mad *m;

	/* Deliver only those that wait now; the CM's answers to them are delivered by the next call. */
	for (uint32_t n = g->nb_loop; n > 0; n--) {
		m = TAILQ_FIRST(&g->loop);
		TAILQ_REMOVE(&g->loop, m, link);
		g->nb_loop--;
		cm_rx(g->cm, &m->av, m->data, sizeof(m->data), now_ns);
		free(m);
	}
	cm_run(g->cm, now_ns);
	return g->nb_loop > 0 ? now_ns : cm_next_timeout(g->cm);
}

/** [cm_ops] */
static bool
qp_gone(void *arg, void *owner)
{
	const struct gsi *g = arg;

	return cma_qp_failed(g->control->cma, owner);
}

/* ---- Beginning and end ---- */
struct gsi *
gsi_open(struct control *c)
{
	struct gsi *g = calloc(1, sizeof(*g));
	struct cm_config conf = { .max_per_peer = c->s.conf->max_peer_connections,
				  .max_half_open = c->s.conf->max_half_open,
				  .ops = { .send = on_send, .event = on_event, .qp_gone = qp_gone },
				  .arg = g };

	if (g == NULL)
		return NULL;
	g->control = c;
	TAILQ_INIT(&g->loop);
	TAILQ_INIT(&g->waiting);
	if (getrandom(conf.secret.key, sizeof(conf.secret.key), 0) != (ssize_t)sizeof(conf.secret.key) ||
	    getrandom(&g->psn, sizeof(g->psn), 0) != (ssize_t)sizeof(g->psn))
		goto fail;
	g->cm = cm_open(&conf, control_now_ns());
	if (g->cm == NULL)
		goto fail;
	return g;
fail:
	free(g);
	return NULL;
}

static void
free_list(struct gsi_mad_list *l, bool resolving)
{
	struct gsi_mad *m;

	while ((m = TAILQ_FIRST(l)) != NULL) {
		TAILQ_REMOVE(l, m, link);
		if (resolving)
			net_resolve_cancel(m->port, m);
		free(m);
	}
}

void
gsi_close(struct gsi *g)
{
	if (g == NULL)
		return;
	cm_close(g->cm);
	free_list(&g->loop, false);
	free_list(&g->waiting, true);
	free(g);
}

const struct gsi_counters *
gsi_counters(const struct gsi *g)
{
	return &g->counters;
}

struct cm *
gsi_cm(struct gsi *g)
{
	return g->cm;
}
