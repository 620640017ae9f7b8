/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journals of a process that was killed are read: what counts is found, what doesn't is left. Nothing is believed before it was checked; records of QPs are checked once more
 * by qp_restore().
 */
#include <stdlib.h>

#include "base/mark.h"
#include "mem/mem.h"
#include "transport/journal/read_priv.h"
#include "transport/record/record_priv.h"

/* ---- Opening ---- */
static const char *
check_head(const struct journal_memory *m)
{
	const struct journal_head *h = m->at;
	struct journal_limits l;

	if (m->at == NULL || ((uintptr_t)m->at & (JOURNAL_PAGE - 1)) != 0 || m->bytes < sizeof(*h))
		return "size: there is no memory, or too little";
	if (h->magic != JOURNAL_MAGIC)
		return "magic: this is no journal";
	if (h->version != JOURNAL_VERSION)
		return "version: the journal was written by another version";
	if (h->crc != journal_crc(UINT32_MAX, h, offsetof(struct journal_head, crc)))
		return "crc: the journal's head is damaged";
	l = (struct journal_limits){ .qps = h->qps, .cqs = h->cqs, .srqs = h->srqs };
	if (h->slot_bytes != JOURNAL_SLOT_BYTES || h->items != JOURNAL_ITEMS || h->atomics != JOURNAL_ATOMICS || journal_bytes(&l) == 0)
		return "limits: the journal was written by another version";
	if (m->bytes < journal_bytes(&l))
		return "size: the journal is longer than its memory";
	if (h->image_bytes > JOURNAL_IMAGE_ROOM || h->image_bytes % sizeof(journal_pair) != 0 ||
	    h->nb_members > JOURNAL_MEMBERS_BYTES / sizeof(struct journal_member))
		return "image_bytes, nb_members: the journal was written by another version";
	return NULL;
}

/* Find out where the members of QPs are. */
static const char *
open_members(struct journal *j, const struct journal_member *table)
{
	if (j->head->members_crc != journal_crc(UINT32_MAX, table, j->head->nb_members * sizeof(*table)))
		return "members: the table of members is damaged";
	if (journal_members_read(table, j->head->nb_members, j->head->image_bytes, j->members) != NULL)
		return "members: the journal was written by another version";
	return NULL;
}

static const char *
open_one(struct journal *j, const struct journal_memory *m)
{
	const char *wrong = check_head(m);
	struct journal_layout y;
	uint64_t list;
	uint32_t used;

	if (wrong != NULL)
		return wrong;
	j->head = m->at;
	j->limits = (struct journal_limits){ .qps = j->head->qps, .cqs = j->head->cqs, .srqs = j->head->srqs };
	y = journal_layout(&j->limits);
	wrong = open_members(j, (const void *)((const uint8_t *)m->at + y.members));
	if (wrong != NULL)
		return wrong;
	j->list = (const void *)((const uint8_t *)m->at + y.list);
	j->srqs = (const void *)((const uint8_t *)m->at + y.srqs);
	j->owed = (const void *)((const uint8_t *)m->at + y.owed);
	j->counters = (const void *)((const uint8_t *)m->at + y.counters);
	j->slots = (const uint8_t *)m->at + y.slots;
	if (!journal_untag(atomic_load(&j->head->turn), &j->turn))
		return "turn: the number of the last turn is damaged";
	if (!journal_get_number(atomic_load(&j->head->used), &used) || used > j->limits.qps)
		return "used: the number of slots is damaged";
	/* What is listed belongs to the turn that counts, and may not be shown yet, or to the next one. */
	j->list_lost = !journal_untag(atomic_load(&j->list->turn), &list) || (list != j->turn && list != j->turn + 1) ||
		       !journal_get_number(atomic_load(&j->list->nb_items), &j->nb_items) || j->nb_items > JOURNAL_ITEMS ||
		       !journal_get_number(j->list->nb_atomics, &j->nb_atomics) || j->nb_atomics > JOURNAL_ATOMICS;
	j->dying = j->turn + 1;
	if (j->list_lost || list != j->turn)
		j->nb_items = 0;
	if (j->list_lost || list != j->dying)
		j->nb_atomics = 0;
	for (uint32_t i = 0; i < j->nb_items; i++)
		j->list_lost |= j->list->items[i].check != journal_item_check(&j->list->items[i], j->turn);
	for (uint32_t i = 0; i < j->nb_atomics; i++)
		j->list_lost |= j->list->atomics[i].check != journal_atomic_check(&j->list->atomics[i], j->dying);
	if (j->list_lost)
		j->nb_items = j->nb_atomics = 0;
	j->used = used;
	j->open = true;
	return NULL;
}

