/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of multicast groups and their members, shared by all engines, and delivery of a copy of each datagram to
 * every member.
 *
 * The control thread is the only writer. A member is one word, so members come and go while engines read; a group that
 * needs more room is replaced by a larger copy. Groups name QPs by number: one that was destroyed is not found.
 */
#include "base/container_of.h"
#include "transport/core/held_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/core/mcast_priv.h"

enum { MCAST_BUCKET_BITS = 10, MCAST_BUCKETS = 1 << MCAST_BUCKET_BITS, MCAST_PLACES = 4 };

struct mcast_group {
	_Atomic(struct mcast_group *) next; /* in the bucket */
	struct deferred deferred;
	struct gid mgid;
	uint16_t port;
	uint32_t members;        /* only for the control thread */
	uint32_t places;
	_Atomic uint32_t qpns[]; /* 0: a free place; no QP has that number */
};

struct mcast_table {
	struct deferred_list old; /* groups that are no longer published */
	uint32_t groups, attached;
	_Atomic(struct mcast_group *) buckets[MCAST_BUCKETS];
};

static void
group_free(struct deferred *d)
{
	free(container_of(d, struct mcast_group, deferred));
}

struct mcast_table *
mcast_table_create(struct rte_rcu_qsbr *qsbr)
{
	struct mcast_table *t = calloc(1, sizeof(*t));

	if (t != NULL)
		t->old = (struct deferred_list){ .qsbr = qsbr, .free = group_free };
	return t;
}

void
mcast_table_destroy(struct mcast_table *t)
{
	struct mcast_group *g;

	if (t == NULL)
		return;
	deferred_free_all(&t->old);
	for (uint32_t i = 0; i < MCAST_BUCKETS; i++) {
		while ((g = atomic_load(&t->buckets[i])) != NULL) {
			atomic_store(&t->buckets[i], atomic_load(&g->next));
			free(g);
		}
	}
	free(t);
}

uint32_t
mcast_table_groups(const struct mcast_table *t)
{
	return t->groups;
}

uint32_t
mcast_table_attached(const struct mcast_table *t)
{
	return t->attached;
}

static _Atomic(struct mcast_group *) *
bucket_of(struct mcast_table *t, uint16_t port, const struct gid *mgid)
{
	const uint8_t *raw = mgid->raw;
	uint32_t h = (wire_get32(raw + 12) ^ wire_get32(raw + 8) ^ wire_get32(raw) ^ port) * UINT32_C(2654435761);

	return &t->buckets[h >> (32 - MCAST_BUCKET_BITS)];
}

/*
 * @return the pointer to the group, or the end of the bucket's chain. Engines, which run concurrently with changes by
 * the control thread, must use @p found and not read that pointer again: it may point to another group by now.
 */
static _Atomic(struct mcast_group *) *
find(struct mcast_table *t, uint16_t port, const struct gid *mgid, struct mcast_group **found)
{
	_Atomic(struct mcast_group *) *pp = bucket_of(t, port, mgid);
	struct mcast_group *g;

	while ((g = atomic_load_explicit(pp, memory_order_acquire)) != NULL) {
		if (g->port == port && gid_equal(&g->mgid, mgid))
			break;
		pp = &g->next;
	}
	*found = g;
	return pp;
}

/* @return the place of member @p qpn (0: a free place), or NULL if there is none. */
static _Atomic uint32_t *
place_of(struct mcast_group *g, uint32_t qpn)
{
	for (uint32_t i = 0; g != NULL && i < g->places; i++) {
		if (atomic_load_explicit(&g->qpns[i], memory_order_relaxed) == qpn)
			return &g->qpns[i];
	}
	return NULL;
}

/* Allocate a larger copy of @p old (NULL: a new group), to be published in its place. */
static struct mcast_group *
grow(const struct mcast_group *old, uint16_t port, const struct gid *mgid)
{
	uint32_t places = old != NULL ? 2 * old->places : MCAST_PLACES;
	/* Not a byte more, so that a sanitizer finds what looks beyond its places. */
	struct mcast_group *g = calloc(1, offsetof(struct mcast_group, qpns) + places * sizeof(g->qpns[0]));

	if (g == NULL)
		return NULL;
	g->mgid = *mgid;
	g->port = port;
	g->places = places;
	if (old == NULL)
		return g;
	g->members = old->members;
	for (uint32_t i = 0; i < old->places; i++)
		atomic_init(&g->qpns[i], atomic_load(&old->qpns[i]));
	atomic_init(&g->next, atomic_load(&old->next));
	return g;
}

