/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Journals that are read: what is damaged is found, and lost alone; the rest is what it was. CQs of several engines are settled.
 */
#include "journal_rig.h"
#include "transport/move.h"

enum { FOUR = 4, CQ_ORDER = 3 };

/* ---- Damage ---- */
/* What was read of a journal. */
struct seen {
	const char *why;
	uint32_t nb_qps;
	int rc[2], srq_rc;
	uint32_t bytes[2];
	struct srq_record srq;
};
static uint64_t records[2][JOURNAL_QP_BYTES / 8 + 1], first[2][JOURNAL_QP_BYTES / 8 + 1];

static void
look(const void *memory, const uint32_t qpn[2], const struct srq_params *sp, struct seen *s)
{
	struct journal_memory m = { memory, journal_bytes(&journal_limits) };
	struct journals *js;

	memset(s, 0, sizeof(*s));
	assert_int_equal(journals_open(&m, 1, &js, &s->why), 0);
	s->nb_qps = journals_qps(js);
	for (unsigned int i = 0; i < 2; i++) {
		s->rc[i] = journals_qp(js, qpn[i], NULL, 1000000, (struct qp_record *)records[i], NULL);
		s->bytes[i] = s->rc[i] == 0 ? ((struct qp_record *)records[i])->head.size : 0;
	}
	s->srq_rc = journals_srq(js, 0, sp, &s->srq, NULL);
	journals_close(js);
}

/* A rig with two QPs at host 1, of which the first has done much and the second little, and an SRQ. */
static void
busy(struct rig *r, struct end **second, struct end_srq **srq)
{
	journal_rig_up(r, 0, NULL);
	*srq = srq_new(&r->p->h[1], 16, 4);
	*second = end_new(&r->p->h[1], NULL);
	for (uint32_t i = 0; i < 3; i++) {
		rig_fetch_add(r, i, 8 * i, 1);
		pair_settle(r->p);
	}
	/* Sends that nobody answers: WQEs in flight. */
	r->p->stalled = true;
	for (uint32_t i = 0; i < FOUR; i++)
		end_send(r->b, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(r->bbuf, 64, r->bmr), .nb_sge = 1 });
	host_turn(&r->p->h[1]);
	srq_set_limit((*srq)->srq, 5);
	srq_set_limit((*srq)->srq, 6);
}

static void
end_busy(struct rig *r, struct end *second, struct end_srq *srq)
{
	end_free(second);
	srq_free(&r->p->h[1], srq);
	rig_down(r);
}

/*
 * Each bit of the journal is flipped, of what was ever written. Either the whole journal is refused, or a record is lost, or nothing has changed: no
 * QP, no SRQ is ever another one.
 */