/* ---- QPs ---- */
static const struct journal_slot *
slot_of(const struct journal *j, uint32_t n)
{
	return (const void *)(j->slots + (size_t)n * JOURNAL_SLOT_BYTES);
}

enum journal_counts
journal_which(const struct journal *j, const uint64_t tag[2], const uint64_t prev[2], const bool whole[2], uint32_t *which)
{
	uint64_t turn[2];
	bool counts[2];

	for (uint32_t i = 0; i < 2; i++) {
		turn[i] = 0;
		counts[i] = false;
		if (tag[i] == 0)
			continue;
		if (!journal_untag(tag[i], &turn[i]) || turn[i] > j->dying)
			return JOURNAL_DAMAGED;
		/* It was being written, or is complete and doesn't count. */
		if (turn[i] == j->dying)
			continue;
		if (!whole[i])
			return JOURNAL_DAMAGED;
		counts[i] = true;
	}
	if (!counts[0] && !counts[1])
		return JOURNAL_NOTHING;
	*which = counts[0] && (!counts[1] || turn[0] > turn[1]) ? 0 : 1;
	/* The one before it must still be there, or have been written over by the turn that doesn't count. */
	if (turn[!*which] != j->dying && tag[!*which] != prev[*which])
		return JOURNAL_DAMAGED;
	return JOURNAL_COUNTS;
}

static bool
is_whole(const struct journal *j, const struct journal_copy *c, uint64_t tag, const uint8_t *parts)
{
	uint64_t sum[2];

	journal_copy_sum(c, tag, j->head->image_bytes, sum);
	if (sum[0] != c->sum[0] || sum[1] != c->sum[1])
		return false;
	return c->state == JOURNAL_NONE || (c->cold_crc == journal_cold_crc(c) && c->parts_bytes <= JOURNAL_PARTS_BYTES && c->parts_bytes % 8 == 0 &&
					    (c->parts_bytes == 0 || c->parts_crc == journal_crc(UINT32_MAX, parts, c->parts_bytes)));
}

static uint32_t
qpn_of(const struct journal *j, const struct journal_copy *c)
{
	return (uint32_t)journal_image_get(j->members, JOURNAL_MEMBER_qpn, c->image);
}

/* Find out what a slot says. @return false: there is no QP. */
static bool
read_slot(const struct journal *j, unsigned int engine, uint32_t n, struct journal_found *f)
{
	const struct journal_slot *s = slot_of(j, n);
	uint64_t tag[2], prev[2];
	bool whole[2], now;
	uint32_t which = 0, value;
	enum journal_counts c;

	if (atomic_load(&s->notes.moved) == JOURNAL_MOVED)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		const struct journal_copy *k = &s->copy[i];

		tag[i] = atomic_load(&k->tag);
		prev[i] = k->prev;
		whole[i] = is_whole(j, k, tag[i], s->parts[i]);
	}
	c = journal_which(j, tag, prev, whole, &which);
	if (c == JOURNAL_NOTHING || (c == JOURNAL_COUNTS && s->copy[which].state == JOURNAL_NONE))
		return false;
	*f = (struct journal_found){ .engine = engine, .slot = n, .copy = which, .lost = c != JOURNAL_COUNTS };
	if (f->lost) {
		/* Its number, if one of the copies still has it. */
		which = whole[0] && tag[0] != 0 ? 0 : 1;
		f->qpn = whole[which] && tag[which] != 0 && s->copy[which].state != JOURNAL_NONE ? qpn_of(j, &s->copy[which]) : 0;
		return f->qpn != 0;
	}
	f->qpn = qpn_of(j, &s->copy[which]);
	f->leaving = s->copy[which].state == JOURNAL_LEAVING;
	f->lost |= !journal_get_note(atomic_load(&s->notes.placed), j->dying, &value, &now);
	f->lost |= !journal_get_note(atomic_load(&s->notes.local), j->dying, &value, &now);
	/* Of what is listed something may be theirs: completions of QPs of the last turn, atomics of QPs that permit them. */
	if (j->list_lost)
		f->lost |= tag[which] == journal_tag(j->turn) || (s->copy[which].cold.attr.qp_access_flags & UROCE_ACCESS_REMOTE_ATOMIC) != 0;
	return true;
}

