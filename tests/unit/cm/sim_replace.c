/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's daemon is replaced: another CM goes on from the records of the connections that have owners, and the peers notice nothing. What it saves again
 * is what was saved. Connections that live on after their owners are not in records; their peers find out in other ways.
 */
#include <string.h>

#include "sim.h"

struct kept {
	struct cm_conn_record r;
	struct cm_conn **at;
	void *owner;
	struct cm_listener **listener; /* in which it waits, or NULL */
};

struct all {
	struct kept of[2 * PAIRS + 2 * ASKERS];
	uint32_t n;
};

static void
keep(struct host *h, struct all *all, struct cm_conn **c, void *owner)
{
	struct kept *k = &all->of[all->n++];
	const struct cm_listener *l = cm_conn_listener(*c);

	k->at = c;
	k->owner = owner;
	k->listener = l != NULL && h->tcp == l ? &h->tcp : NULL;
	for (int i = 0; i <= CM_LISTEN_ANY; i++)
		if (l != NULL && h->listeners[i] == l)
			k->listener = &h->listeners[i];
	cm_conn_save(*c, h->w->now, &k->r);
}

static void
keep_all(struct world *w, struct host *h, struct all *all)
{
	for (uint32_t i = 0; i < PAIRS; i++)
		for (unsigned int side = 0; side < 2; side++) {
			struct pair *p = &w->pairs[i];

			if (p->serial == 0 || p->host[side] != h->number)
				continue;
			/* Whom it has asked whether he is there it forgets. */
			if (watch_established(p, side))
				p->end[side].probed_ns = p->end[side].due_ns = 0;
			if (p->conn[side] != NULL)
				keep(h, all, &p->conn[side], owner_of_pair(i, side));
			else if (p->end[side].due_ns != 0)
				p->cut = true; /* what it had to say is lost */
			p->lap &= side != PASSIVE;
		}
	for (uint32_t i = 0; i < ASKERS; i++)
		for (unsigned int side = 0; side < 2; side++) {
			struct asker *a = &w->askers[i];

			if ((a->host == h->number) != (side == ACTIVE))
				continue;
			if (a->conn[side] != NULL)
				keep(h, all, &a->conn[side], owner_of_asker(i, side));
			else if (side == PASSIVE)
				a->asked = false;
		}
}

static void
restore(struct world *w, struct host *h, const struct kept *k)
{
	struct cm_conn_record again;
	const char *why = "";
	uint64_t due = k->r.timer_ns;

	*k->at = cm_conn_restore(h->cm, &k->r, sizeof(k->r), k->listener != NULL ? *k->listener : NULL, 2, k->owner, w->now, &why);
	if (*k->at == NULL)
		failed(w, "host %u: a connection isn't restored: %s", h->number, why);
	cm_conn_save(*k->at, w->now, &again);
	if (again.timer_ns != due && (due == UINT64_MAX || again.timer_ns - due >= 2 * TICK_NS))
		failed(w, "host %u: a timer of %llu ns is one of %llu ns after it was restored", h->number, (unsigned long long)due,
		       (unsigned long long)again.timer_ns);
	again.timer_ns = due;
	for (unsigned int i = sizeof(again.head); i < sizeof(again); i++)
		if (((const uint8_t *)&again)[i] != ((const uint8_t *)&k->r)[i])
			failed(w, "host %u: byte %u of a connection's record is another one after it was restored", h->number, i);
}

void
host_replace(struct world *w, unsigned int number)
{
	static struct all all;
	struct host *h = &w->hosts[number];
	struct cm_usage before, after;
	uint32_t tid = cm_tid(h->cm), next_qpn = h->next_qpn;
	bool used[QPNS];

	memset(&all, 0, sizeof(all));
	memcpy(used, h->qpn_used, sizeof(used));
	keep_all(w, h, &all);
	cm_usage(h->cm, &before);
	cm_close(h->cm);
	host_start(w, number);
	cm_set_tid(h->cm, tid);
	memcpy(h->qpn_used, used, sizeof(used));
	h->next_qpn = next_qpn;
	for (uint32_t i = 0; i < all.n; i++) {
		restore(w, h, &all.of[i]);
		/* It counts when it ends. */
		h->nb_disconnected += all.of[i].r.state == CM_DREQ_SENT;
	}
	cm_usage(h->cm, &after);
	if (after.conns != all.n || after.half_open != before.half_open)
		failed(w, "host %u has %u connections, %u half open, after %u were restored, of %u half open", number, after.conns, after.half_open,
		       all.n, before.half_open);
	w->nb_replaced++;
}