static void
each_bit_is_checked(void **state)
{
	struct journal_layout y = journal_layout(&journal_limits);
	const size_t ranges[][2] = { { 0, sizeof(struct journal_head) }, { y.members, y.members + JOURNAL_MEMBERS * sizeof(struct journal_member) },
				     { y.list, y.list + offsetof(struct journal_list, pad) },
				     { y.srqs, y.srqs + sizeof(struct journal_srq) }, { y.slots, y.slots + 2 * JOURNAL_SLOT_BYTES } };
	uint32_t refused = 0, lost[2] = { 0 }, srq_lost = 0;
	struct srq_params sp = { .pd = PAIR_PD };
	struct seen good, now;
	struct end_srq *srq;
	struct end *second;
	uint32_t qpn[2];
	uint8_t *at;
	struct rig r;

	(void)state;
	busy(&r, &second, &srq);
	qpn[0] = qp_num(r.b->qp);
	qpn[1] = qp_num(second->qp);
	at = r.p->h[1].journal;
	look(at, qpn, &sp, &good);
	assert_null(good.why);
	assert_int_equal(good.nb_qps, 2);
	assert_true(good.rc[0] == 0 && good.rc[1] == 0 && good.srq_rc == 0);
	assert_int_equal(good.srq.limit, 6);
	memcpy(first, records, sizeof(first));
	for (unsigned int k = 0; k < RTE_DIM(ranges); k++)
		for (size_t i = ranges[k][0]; i < ranges[k][1]; i++)
			for (unsigned int bit = 0; bit < 8; bit++) {
				at[i] ^= (uint8_t)(1 << bit);
				look(at, qpn, &sp, &now);
				at[i] ^= (uint8_t)(1 << bit);
				if (now.why != NULL) {
					assert_int_equal(now.nb_qps, 0);
					refused++;
					continue;
				}
				for (unsigned int q = 0; q < 2; q++) {
					lost[q] += now.rc[q] != 0;
					if (now.rc[q] == 0 && (now.bytes[q] != good.bytes[q] || memcmp(first[q], records[q], good.bytes[q]) != 0))
						fail_msg("bit %u of byte %zu makes another QP", bit, i);
				}
				/* Both are lost only by what belongs to neither. */
				if (now.rc[0] != 0 && now.rc[1] != 0 && k == 4)
					fail_msg("bit %u of byte %zu of a slot loses both", bit, i);
				srq_lost += now.srq_rc != 0;
				if (now.srq_rc == 0 && memcmp(&now.srq, &good.srq, sizeof(good.srq)) != 0)
					fail_msg("bit %u of byte %zu makes another SRQ", bit, i);
			}
	/* Without the table of members nobody knows what QPs are. */
	assert_in_range(refused - 8 * JOURNAL_MEMBERS * sizeof(struct journal_member), 300, 700);
	assert_in_range(lost[0], 5000, 40000);
	assert_in_range(lost[1], 4000, 40000);
	assert_in_range(srq_lost, 400, 600);
	end_busy(&r, second, srq);
}

/* A journal has the oldest WQE in flight alone. The others are fetched from the SQ, if they are still what they were. */
static void
wqes_are_fetched_from_the_sq(void **state)
{
	static uint64_t record[JOURNAL_QP_BYTES / 8 + 1];
	struct journal_memory m;
	struct end_srq *srq;
	struct qp_params p;
	struct journals *js;
	struct end *second;
	struct ring_sq_wqe *w;
	const char *why = "";
	union ring_sq_ctl ctl;
	struct qp *made;
	struct rig r;

	(void)state;
	busy(&r, &second, &srq);
	m = (struct journal_memory){ r.p->h[1].journal, journal_bytes(&journal_limits) };
	assert_int_equal(journals_open(&m, 1, &js, &why), 0);
	assert_int_equal(journals_qp(js, qp_num(r.b->qp), NULL, r.p->now, (struct qp_record *)record, NULL), 0);
	journals_close(js);
	assert_int_equal(((struct qp_record *)record)->nb_wqes, 1);
	p = params_of(r.b);
	/* The record is right, and only the number is in use. */
	assert_int_equal(qp_restore(r.p->h[1].tp, (struct qp_record *)record, sizeof(record), &p, r.p->now, &made, &why), EEXIST);
	w = ring_slot(&p.sq, ((struct qp_record *)record)->sq_counter - 1);
	/* Longer by two packets. */
	wqe_sges(w, UROCE_WR_SEND)->length += 2 * 4096;
	assert_int_equal(qp_restore(r.p->h[1].tp, (struct qp_record *)record, sizeof(record), &p, r.p->now, &made, &why), EINVAL);
	assert_string_equal(why, "psn_next: must follow the last WQE");
	wqe_sges(w, UROCE_WR_SEND)->length -= 2 * 4096;
	/* Not posted. */
	ctl.word = atomic_load(&w->ctl);
	atomic_store(&w->ctl, 0);
	assert_int_equal(qp_restore(r.p->h[1].tp, (struct qp_record *)record, sizeof(record), &p, r.p->now, &made, &why), EINVAL);
	assert_string_equal(why, "sq_counter: the SQ hasn't the WQEs any more that are in flight");
	atomic_store(&w->ctl, ctl.word);
	assert_int_equal(qp_restore(r.p->h[1].tp, (struct qp_record *)record, sizeof(record), &p, r.p->now, &made, &why), EEXIST);
	end_busy(&r, second, srq);
}