static int
by_number(const void *a, const void *b)
{
	const struct journal_found *x = a, *y = b;

	if (x->qpn != y->qpn)
		return x->qpn < y->qpn ? -1 : 1;
	return (int)x->leaving - (int)y->leaving;
}

static int
find_qps(struct journals *js)
{
	uint32_t most = 0, n = 0;

	for (unsigned int e = 0; e < js->nb; e++)
		most += js->all[e].open ? js->all[e].used : 0;
	js->qps = calloc(most + 1, sizeof(*js->qps));
	if (js->qps == NULL)
		return ENOMEM;
	for (unsigned int e = 0; e < js->nb; e++)
		for (uint32_t i = 0; js->all[e].open && i < js->all[e].used; i++)
			js->nb_qps += read_slot(&js->all[e], e, i, &js->qps[js->nb_qps]);
	qsort(js->qps, js->nb_qps, sizeof(*js->qps), by_number);
	/* One that was leaving and has arrived is there twice. */
	for (uint32_t i = 0; i < js->nb_qps; i++) {
		if (n != 0 && js->qps[n - 1].qpn == js->qps[i].qpn) {
			MARK_IF(js->qps[i].leaving, "a QP is in the journals of two engines");
			js->qps[n - 1].lost |= !js->qps[i].leaving;
			continue;
		}
		js->qps[n++] = js->qps[i];
	}
	js->nb_qps = n;
	return 0;
}

int
journals_open(const struct journal_memory *m, unsigned int nb, struct journals **out, const char **why)
{
	struct journals *js;

	js = calloc(1, sizeof(*js) + nb * sizeof(js->all[0]));
	if (js == NULL)
		return ENOMEM;
	js->nb = nb;
	for (unsigned int e = 0; e < nb; e++)
		why[e] = open_one(&js->all[e], &m[e]);
	if (find_qps(js) != 0) {
		journals_close(js);
		return ENOMEM;
	}
	*out = js;
	return 0;
}

void
journals_close(struct journals *js)
{
	if (js == NULL)
		return;
	free(js->qps);
	free(js);
}

uint32_t
journals_qps(const struct journals *js)
{
	return js->nb_qps;
}

void
journals_nth_qp(const struct journals *js, uint32_t n, struct journal_qp *qp)
{
	const struct journal_found *f = &js->qps[n];

	*qp = (struct journal_qp){ .qpn = f->qpn, .engine = f->engine, .lost = f->lost };
}

/* ---- A QP's record ---- */
static uint64_t
until(uint64_t at, uint64_t now_ns)
{
	return at == 0 ? UINT64_MAX : at > now_ns ? at - now_ns : 0;
}

static uint64_t
age(uint64_t at, uint64_t now_ns)
{
	return at == 0 ? UINT64_MAX : now_ns - RTE_MIN(at, now_ns);
}

static void
put_times(struct qp_record *r, uint64_t now_ns)
{
	r->giveup_ns = r->timer_ns == 0 ? UINT64_MAX : until(r->giveup_ns, now_ns);
	r->timer_ns = until(r->timer_ns, now_ns);
	r->stuck_age_ns = age(r->stuck_age_ns, now_ns);
	r->nak_age_ns = age(r->nak_age_ns, now_ns);
	r->why_age_ns = age(r->why_age_ns, now_ns);
	r->cnp_ns = r->cnp_ns > now_ns ? r->cnp_ns - now_ns : 0;
}

