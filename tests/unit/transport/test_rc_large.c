/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: the longest messages, of 2 GiB, which take up to half of all PSNs. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

/* One packet of data in LOST_EVERY. */
static bool
lose_some(struct pair *p, const struct note *n, void *arg)
{
	enum { LOST_EVERY = 100003 };
	uint32_t *count = arg;

	return n->payload != 0 && ++*count % LOST_EVERY == 0;
}

/* The longest messages there are, over MRs that show the same megabyte again and again; some packets on the way are lost. */
static void
message_of_2_gib(uint8_t opcode, uint32_t mtu)
{
	enum { TIMES = (1u << 31) / BUF };
	static struct mem_seg segs[2][TIMES];
	const uint64_t len = UINT64_C(1) << 31, va = UINT64_C(1) << 40;
	bool read = opcode == UROCE_WR_RDMA_READ;
	uint32_t count = 0;
	struct mr *mr[2];
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = mtu, .psn = 0xfff000 });
	r.p->lose = lose_some;
	r.p->lose_arg = &count;
	fill(read ? r.bbuf : r.abuf, BUF, 7);
	for (unsigned int h = 0; h < 2; h++) {
		struct mr_params mp = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = va, .length = len, .iova = va,
					.segs = segs[h], .nb_segs = TIMES };

		for (unsigned int i = 0; i < TIMES; i++)
			segs[h][i] = (struct mem_seg){ va + (uint64_t)i * BUF, BUF, h == 0 ? r.abuf : r.bbuf };
		assert_int_equal(mr_create(r.p->h[h].sh.mrs, &mp, &mr[h]), 0);
	}
	if (opcode == UROCE_WR_SEND)
		end_recv(r.b, 2, &(struct ring_sge){ va, (uint32_t)len, mr[1]->key }, 1);
	end_send(r.a, &(struct wr){ .id = 1,
				    .op = opcode,
				    .nb_sge = 1,
				    .remote_addr = va,
				    .rkey = mr[1]->key,
				    .sge = &(struct ring_sge){ va, (uint32_t)len, mr[0]->key } });
	pair_settle(r.p);
	assert_int_equal(expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS).byte_len, len);
	if (opcode == UROCE_WR_SEND)
		assert_int_equal(expect_cqe(&r.b->rcq, 2, UROCE_WC_SUCCESS).byte_len, len);
	assert_memory_equal(r.abuf, r.bbuf, BUF);
	assert_true(count > len >> (7 + mtu));
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err, 0);
	mr_destroy(r.p->h[0].sh.mrs, mr[0]);
	mr_destroy(r.p->h[1].sh.mrs, mr[1]);
	rig_down(&r);
}

static void
write_of_2_gib(void **state)
{
	message_of_2_gib(UROCE_WR_RDMA_WRITE, UROCE_MTU_4096);
}

static void
read_of_2_gib(void **state)
{
	message_of_2_gib(UROCE_WR_RDMA_READ, UROCE_MTU_4096);
}

static void
send_of_2_gib(void **state)
{
	message_of_2_gib(UROCE_WR_SEND, UROCE_MTU_4096);
}

/* Half of all PSNs: the most that the requester may have out. */
static void
read_of_half_the_psns(void **state)
{
	message_of_2_gib(UROCE_WR_RDMA_READ, UROCE_MTU_256);
}

static void
write_of_half_the_psns(void **state)
{
	message_of_2_gib(UROCE_WR_RDMA_WRITE, UROCE_MTU_256);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_of_2_gib),
		cmocka_unit_test(read_of_2_gib),
		cmocka_unit_test(send_of_2_gib),
	};
	/* Ten seconds. */
	const struct CMUnitTest long_ones[] = {
		cmocka_unit_test(read_of_half_the_psns),
		cmocka_unit_test(write_of_half_the_psns),
	};

	if (argc > 1 && strcmp(argv[1], "half") == 0)
		return cmocka_run_group_tests(long_ones, pair_group_setup, pair_group_teardown);
	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
