/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation and end of a transport.
 */
#include "transport/core/event_log_priv.h"
#include "transport/core/held_priv.h"
#include "transport/core/local_priv.h"
#include "transport/core/share_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/pools_priv.h"
#include "transport/timers_priv.h"

struct transport *
transport_create(const struct transport_config *c)
{
	struct transport *tp;

	if (c->engine >= UROCE_MAX_ENGINES || c->nb_ports == 0 || c->nb_ports > UROCE_MAX_PORTS || c->sh.mrs == NULL ||
	    c->sh.qps == NULL || c->sh.pool == NULL) {
		errno = EINVAL;
		return NULL;
	}
	tp = calloc(1, sizeof(*tp) + c->nb_ports * sizeof(tp->tx[0]));
	if (tp == NULL)
		return NULL;
	tp->c = *c;
	pools_default(&tp->c.pools);
	limits_default(&tp->c.limits);
	if (c->by_reference)
		tp->locals = calloc(1, sizeof(*tp->locals));
	tp->held = held_create();
	if (pools_create(tp) != 0 || diag_create(tp) != 0 || tp->held == NULL || (c->by_reference && tp->locals == NULL)) {
		pools_destroy(tp);
		diag_destroy(tp);
		held_destroy(tp->held);
		free(tp->locals);
		free(tp);
		errno = ENOMEM;
		return NULL;
	}
	for (uint16_t i = 0; i < c->nb_ports; i++) {
		static const uint16_t none[UROCE_MAX_PKEYS];

		if (memcmp(c->ports[i].pkeys, none, sizeof(none)) == 0)
			tp->c.ports[i].pkeys[0] = WIRE_PKEY_DEFAULT;
	}
	shares_init(tp);
	TAILQ_INIT(&tp->replies);
	TAILQ_INIT(&tp->copies);
	TAILQ_INIT(&tp->blocked);
	TAILQ_INIT(&tp->fresh);
	wheel_init(&tp->wheel, 0);
	tp->wheel.due_ns = timer_due_ns;
	tp->deferred_next_ns = tp->owed_next_ns = UINT64_MAX;
	TAILQ_INIT(&tp->owed);
	errno = journal_create(tp);
	if (errno != 0) {
		int rc = errno;

		transport_destroy(tp);
		errno = rc;
		return NULL;
	}
	return tp;
}

void
transport_destroy(struct transport *tp)
{
	if (tp == NULL)
		return;
	for (uint16_t i = 0; i < tp->c.nb_ports; i++)
		rte_pktmbuf_free_bulk(tp->tx[i].pkts, tp->tx[i].n);
	rte_pktmbuf_free_bulk(tp->loop.pkts, tp->loop.n);
	rte_pktmbuf_free_bulk(tp->mbufs, tp->nb_mbufs);
	held_destroy(tp->held);
	if (tp->locals != NULL)
		locals_drop(tp);
	free(tp->locals);
	journal_destroy(tp);
	pools_destroy(tp);
	diag_destroy(tp);
	free(tp);
}