static void
another_version_is_refused(void **state)
{
	struct srq_params sp = { .pd = PAIR_PD };
	struct journal_head *h;
	struct end_srq *srq;
	struct end *second;
	uint32_t qpn[2] = { 2, 3 };
	struct seen s;
	struct rig r;

	(void)state;
	busy(&r, &second, &srq);
	h = r.p->h[1].journal;
	h->version++;
	look(h, qpn, &sp, &s);
	assert_string_equal(s.why, "version: the journal was written by another version");
	h->version--;
	h->slot_bytes += JOURNAL_PAGE;
	h->crc = journal_crc(UINT32_MAX, h, offsetof(struct journal_head, crc));
	look(h, qpn, &sp, &s);
	assert_string_equal(s.why, "limits: the journal was written by another version");
	h->slot_bytes -= JOURNAL_PAGE;
	h->qps = UROCE_MAX_QP;
	h->crc = journal_crc(UINT32_MAX, h, offsetof(struct journal_head, crc));
	look(h, qpn, &sp, &s);
	assert_string_equal(s.why, "size: the journal is longer than its memory");
	h->qps = PAIR_QPS;
	h->crc = journal_crc(UINT32_MAX, h, offsetof(struct journal_head, crc));
	look(NULL, qpn, &sp, &s);
	assert_string_equal(s.why, "size: there is no memory, or too little");
	look(h, qpn, &sp, &s);
	assert_null(s.why);
	end_busy(&r, second, srq);
}

/* A note that isn't the last says that it was executed, or is damaged. */
static void
a_damaged_list_loses_those_that_may_be_in_it(void **state)
{
	struct srq_params sp = { .pd = PAIR_PD };
	struct journal_list *l;
	struct journal_head *h;
	struct end_srq *srq;
	struct end *second;
	uint32_t qpn[2];
	uint64_t turn;
	struct seen s;
	struct rig r;

	(void)state;
	busy(&r, &second, &srq);
	qpn[0] = qp_num(r.b->qp);
	qpn[1] = qp_num(second->qp);
	h = r.p->h[1].journal;
	l = (void *)((uint8_t *)r.p->h[1].journal + journal_layout(&journal_limits).list);
	assert_true(journal_untag(h->turn, &turn));
	/* Two atomics of the turn that was being made. */
	for (uint32_t i = 0; i < 2; i++) {
		l->atomics[i] = (struct journal_atomic){ .before = 1, .after = 2, .qpn = qpn[0], .psn = 110 + i, .done = i == 0 ? JOURNAL_DONE : 0 };
		l->atomics[i].check = journal_atomic_check(&l->atomics[i], turn + 1);
	}
	l->nb_atomics = journal_number(2);
	look(h, qpn, &sp, &s);
	assert_true(s.rc[0] == 0 && s.rc[1] == 0);
	assert_int_equal(((struct qp_record *)records[0])->nb_kept, 2);
	l->atomics[0].done = 0;
	look(h, qpn, &sp, &s);
	assert_int_equal(s.rc[0], EBADMSG);
	assert_int_equal(s.rc[1], 0);
	/* An atomic that can't be read may be of any QP that permits some; the second one permits none. */
	l->atomics[0].done = JOURNAL_DONE;
	l->atomics[0].psn ^= 1;
	look(h, qpn, &sp, &s);
	assert_int_equal(s.rc[0], EBADMSG);
	assert_int_equal(s.rc[1], 0);
	l->nb_atomics = journal_number(0);
	end_busy(&r, second, srq);
}

