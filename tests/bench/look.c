/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long an engine is kept from its packets when somebody looks at a QP: the picture, the QP's events, the engine's counters and
 * depths, which is what telemetry asks of an engine. Processor time of the thread, so that a busy machine changes little.
 *
 *   build/tests/bench/bench_look [QUESTIONS]
 */
#include <stdio.h>
#include <time.h>

#include "transport/diag/diag.h"
#include "rig.h"

enum {
	QUESTIONS = 100000,
	PER_SECOND = 10, /* questions of a live view */
	DEPTH = 4096,
};

static double
thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One question: everything that is copied out of the engine. */
static void
look(const struct rig *r, struct tp_counters *counters)
{
	static struct qp_event events[32];
	struct tp_depths depths;
	struct qp_view v;

	qp_look(r->a->qp, r->p->now, &v);
	qp_events(r->p->h[0].tp, qp_num(r->a->qp), events, 32);
	*counters = *transport_counters(r->p->h[0].tp);
	transport_depths(r->p->h[0].tp, &depths);
}

static double
measure(const struct rig *r, uint32_t questions)
{
	struct tp_counters counters;
	double start = thread_ns();

	for (uint32_t i = 0; i < questions; i++)
		look(r, &counters);
	return (thread_ns() - start) / questions;
}

static void
report(const char *what, double ns)
{
	printf("%-40s %8.0f ns a question; %u a second: %.5f %% of an engine\n", what, ns, PER_SECOND, ns * PER_SECOND / 1e7);
}

static uint32_t questions = QUESTIONS;

static void
what_a_question_costs(void **state)
{
	struct end *other;
	struct rig r;

	rig_up(&r, &(struct end_opts){ .sq_depth = DEPTH, .rq_depth = DEPTH }, NULL);
	report("an idle QP", measure(&r, questions));
	for (uint32_t i = 0; i < DEPTH; i++)
		end_recv(r.a, i, SGE(r.abuf, 64, r.amr), 1);
	r.p->stalled = true;
	for (uint32_t i = 0; i < DEPTH / 2; i++)
		rig_write(&r, i, 0, 64);
	pair_settle(r.p);
	report("its queues full", measure(&r, questions));
	/* Each change of state is an event: the engine's ring is full of another QP's, and all of it is searched in vain. */
	other = end_new(&r.p->h[0], NULL);
	end_to_rtr(other, r.b, NULL);
	end_to_rts(other, NULL);
	for (uint32_t i = 0; i < TP_EVENTS; i++)
		assert_int_equal(end_state(other, i % 2 == 0 ? UROCE_QPS_SQD : UROCE_QPS_RTS), 0);
	report("and the ring of events, of others", measure(&r, questions));
	end_free(other);
	r.p->stalled = false;
	pair_settle(r.p);
	rig_down(&r);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_a_question_costs) };

	if (argc > 1)
		questions = (uint32_t)strtoul(argv[1], NULL, 10);
	return questions == 0 ? 2 : cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