/* @return whether the last atomic was executed, of which the note doesn't say it. */
static bool
was_executed(const struct journal_atomic *a, struct mr_table *mrs)
{
	struct mr *mr = mrs != NULL ? mr_get(mrs, a->key) : NULL;
	uint64_t now;

	if (mrs == NULL)
		return true;
	if (mr == NULL || mr_check(mrs, a->key, mr->pd, 0, a->va, sizeof(now)) == NULL || mr_read(mr, a->va, &now, sizeof(now)) != 0)
		return false;
	MARK_IF(now == a->after, "the last atomic was executed, but its note doesn't say so");
	MARK_IF(now != a->after, "the last atomic was noted, but not executed");
	return now == a->after && a->after != a->before;
}

static bool
is_kept(const struct qp_record *r, const struct qp_record_kept *kept, uint32_t psn)
{
	for (uint32_t i = 0; i < r->nb_kept; i++)
		if (kept[i].psn == psn)
			return true;
	return false;
}

/* @return false: what is noted of the atomic that a copier executed is damaged. */
static bool
put_away(const struct journal_notes *n, struct mr_table *mrs, struct qp_record *r, struct qp_record_kept *kept)
{
	struct journal_atomic a = { .before = n->away.before, .after = n->away.after, .va = n->away_va, .key = n->away_key };
	uint32_t psn, done;

	if (!journal_get_away(atomic_load(&n->away.state), &psn, &done))
		return false;
	if (done == 0 || wire_psn_diff(psn, r->epsn) < 0 || is_kept(r, kept, psn) || r->nb_kept == UROCE_MAX_RD_ATOMIC)
		return true;
	if (n->away.check != mem_note_check(&n->away, journal_away(psn, JOURNAL_AWAY_BEGUN)) || n->away_check != journal_away_check(n))
		return false;
	if (done == JOURNAL_AWAY_DONE || was_executed(&a, mrs)) {
		MARK("a copier has executed an atomic of a turn that doesn't count");
		kept[r->nb_kept++] = (struct qp_record_kept){ .value = a.before, .psn = psn };
	}
	return true;
}

/* What the turn that doesn't count had done already, and what an earlier one had, is kept. */
static bool
put_kept(const struct journal *j, const struct journal_slot *s, struct mr_table *mrs, struct qp_record *r, struct qp_record_kept *kept)
{
	uint32_t value;
	bool now;

	journal_get_note(atomic_load(&s->notes.placed), j->dying, &value, &now);
	if (now && wire_psn_diff(value, r->epsn) > 0 && ((r->kept & QP_KEPT_PLACED) == 0 || wire_psn_diff(value, r->placed_to) > 0)) {
		MARK("bytes of a turn that doesn't count are in place");
		r->kept |= QP_KEPT_PLACED;
		r->placed_to = value & WIRE_PSN_MASK;
	}
	journal_get_note(atomic_load(&s->notes.local), j->dying, &value, &now);
	if (now && (int32_t)(value - r->sq_tail) > 0 && ((r->kept & QP_KEPT_LOCAL) == 0 || (int32_t)(value - r->local_to) > 0)) {
		MARK("a local WQE was executed in a turn that doesn't count");
		r->kept |= QP_KEPT_LOCAL;
		r->local_to = value;
	}
	for (uint32_t i = 0; i < j->nb_atomics; i++) {
		const struct journal_atomic *a = &j->list->atomics[i];
		uint32_t done = atomic_load(&a->done);

		if (a->qpn != r->qpn || wire_psn_diff(a->psn, r->epsn) < 0 || r->nb_kept == UROCE_MAX_RD_ATOMIC)
			continue;
		if (done != JOURNAL_DONE && (done != 0 || i + 1 != j->nb_atomics))
			return false;
		if (done == JOURNAL_DONE || was_executed(a, mrs))
			kept[r->nb_kept++] = (struct qp_record_kept){ .value = a->before, .psn = a->psn };
	}
	return put_away(&s->notes, mrs, r, kept);
}