/* ---- QPs come and go ---- */
static uint32_t
count_qps(struct host *h)
{
	struct journal_memory m = { h->journal, journal_bytes(&journal_limits) };
	struct journals *js;
	const char *why;
	uint32_t n;

	assert_int_equal(journals_open(&m, 1, &js, &why), 0);
	assert_null(why);
	n = journals_qps(js);
	for (uint32_t i = 0; i < n; i++) {
		struct journal_qp q;

		journals_nth_qp(js, i, &q);
		assert_false(q.lost);
		assert_int_equal(journals_qp(js, q.qpn, NULL, 1000000, (struct qp_record *)records[0], NULL), 0);
	}
	assert_int_equal(journals_qp(js, 0xabcdef, NULL, 1000000, (struct qp_record *)records[0], NULL), ENOENT);
	journals_close(js);
	return n;
}

/* Without a turn in between: whoever asked for it may be told. */
static void
qps_are_made_and_destroyed(void **state)
{
	struct end *e[FOUR];
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < FOUR; i++) {
			e[i] = end_new(&r.p->h[1], NULL);
			assert_int_equal(count_qps(&r.p->h[1]), i + 2);
		}
		for (uint32_t i = 0; i < FOUR; i++) {
			end_free(e[i]);
			assert_int_equal(count_qps(&r.p->h[1]), FOUR - i);
		}
		r.p->h[1].nb_cqs = 2;
	}
	/* Slots are used again. */
	assert_in_range(r.p->h[1].tp->journal->nb_slots, FOUR + 1, FOUR + 1);
	rig_down(&r);
}

/* What a request has changed is there when it returns. */
static void
a_modified_qp_is_in_the_journal(void **state)
{
	struct qp_record *rec = (struct qp_record *)records[0];
	struct journal_memory m;
	struct journals *js;
	const char *why;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	assert_int_equal(end_state(r.b, UROCE_QPS_ERR), 0);
	m = (struct journal_memory){ r.p->h[1].journal, journal_bytes(&journal_limits) };
	assert_int_equal(journals_open(&m, 1, &js, &why), 0);
	assert_int_equal(journals_qp(js, qp_num(r.b->qp), NULL, r.p->now, rec, NULL), 0);
	assert_int_equal(rec->state, UROCE_QPS_ERR);
	assert_int_equal(rec->attr.dest_qp_num, qp_num(r.a->qp));
	journals_close(js);
	rig_down(&r);
}

/* ---- CQs ---- */
struct settle_rig {
	struct ring_cq_shared shared;
	struct ring_cqe slots[1 << CQ_ORDER], old[1 << (CQ_ORDER - 1)];
	uint64_t old_stamps[1 << (CQ_ORDER - 1)];
	uint64_t stamps[1 << CQ_ORDER];
	struct cq_params p;
	struct cq_params small;
	void *memory;
	struct journal_list *list;
	uint64_t turn;
};

/* A journal whose last turn counts and has listed nothing yet. */
static void
settle_up(struct settle_rig *s, struct rig *r)
{
	memset(s, 0, sizeof(*s));
	s->p = (struct cq_params){ .ring = { .base = (uint8_t *)s->slots, RING_SIZE(CQ_ORDER, 5) }, .shared = &s->shared, .stamps = s->stamps,
				   .channel = 0, .multi = true, .number = 5 };
	s->small = s->p;
	s->small.ring = (struct ring){ .base = (uint8_t *)s->old, RING_SIZE(CQ_ORDER - 1, 5) };
	s->small.stamps = s->old_stamps;
	s->memory = r->p->h[1].journal;
	s->list = (void *)((uint8_t *)s->memory + journal_layout(&journal_limits).list);
	assert_true(journal_untag(((struct journal_head *)s->memory)->turn, &s->turn));
	s->list->turn = journal_tag(s->turn);
}

