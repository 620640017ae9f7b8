/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets for QPs of other engines.
 */
#include "base/mark.h"
#include "transport/core/held_priv.h"

static void
hold(struct transport *tp, const struct qp *qp, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	if (tp->held->n == tp->c.limits.held_packets) {
		MARK("packets of a QP on its way find no room");
		tp->counters.rx_moving_dropped++;
		rte_pktmbuf_free(m);
		return;
	}
	tp->counters.rx_moving_held++;
	m->port = port;
	tp->held->e[tp->held->n++] = (struct tp_held){ .m = m, .qp = qp, .port = port, .trusted = trusted };
}

void
held_forward(struct transport *tp)
{
	uint32_t n = tp->held->n;

	tp->held->n = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct tp_held *h = &tp->held->e[i];
		const struct transport *to = qp_transport(h->qp);

		if (to == NULL) {
			tp->held->e[tp->held->n++] = *h;
			continue;
		}
		tp->counters.rx_handoff++;
		tp->c.handoff(tp->c.arg, to->c.engine, h->port, h->m, h->trusted);
	}
}

void
held_or_handoff(struct transport *tp, const struct qp *qp, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	const struct transport *to = qp_transport(qp);

	if (unlikely(to == NULL)) {
		hold(tp, qp, port, m, trusted);
		return;
	}
	if (unlikely(tp->held->n != 0))
		held_forward(tp);
	tp->counters.rx_handoff++;
	tp->c.handoff(tp->c.arg, to->c.engine, port, m, trusted);
}

struct tp_held_list *
held_create(void)
{
	struct tp_held_list *l = malloc(sizeof(*l));

	if (l != NULL)
		l->n = 0;
	return l;
}

void
held_destroy(struct tp_held_list *l)
{
	if (l == NULL)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		rte_pktmbuf_free(l->e[i].m);
	free(l);
}