static bool
put_parts(const struct journal *j, const struct journal_found *f, struct mr_table *mrs, struct qp_record *r)
{
	const struct journal_slot *s = slot_of(j, f->slot);
	const uint8_t *from = s->parts[f->copy];
	uint32_t res = journal_results_bytes(r->nb_res), reads = r->nb_reads * (uint32_t)sizeof(struct qp_record_read),
		 sges = r->nb_sges * (uint32_t)sizeof(struct qp_record_sge), kept = r->nb_kept * (uint32_t)sizeof(struct qp_record_kept);
	uint8_t *to = (uint8_t *)(r + 1) + r->nb_wqes * sizeof(struct qp_record_wqe);
	struct qp_record_res *results = (void *)to;
	struct tp_res t;

	/* No result at all isn't written. */
	memset(to, 0, r->res_max * sizeof(struct qp_record_res));
	for (uint32_t i = 0; i < r->nb_res; i++) {
		memcpy(&t, from + i * sizeof(t), sizeof(t));
		results[i] = record_res(&t);
	}
	to += r->res_max * sizeof(struct qp_record_res);
	r->nb_res = r->res_max;
	memcpy(to, from + res, reads);
	memcpy(to + reads, from + res + reads, sges);
	to += reads + sges;
	memcpy(to, from + res + reads + sges, kept);
	if (!put_kept(j, s, mrs, r, (void *)to))
		return false;
	to += r->nb_kept * sizeof(struct qp_record_kept);
	record_seal(r, RECORD_QP, QP_RECORD_VERSION, (uint32_t)(to - (uint8_t *)r));
	return true;
}

/* @return false: a number is too large. */
static bool
put_members(const struct journal *j, const struct journal_copy *c, struct qp_record *r)
{
	memset(r, 0, sizeof(*r));
	if (!journal_image_read(j->members, c->image, r))
		return false;
	r->attr = c->cold.attr;
	r->addr = c->cold.addr;
	r->alt = c->cold.alt;
	r->alt_port = c->cold.alt_port;
	r->alt_pkey = c->cold.alt_pkey;
	r->has_path = c->cold.has_path;
	r->alt_loopback = c->cold.alt_loopback;
	r->srqn = c->srqn;
	r->recv_valid = (c->flags & JOURNAL_RECEIVES) != 0;
	r->nb_res = c->nb_res;
	r->nb_reads = c->nb_reads;
	r->nb_sges = c->nb_sges;
	r->nb_kept = c->nb_kept;
	r->kept = c->kept;
	r->placed_to = c->placed_to;
	r->local_to = c->local_to;
	r->nb_wqes = r->sq_counter != r->sq_tail;
	/* What the scoreboard knew is lost, as in qp_save(). */
	if (c->flags & JOURNAL_REPAIRS) {
		r->sq_cur = r->sq_tail;
		r->psn_cur = r->psn_una;
		r->rd_out = 0;
	}
	return true;
}

/* @return whether the numbers of its parts are within limits, and what the parts have. */
static bool
numbers_ok(const struct qp_record *r, uint32_t parts_bytes)
{
	if (r->res_max > UROCE_MAX_RD_ATOMIC ||
	    (r->nb_res != 0 && r->nb_res != r->res_max) || r->nb_reads > r->nb_res || r->nb_sges > UROCE_MAX_SGE || r->nb_kept > UROCE_MAX_RD_ATOMIC)
		return false;
	return parts_bytes == journal_results_bytes(r->nb_res) + r->nb_reads * sizeof(struct qp_record_read) +
				      r->nb_sges * sizeof(struct qp_record_sge) + r->nb_kept * sizeof(struct qp_record_kept);
}

int
journals_qp(const struct journals *js, uint32_t qpn, struct mr_table *mrs, uint64_t now_ns, struct qp_record *to, unsigned int *engine)
{
	const struct journal_found key = { .qpn = qpn }, *f = NULL;
	const struct journal *j;
	const struct journal_copy *c;
	struct qp_record_wqe oldest;

	for (uint32_t lo = 0, hi = js->nb_qps; lo < hi && f == NULL;) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (js->qps[mid].qpn == key.qpn)
			f = &js->qps[mid];
		else if (js->qps[mid].qpn < key.qpn)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (f == NULL)
		return ENOENT;
	if (engine != NULL)
		*engine = f->engine;
	if (f->lost)
		return EBADMSG;
	j = &js->all[f->engine];
	c = &slot_of(j, f->slot)->copy[f->copy];
	if (!put_members(j, c, to) || !numbers_ok(to, c->parts_bytes))
		return EBADMSG;
	put_times(to, now_ns);
	if (to->nb_wqes != 0) {
		oldest = c->oldest;
		memset(oldest.reserved, 0, sizeof(oldest.reserved));
		memcpy(to + 1, &oldest, sizeof(oldest));
	}
	return put_parts(j, f, mrs, to) ? 0 : EBADMSG;
}