/* @param shown  Its phase says that it is there; else it is listed, or not even that. */
static void
put(struct settle_rig *s, const struct ring *ring, uint32_t counter, bool shown, bool listed, bool solicited)
{
	struct ring_cqe *e = ring_slot(ring, counter);
	union ring_cqe_ctl ctl = { .solicited = solicited, .phase = ring_phase(counter, ring->order) ^ (shown ? 0 : RING_PHASES) };
	uint32_t n;

	*e = (struct ring_cqe){ .wr_id = counter };
	e->ctl = ctl.word;
	(ring == &s->p.ring ? s->stamps : s->old_stamps)[counter & ((1 << ring->order) - 1)] = counter;
	if (!listed)
		return;
	assert_true(journal_get_number(s->list->nb_items, &n));
	s->list->items[n] = (struct journal_item){ .number = 5, .counter = counter, .kind = JOURNAL_ITEM_CQE, .order = (uint8_t)ring->order };
	s->list->items[n].check = journal_item_check(&s->list->items[n], s->turn);
	s->list->nb_items = journal_number(n + 1);
}

static void
settle(struct settle_rig *s, const struct cq_params *old, struct cq_record *rec)
{
	struct journal_memory m = { s->memory, journal_bytes(&journal_limits) };
	struct journals *js;
	const char *why;

	assert_int_equal(journals_open(&m, 1, &js, &why), 0);
	assert_null(why);
	assert_int_equal(journals_cq(js, 5, &s->p, old, 7 << 16 | 9, rec), 0);
	journals_close(js);
}

static void
expect_ids(struct settle_rig *s, uint32_t from, const uint64_t *ids, uint32_t n)
{
	union ring_cqe_ctl ctl;

	for (uint32_t i = 0; i < n; i++) {
		assert_true(ring_cq_ready(&s->p.ring, from + i, &ctl));
		assert_int_equal(((struct ring_cqe *)ring_slot(&s->p.ring, from + i))->wr_id, ids[i]);
		assert_int_equal(s->stamps[(from + i) & ((1 << CQ_ORDER) - 1)], ids[i]);
	}
	assert_false(ring_cq_ready(&s->p.ring, from + n, &ctl));
}

/* Engines have taken slots 3 to 8 by turns. What counts is 4, shown; 6, listed; and 8, shown. The rest was of turns that don't count. */
static void
completions_move_up_to_gaps(void **state)
{
	struct settle_rig s;
	struct cq_record rec;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	settle_up(&s, &r);
	s.shared.cons = 2;
	s.shared.reported = 3;
	put(&s, &s.p.ring, 2, true, false, false);
	put(&s, &s.p.ring, 3, false, false, false);
	put(&s, &s.p.ring, 4, true, false, false);
	put(&s, &s.p.ring, 5, false, false, false);
	put(&s, &s.p.ring, 6, false, true, true);
	put(&s, &s.p.ring, 7, false, false, false);
	put(&s, &s.p.ring, 8, true, false, false);
	/* Doing it again changes nothing. */
	for (uint32_t i = 0; i < 3; i++) {
		settle(&s, NULL, &rec);
		expect_ids(&s, 2, (const uint64_t[]){ 2, 4, 6, 8 }, 4);
		assert_int_equal(rec.prod, 6);
		assert_int_equal(rec.cons, 2);
		assert_int_equal(rec.reported, 3);
		assert_int_equal(rec.moderation, 7 << 16 | 9);
		assert_int_equal(rec.held, TP_TOUCHED | TP_TOUCHED_SOLICITED);
		assert_int_equal(rec.overrun, 0);
		assert_int_equal(rec.multi, 1);
	}
	s.list->nb_items = journal_number(0);
	rig_down(&r);
}

