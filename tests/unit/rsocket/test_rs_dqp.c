/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/rsocket/rs_dqp.c: sends that are refused. The device is a function of the test's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rsocket/rs_dgram.h"

enum { SENDS = 2 };

static int refusal;
static uint64_t last_wr_id;

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	last_wr_id = wr->wr_id;
	return refusal;
}

/* ---- What it calls of the others ---- */
void
rs_kick(struct rsocket *rs, int events)
{
}

static void
refused_send_takes_no_place(void **state)
{
	static uint8_t memory[SENDS * RS_DGRAM_BYTES];
	struct ibv_context context = { .ops.post_send = post_send };
	struct ibv_qp qp = { .context = &context };
	struct rdma_cm_id id = { .qp = &qp };
	struct ibv_mr mr = { 0 };
	struct rs_dqp d = { .id = &id, .mr = &mr, .sends = memory, .nb_sends = SENDS };
	struct rs_dest to = { .qpn = 5 };
	struct iovec iov = { "abc", 3 };

	refusal = ENOMEM;
	for (int i = 0; i < 2 * SENDS; i++)
		assert_int_equal(rs_dqp_send(&d, &to, &iov, 1, 3), ENOMEM);
	/* rclose() waits until they are equal. */
	assert_int_equal(d.posted, d.done);
	assert_true(rs_dqp_room(&d));
	refusal = 0;
	for (uint32_t i = 1; i <= SENDS; i++) {
		assert_int_equal(rs_dqp_send(&d, &to, &iov, 1, 3), 0);
		assert_int_equal(d.posted, i);
		assert_int_equal(last_wr_id, i);
	}
	assert_false(rs_dqp_room(&d));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_send_takes_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