int
mcast_attach(struct mcast_table *t, uint16_t port, const struct gid *mgid, uint32_t qpn)
{
	struct mcast_group *old, *g;
	_Atomic(struct mcast_group *) *pp = find(t, port, mgid, &old);

	g = old;
	if (place_of(old, qpn) != NULL)
		return 0;
	if (old != NULL ? old->members == UROCE_MAX_MCAST_ATTACH : t->groups == UROCE_MAX_MCAST_GROUPS)
		return ENOMEM;
	if (place_of(old, 0) == NULL) {
		g = grow(old, port, mgid);
		if (g == NULL)
			return ENOMEM;
	}
	g->members++;
	t->attached++;
	t->groups += old == NULL;
	atomic_store_explicit(place_of(g, 0), qpn, memory_order_release);
	if (g == old)
		return 0;
	atomic_store_explicit(pp, g, memory_order_release);
	if (old != NULL)
		deferred_free(&t->old, &old->deferred);
	return 0;
}

int
mcast_detach(struct mcast_table *t, uint16_t port, const struct gid *mgid, uint32_t qpn)
{
	struct mcast_group *g;
	_Atomic(struct mcast_group *) *pp = find(t, port, mgid, &g);
	_Atomic uint32_t *place = place_of(g, qpn);

	if (place == NULL)
		return EINVAL;
	atomic_store_explicit(place, 0, memory_order_release);
	t->attached--;
	if (--g->members > 0)
		return 0;
	t->groups--;
	atomic_store_explicit(pp, atomic_load(&g->next), memory_order_release);
	deferred_free(&t->old, &g->deferred);
	return 0;
}

/* ---- Packets ---- */
/* @return the group that a packet is addressed to, or NULL. */
static struct mcast_group *
group_of(struct transport *tp, uint16_t port, const uint8_t *l3, uint8_t ip_version)
{
	struct gid mgid = gid_from_ip(ip_version, ip_version == 4 ? l3 + 16 : l3 + 24);
	struct mcast_group *g;

	if (tp->c.sh.mcasts == NULL)
		return NULL;
	find(tp->c.sh.mcasts, port, &mgid, &g);
	return g;
}

/*
 * Hand a copy to a member on another engine. Its BTH carries that QP's number, so that the engine treats it like any
 * other datagram. Its ICRC is no longer right, but it has been checked here.
 */
static void
copy_to(struct transport *tp, const struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	uint32_t bth_off = (uint32_t)(p->bthp - p->l2);
	uint32_t bytes = bth_off + p->op->hdr_bytes + p->payload_bytes + p->bth.pad + WIRE_ICRC_BYTES;
	struct rte_mbuf *m = tp->c.handoff != NULL ? tp_mbuf(tp) : NULL;
	uint8_t *frame;

	if (m == NULL) {
		tp->counters.rx_handoff_dropped++;
		return;
	}
	frame = rte_pktmbuf_mtod(m, uint8_t *);
	memcpy(frame, p->l2, bytes);
	wire_put24(frame + bth_off + 5, qp->qpn);
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	m->port = port;
	held_or_handoff(tp, qp, port, m, true);
}

void
mcast_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p, mcast_deliver *deliver)
{
	struct mcast_group *g;
	struct qp *qp;

	if (WIRE_OPCODE_SERVICE(p->bth.opcode) != WIRE_UD) {
		tp->counters.rx_wrong_service++;
		return;
	}
	g = group_of(tp, port, p->l3, p->ip_version);
	if (g == NULL) {
		tp->counters.rx_mcast_no_group++;
		return;
	}
	tp->counters.rx_mcast++;
	for (uint32_t i = 0; i < g->places; i++) {
		uint32_t qpn = atomic_load_explicit(&g->qpns[i], memory_order_acquire);

		qp = qpn != 0 ? qp_table_get(tp->c.sh.qps, qpn) : NULL;
		if (qp == NULL)
			continue;
		if (qp_transport(qp) == tp)
			deliver(tp, qp, port, p);
		else
			copy_to(tp, qp, port, p);
	}
}

/*
 * A datagram sent to a group is delivered to members on this host too, also to the sending QP if it is attached: the
 * specification makes no exception for it, and verbs have a flag for programs that don't want it
 * (IBV_QP_CREATE_BLOCK_SELF_MCAST_LB).
 */
void
mcast_loop(struct transport *tp, const struct qp *qp, const struct rte_mbuf *sent)
{
	const uint8_t *frame = rte_pktmbuf_mtod(sent, const uint8_t *);
	struct rte_mbuf *m;

	if (group_of(tp, qp->path.port, frame + qp->path.tmpl.l3_off, qp->path.tmpl.ip_version) == NULL)
		return;
	m = tp->loop.n < tp->c.limits.tx_packets ? tp_mbuf(tp) : NULL;
	if (m == NULL) {
		tp->counters.mcast_loop_dropped++;
		return;
	}
	memcpy(rte_pktmbuf_mtod(m, uint8_t *), frame, sent->data_len);
	m->data_len = sent->data_len;
	m->pkt_len = sent->data_len;
	m->port = qp->path.port;
	UROCE_ASSERT(tp->loop.n < TP_TX_MAX);
	tp->loop.pkts[tp->loop.n++] = m;
}
