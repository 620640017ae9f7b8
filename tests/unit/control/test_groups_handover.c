/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs that share an SRQ or an XRC domain have moved, and messages for them are under way, when one daemon hands its programs to another: they are where they
 * were, each message comes once, and they move again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/core/control_priv.h"
#include "group.h"
#include "second.h"

enum { BEFORE = 100, AFTER = 400, MOVE_EVERY = 16 };

/** Move the group of a QP. */
static void
move_group(struct control *c, const struct group *g, int member, unsigned int engine)
{
	struct control_moved moved;
	const char *why = "";

	if (control_move_qp(c, g->recv[member].qpn, engine, &moved, &why) != 0)
		fail_msg("%s", why);
	group_all_are_at(c, engine);
}

static void
move_senders(struct control *c, const struct group *g, unsigned int engine)
{
	struct control_moved moved;
	const char *why = "";

	for (int i = 0; i < GROUP_MEMBERS; i++)
		if (control_move_qp(c, g->send[i].qp.qpn, engine, &moved, &why) != 0)
			fail_msg("%s", why);
}

/** Messages of which many are under way when the daemon is replaced. @param engine  Where the group is then, after @p moves moves. */
static void
group_is_handed_over(bool xrc, unsigned int engine, unsigned int moves, unsigned int senders)
{
	struct second_stream records;
	struct group g;

	group_open(&g, xrc);
	for (unsigned int k = moves; k > 0; k--)
		move_group(daemon_control(), &g, (int)k % GROUP_MEMBERS, engine ^ ((k - 1) & 1));
	move_senders(daemon_control(), &g, senders);
	for (group_fill(&g, BEFORE); g.came[0] < BEFORE / 2; group_fill(&g, BEFORE))
		group_take(&g);
	second_begin(&records, 1, 2 * GROUP_MEMBERS);
	group_all_are_at(second->control, engine);
	for (group_fill(&g, BEFORE); !group_done(&g, BEFORE); group_fill(&g, BEFORE))
		group_take(&g);
	/* And with moves in the next daemon. */
	for (unsigned int k = 0; !group_done(&g, AFTER); k++) {
		group_fill(&g, AFTER);
		group_take(&g);
		if (k % MOVE_EVERY == 0)
			move_group(second->control, &g, (int)(k / MOVE_EVERY) % GROUP_MEMBERS, engine ^ ((k / MOVE_EVERY + 1) & 1));
	}
	peer_close(&g.p);
	group_forget_memory(&g);
	second_end(&records);
}

static void
an_srq_that_has_moved_goes_on(void **state)
{
	for (unsigned int engine = 0; engine < 2; engine++)
		group_is_handed_over(false, engine, 1, engine);
}

static void
an_srq_that_came_back_goes_on(void **state)
{
	for (unsigned int engine = 0; engine < 2; engine++)
		group_is_handed_over(false, engine, 2, !engine);
}

static void
an_xrc_domain_that_has_moved_goes_on(void **state)
{
	for (unsigned int engine = 0; engine < 2; engine++)
		group_is_handed_over(true, engine, 1, !engine);
}

static void
an_xrc_domain_that_came_back_goes_on(void **state)
{
	for (unsigned int engine = 0; engine < 2; engine++)
		group_is_handed_over(true, engine, 2, engine);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_srq_that_has_moved_goes_on),
		cmocka_unit_test(an_srq_that_came_back_goes_on),
		cmocka_unit_test(an_xrc_domain_that_has_moved_goes_on),
		cmocka_unit_test(an_xrc_domain_that_came_back_goes_on),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 16, 64, NULL);
}