/* ---- SRQs ---- */
static enum journal_counts
read_srq(const struct journal *j, uint32_t number, const struct journal_srq_copy **out)
{
	const struct journal_srq *s = &j->srqs[number];
	uint64_t tag[2], prev[2];
	enum journal_counts c;
	uint32_t which = 0;
	bool whole[2];

	if (atomic_load(&s->moved) == JOURNAL_MOVED)
		return JOURNAL_NOTHING;
	for (uint32_t i = 0; i < 2; i++) {
		tag[i] = atomic_load(&s->copy[i].tag);
		prev[i] = s->copy[i].prev;
		whole[i] = s->copy[i].check == journal_srq_check(&s->copy[i], tag[i]);
	}
	c = journal_which(j, tag, prev, whole, &which);
	*out = &s->copy[which];
	return c == JOURNAL_COUNTS && (*out)->state == JOURNAL_NONE ? JOURNAL_NOTHING : c;
}

int
journals_srq(const struct journals *js, uint32_t number, const struct srq_params *p, struct srq_record *to, unsigned int *engine)
{
	const struct journal_srq_copy *c, *best = NULL;

	for (unsigned int e = 0; e < js->nb; e++) {
		enum journal_counts found;

		if (!js->all[e].open || number >= js->all[e].limits.srqs)
			continue;
		found = read_srq(&js->all[e], number, &c);
		if (found == JOURNAL_DAMAGED)
			return EBADMSG;
		/* One that is leaving and has arrived is there twice. */
		if (found != JOURNAL_COUNTS || (best != NULL && c->state == JOURNAL_LEAVING))
			continue;
		best = c;
		if (engine != NULL)
			*engine = e;
	}
	if (best == NULL)
		return ENOENT;
	memset(to, 0, sizeof(*to));
	to->counter = best->counter;
	to->limit = best->limit;
	to->pd = p->pd;
	to->srqn = p->srqn;
	to->xrcd = p->xrcd;
	to->order = (uint8_t)p->ring.order;
	record_seal(to, RECORD_SRQ, SRQ_RECORD_VERSION, sizeof(*to));
	return 0;
}

/* ---- Events, counters ---- */
/* @return the n-th, or NULL; @p n is what is left to count. */
static const struct journal_item *
event_at(const struct journals *js, uint32_t *n)
{
	for (unsigned int e = 0; e < js->nb; e++)
		for (uint32_t i = 0; i < js->all[e].nb_items; i++)
			if (js->all[e].list->items[i].kind == JOURNAL_ITEM_EVENT && (*n)-- == 0)
				return &js->all[e].list->items[i];
	return NULL;
}

uint32_t
journals_events(const struct journals *js)
{
	uint32_t n = UINT32_MAX;

	event_at(js, &n);
	return UINT32_MAX - n;
}

void
journals_nth_event(const struct journals *js, uint32_t n, struct journal_event *ev)
{
	const struct journal_item *i = event_at(js, &n);

	*ev = i == NULL ? (struct journal_event){ .number = 0 } :
			  (struct journal_event){ .type = (enum uroce_event)i->type, .of = (enum journal_object)i->of, .number = i->number };
}

int
journals_counters(const struct journals *js, unsigned int engine, struct transport_record *to)
{
	const struct journal_counters *best = NULL;
	uint64_t turn, newest = 0;

	if (engine >= js->nb || !js->all[engine].open)
		return EBADMSG;
	for (uint32_t i = 0; i < 2; i++) {
		const struct journal_counters *c = &js->all[engine].counters[i];

		if (!journal_untag(atomic_load(&c->tag), &turn) || turn < newest ||
		    record_check(&c->rec, sizeof(c->rec), RECORD_TRANSPORT, TRANSPORT_RECORD_VERSION, sizeof(c->rec)) != NULL)
			continue;
		newest = turn;
		best = c;
	}
	if (best == NULL)
		return EBADMSG;
	*to = best->rec;
	return 0;
}
