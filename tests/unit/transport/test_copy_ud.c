/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams for memory that isn't mapped, or not all of it. */
#include "copy_rig.h"
#include "ud_rig.h"

enum { PAGE = 4096, SLOT = 500, LENGTH = 300 };

/* @param mapped  Bytes at the beginning of the receiver's region that are mapped. */
static void
up(struct ud_rig *u, uint32_t mapped)
{
	struct mem_seg segs[2];
	struct mr_params p = { .pd = PAIR_PD, .access = ACCESS_ALL, .length = UD_HALF, .segs = segs, .owner = &self };

	ud_up(u, false, 0);
	mr_destroy(u->p->h[1].sh.mrs, u->bmr);
	p.addr = p.iova = ADDR(u->buf + UD_HALF);
	if (mapped != 0)
		segs[p.nb_segs++] = (struct mem_seg){ .va = p.addr, .length = mapped, .host = u->buf + UD_HALF };
	segs[p.nb_segs++] = (struct mem_seg){ .va = p.addr + mapped, .length = UD_HALF - mapped };
	assert_int_equal(mr_create(u->p->h[1].sh.mrs, &p, &u->bmr), 0);
}

/* @return where receive @p slot has its bytes. */
static uint8_t *
receives_at(const struct ud_rig *u, uint32_t slot)
{
	return u->buf + UD_HALF + slot * SLOT;
}

static void
post(struct ud_rig *u, uint32_t i, uint32_t qkey)
{
	end_send(u->a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(u->buf + i * SLOT, LENGTH, u->amr), .nb_sge = 1, .rkey = qkey,
				     .remote_addr = (uint64_t)qp_num(u->b->qp) << 32 | u->ah });
}

static void
receive(struct ud_rig *u, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		end_recv(u->b, i, SGE(receives_at(u, i), WIRE_GRH_BYTES + LENGTH, u->bmr), 1);
}

/* Datagram @p i is in receive @p slot. */
static void
expect(struct ud_rig *u, uint32_t slot, uint32_t i)
{
	const uint8_t *at = receives_at(u, slot);

	assert_int_equal(expect_cqe(&u->b->rcq, slot, UROCE_WC_SUCCESS).byte_len, WIRE_GRH_BYTES + LENGTH);
	assert_int_equal(at[20], 0x45);
	assert_memory_equal(at + WIRE_GRH_BYTES, u->buf + i * SLOT, LENGTH);
}

static uint64_t
copies(const struct ud_rig *u)
{
	return transport_counters(u->p->h[1].tp)->copies;
}

static void
copy_all(struct ud_rig *u)
{
	while (host_copy(&u->p->h[1], 1) != 0)
		;
}

/* The first copy is of the datagrams that came in its turn, the second of those that came while it was made; without sharing there would be two for each. */
static void
datagrams_share_copies(void **state)
{
	enum { N = 12 };
	struct ud_rig u;

	up(&u, 0);
	receive(&u, N);
	for (uint32_t i = 0; i < N; i++)
		post(&u, i, QKEY);
	pair_settle(u.p);
	expect_no_cqe(&u.b->rcq);
	copy_all(&u);
	for (uint32_t i = 0; i < N; i++)
		expect(&u, i, i);
	assert_in_range(copies(&u), 1, 2);
	assert_int_equal(transport_counters(u.p->h[1].tp)->rx_send_requests, N);
	ud_down(&u);
}

/* Those that need no copy wait for one in front of them, and take no part in the next one. */
static void
datagrams_for_mapped_memory_are_among_others(void **state)
{
	enum { N = 12, ROUNDS = 3 };
	struct ud_rig u;

	up(&u, PAGE);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		memset(u.buf + UD_HALF, 0, UD_HALF);
		/* From the end to the beginning: the first ones need a copy. */
		for (uint32_t i = N; i-- > 0;)
			end_recv(u.b, i, SGE(receives_at(&u, i), WIRE_GRH_BYTES + LENGTH, u.bmr), 1);
		for (uint32_t i = 0; i < N; i++)
			post(&u, i, QKEY);
		pair_settle(u.p);
		copy_all(&u);
		for (uint32_t i = 0; i < N; i++)
			expect(&u, N - 1 - i, i);
		assert_in_range(copies(&u), 1, 2 * (round + 1));
	}
	ud_down(&u);
}

static void
a_datagram_that_is_dropped_is_in_no_copy(void **state)
{
	struct ud_rig u;

	up(&u, 0);
	receive(&u, 4);
	for (uint32_t i = 0; i < 5; i++)
		post(&u, i, i == 2 ? QKEY + 1 : QKEY);
	pair_settle(u.p);
	copy_all(&u);
	for (uint32_t i = 0; i < 4; i++)
		expect(&u, i, i < 2 ? i : i + 1);
	assert_int_equal(transport_counters(u.p->h[1].tp)->rx_bad_qkey, 1);
	ud_down(&u);
}

static void
a_datagram_without_a_receive_is_dropped_when_its_turn_comes(void **state)
{
	struct ud_rig u;

	up(&u, 0);
	receive(&u, 2);
	for (uint32_t i = 0; i < 4; i++)
		post(&u, i, QKEY);
	pair_settle(u.p);
	/* One more is posted while the copy is made. */
	end_recv(u.b, 2, SGE(receives_at(&u, 2), WIRE_GRH_BYTES + LENGTH, u.bmr), 1);
	copy_all(&u);
	for (uint32_t i = 0; i < 3; i++)
		expect(&u, i, i);
	assert_int_equal(transport_counters(u.p->h[1].tp)->rx_ud_no_wqe, 1);
	ud_down(&u);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_share_copies),
		cmocka_unit_test(datagrams_for_mapped_memory_are_among_others),
		cmocka_unit_test(a_datagram_that_is_dropped_is_in_no_copy),
		cmocka_unit_test(a_datagram_without_a_receive_is_dropped_when_its_turn_comes),
	};

	return cmocka_run_group_tests(tests, open_memory, close_memory);
}