/* Events are raised again for what came after the last one, or after the program has armed the CQ. */
static void
events_are_raised_for_what_is_new(void **state)
{
	struct settle_rig s;
	struct cq_record rec;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	settle_up(&s, &r);
	put(&s, &s.p.ring, 0, true, false, true);
	put(&s, &s.p.ring, 1, true, false, false);
	settle(&s, NULL, &rec);
	assert_int_equal(rec.held, TP_TOUCHED | TP_TOUCHED_SOLICITED);
	s.shared.seen = 1;
	settle(&s, NULL, &rec);
	assert_int_equal(rec.held, TP_TOUCHED);
	s.shared.reported = 2;
	settle(&s, NULL, &rec);
	assert_int_equal(rec.held, 0);
	/* Nobody knows whether the daemon came to send it. */
	atomic_store(&s.shared.arm, RING_ARM_ANY);
	settle(&s, NULL, &rec);
	assert_int_equal(rec.owed, 0);
	atomic_store(&s.shared.arm, RING_ARM_NONE);
	settle(&s, NULL, &rec);
	assert_int_equal(rec.owed, 1);
	s.shared.cons = 2;
	settle(&s, NULL, &rec);
	assert_int_equal(rec.owed, 0);
	s.shared.cons = 0;
	s.p.channel = -1;
	s.shared.reported = 0;
	settle(&s, NULL, &rec);
	assert_int_equal(rec.held, 0);
	assert_int_equal(rec.owed, 0);
	rig_down(&r);
}

/* The ring was replaced, and the program doesn't know it: all goes to the new one. */
static void
a_resize_is_finished(void **state)
{
	struct settle_rig s;
	struct cq_record rec;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	settle_up(&s, &r);
	s.shared.cons = 9;
	put(&s, &s.small.ring, 9, true, false, false);
	put(&s, &s.small.ring, 10, false, true, false);
	put(&s, &s.p.ring, 11, false, true, false);
	put(&s, &s.p.ring, 12, false, false, false);
	for (uint32_t i = 0; i < 2; i++) {
		union ring_cqe_ctl ctl;

		settle(&s, &s.small, &rec);
		for (uint32_t n = 9; n < 12; n++) {
			assert_true(ring_cq_ready(&s.p.ring, n, &ctl));
			assert_int_equal(((struct ring_cqe *)ring_slot(&s.p.ring, n))->wr_id, n);
			assert_int_equal(s.stamps[n & ((1 << CQ_ORDER) - 1)], n);
		}
		assert_int_equal(rec.prod, 12);
	}
	s.list->nb_items = journal_number(0);
	rig_down(&r);
}

static void
an_overrun_is_told(void **state)
{
	struct settle_rig s;
	struct cq_record rec;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	settle_up(&s, &r);
	s.list->items[0] = (struct journal_item){ .number = 5, .kind = JOURNAL_ITEM_OVERRUN };
	s.list->items[0].check = journal_item_check(&s.list->items[0], s.turn);
	s.list->nb_items = journal_number(1);
	settle(&s, NULL, &rec);
	assert_int_equal(rec.overrun, 1);
	assert_int_equal(s.shared.overrun, 1);
	s.list->nb_items = journal_number(0);
	rig_down(&r);
}

/* A number that the journal has no room for, a ring that is no larger. */
static void
impossible_cqs_are_refused(void **state)
{
	struct journal_memory m;
	struct settle_rig s;
	struct cq_record rec;
	struct journals *js;
	const char *why;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	settle_up(&s, &r);
	m = (struct journal_memory){ s.memory, journal_bytes(&journal_limits) };
	assert_int_equal(journals_open(&m, 1, &js, &why), 0);
	assert_int_equal(journals_cq(js, PAIR_QUEUES, &s.p, NULL, 0, &rec), EINVAL);
	assert_int_equal(journals_cq(js, 5, &s.p, &s.p, 0, &rec), EINVAL);
	journals_close(js);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_bit_is_checked),
		cmocka_unit_test(wqes_are_fetched_from_the_sq),
		cmocka_unit_test(another_version_is_refused),
		cmocka_unit_test(a_damaged_list_loses_those_that_may_be_in_it),
		cmocka_unit_test(qps_are_made_and_destroyed),
		cmocka_unit_test(a_modified_qp_is_in_the_journal),
		cmocka_unit_test(completions_move_up_to_gaps),
		cmocka_unit_test(events_are_raised_for_what_is_new),
		cmocka_unit_test(a_resize_is_finished),
		cmocka_unit_test(an_overrun_is_told),
		cmocka_unit_test(impossible_cqs_are_refused),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
