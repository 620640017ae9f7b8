/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of WQEs, byte for byte: a program and a daemon of different builds must agree on it. Every byte of a sample has
 * a value of its own, so that fields which change places are seen. Whoever changes the layout changes UROCE_ABI_VERSION too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ring/ring.h"

/* wr_id, remote address, rkey, imm; then opcode, flags (signalled), count, phase, srqn. */
#define HEADER(op, flags, count) \
	"0102030405060708 1112131415161718 21222324 31323334 " op " " flags " " count " 01 414243 "
#define SGE "7172737475767778 81828384 85868788"
#define INLINE "9192939495969798"
#define WITH_SGE(op) HEADER(op, "02", "0100") SGE
#define WITH_BLOCK(op, block) HEADER(op, "02", "0100") block " " SGE
#define WITH_INLINE(op) HEADER(op, "0a", "0800") INLINE

static const struct {
	uint8_t op;
	const char *with_sge, *with_inline; /* in hex */
} golden[] = {
	{ UROCE_WR_RDMA_WRITE, WITH_SGE("00"), WITH_INLINE("00") },
	{ UROCE_WR_RDMA_WRITE_WITH_IMM, WITH_SGE("01"), WITH_INLINE("01") },
	{ UROCE_WR_SEND, WITH_SGE("02"), WITH_INLINE("02") },
	{ UROCE_WR_SEND_WITH_IMM, WITH_SGE("03"), WITH_INLINE("03") },
	{ UROCE_WR_RDMA_READ, WITH_SGE("04"), NULL },
	{ UROCE_WR_ATOMIC_CMP_AND_SWP, WITH_BLOCK("05", "5152535455565758 6162636465666768"), NULL },
	{ UROCE_WR_ATOMIC_FETCH_AND_ADD, WITH_BLOCK("06", "5152535455565758 6162636465666768"), NULL },
	{ UROCE_WR_LOCAL_INV, WITH_SGE("07"), NULL },
	{ UROCE_WR_BIND_MW, WITH_BLOCK("08", "5152535455565758 61626364 65666768"), NULL },
	{ UROCE_WR_SEND_WITH_INV, WITH_SGE("09"), WITH_INLINE("09") },
	{ UROCE_WR_FLUSH, WITH_BLOCK("0e", "51525354 61 62 00000000000000000000"), NULL },
	{ UROCE_WR_ATOMIC_WRITE, WITH_SGE("0f"), WITH_INLINE("0f") },
};

static const struct ring_sge sge = { UINT64_C(0x7877767574737271), 0x84838281, 0x88878685 };
static const uint8_t inline_data[8] = { 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98 };

#define OPERANDS(name, number, types, kind, operands, ...) [number] = WR_OPERANDS_##operands,
static const uint8_t operands_of[UROCE_WR_OPS] = { WR_OP_TABLE(OPERANDS) };
#define NUMBERS(name, number, ...) 1 +
enum { ROWS = WR_OP_TABLE(NUMBERS) 0 };

static uint8_t slot[128] __attribute__((aligned(64)));
static const struct ring ring = { .base = slot, RING_SIZE(0, 7) };

static void
expect_bytes(const void *got, const char *hex)
{
	const uint8_t *p = got;
	unsigned int want, n = 0;
	int used;

	for (; sscanf(hex, " %2x%n", &want, &used) == 1; hex += used, n++)
		if (p[n] != want)
			fail_msg("byte %u is 0x%02x, not 0x%02x", n, p[n], want);
	for (; n < sizeof(slot); n++)
		assert_int_equal(p[n], 0);
}

static struct ring_sq_wqe *
put(uint8_t op, bool with_inline)
{
	struct ring_sq_wqe *w = ring_slot(&ring, 0);
	union ring_sq_ctl ctl = { .opcode = op, .flags = UROCE_SEND_SIGNALED, .count = 1, .srqn = 0x434241 };

	memset(slot, 0, sizeof(slot));
	w->wr_id = UINT64_C(0x0807060504030201);
	wqe_put_remote(w, UINT64_C(0x1817161514131211), 0x24232221);
	wqe_put_imm(w, 0x34333231);
	if (operands_of[op] == WR_OPERANDS_ATOMIC)
		wqe_put_atomic(w, UINT64_C(0x5857565554535251), UINT64_C(0x6867666564636261));
	else if (operands_of[op] == WR_OPERANDS_BIND)
		wqe_put_bind(w, UINT64_C(0x5857565554535251), 0x64636261, 0x68676665);
	else if (operands_of[op] == WR_OPERANDS_FLUSH)
		wqe_put_flush(w, 0x54535251, 0x61, 0x62);
	if (with_inline) {
		memcpy(wqe_inline(w), inline_data, sizeof(inline_data));
		ctl.flags |= UROCE_SEND_INLINE;
		ctl.count = sizeof(inline_data);
	} else {
		*wqe_sges(w, op) = sge;
	}
	ring_sq_post(&ring, 0, w, ctl);
	return w;
}

static void
every_opcode_has_its_bytes(void **state)
{
	assert_int_equal(sizeof(golden) / sizeof(golden[0]), ROWS);
	for (unsigned int i = 0; i < ROWS; i++) {
		uint8_t op = golden[i].op;

		expect_bytes(put(op, false), golden[i].with_sge);
		assert_int_equal(golden[i].with_inline != NULL, WR_OPS_WITH_INLINE >> op & 1);
		if (golden[i].with_inline != NULL)
			expect_bytes(put(op, true), golden[i].with_inline);
	}
}

static void
what_was_put_is_got(void **state)
{
	for (unsigned int i = 0; i < ROWS; i++) {
		const struct ring_sq_wqe *w = put(golden[i].op, false);
		struct ring_atomic a = wqe_get_atomic(w);
		struct ring_bind b = wqe_get_bind(w);
		struct ring_flush f = wqe_get_flush(w);
		struct ring_sge s = wqe_get_sge(wqe_sges(w, golden[i].op));

		assert_true(ring_sq_ready(&ring, 0));
		assert_true(wqe_get_remote_addr(w) == UINT64_C(0x1817161514131211) && wqe_get_rkey(w) == 0x24232221);
		assert_true(wqe_get_imm(w) == 0x34333231 && wqe_get_srqn(w) == 0x434241);
		assert_memory_equal(&s, &sge, sizeof(s));
		assert_int_equal(wqe_get_sge_length(wqe_sges(w, golden[i].op)), sge.length);
		if (operands_of[golden[i].op] == WR_OPERANDS_ATOMIC)
			assert_true(a.compare_add == UINT64_C(0x5857565554535251) && a.swap == UINT64_C(0x6867666564636261));
		else if (operands_of[golden[i].op] == WR_OPERANDS_BIND)
			assert_true(b.length == UINT64_C(0x5857565554535251) && b.lkey == 0x64636261 && b.access == 0x68676665);
		else if (operands_of[golden[i].op] == WR_OPERANDS_FLUSH)
			assert_true(f.length == 0x54535251 && f.type == 0x61 && f.level == 0x62);
	}
}

/* Control words that are made as a whole have each value in the member of that name. */
static void
whole_control_words_have_their_members(void **state)
{
	union ring_sq_ctl sq = ring_sq_ctl_make(0x11, 0x22, 0x4433, 0x777665);
	union ring_cqe_ctl cq = ring_cqe_ctl_make(0x1234, 0x56, 0x78, 0x9a, 0xbc, RING_CQE_IS_RECV | RING_CQE_XRC), solicited = ring_cqe_ctl_make(0, 0, 0, 0, 0, RING_CQE_SOLICITED);
	struct ring_cqe e = { .qpn_status = 0x0c | 0xd0000000, .src_qp_opcode = 0x00abcdef | 0x12000000 };

	assert_true(sq.opcode == 0x11 && sq.flags == 0x22 && sq.count == 0x4433 && sq.phase == 0 && sq.srqn == 0x777665);
	sq.phase = 0xff;
	assert_true(sq.word == (ring_sq_ctl_make(0x11, 0x22, 0x4433, 0x777665).word | UINT64_C(0xff) << RING_SQ_PHASE_SHIFT));
	assert_true(cq.wqe_counter == 0x1234 && cq.vendor_err == 0x56 && cq.wc_flags == 0x78 && cq.sl == 0x9a && cq.pkey_index == 0xbc);
	assert_true(cq.is_recv && cq.xrc && !cq.solicited && !cq.dead && cq.phase == 0 && solicited.solicited && !solicited.is_recv && !solicited.xrc);
	cq.word = ring_with_phase(cq.word, 2);
	assert_true(cq.phase == 2 && cq.is_recv && cq.pkey_index == 0xbc);
	assert_true(e.qpn == 0x0c && e.status == 0xd0 && e.src_qp == 0xabcdef && e.opcode == 0x12);
}

/* AH handle and QPN lie where other services have the remote address, the Q_Key where they have the key. */
static void
a_datagram_has_its_bytes(void **state)
{
	struct ring_sq_wqe *w = put(UROCE_WR_SEND, false);
	struct ring_ud to;

	wqe_put_ud(w, 0xa4a3a2a1, 0xb3b2b1, 0xc4c3c2c1);
	expect_bytes(w, "0102030405060708 a1a2a3a4 b1b2b300 c1c2c3c4 31323334 02 02 0100 01 414243 " SGE);
	to = wqe_get_ud(w);
	assert_true(to.ah == 0xa4a3a2a1 && to.qpn == 0xb3b2b1 && to.qkey == 0xc4c3c2c1);
}

static void
a_receive_has_its_bytes(void **state)
{
	struct ring_rq_wqe *w = ring_slot(&ring, 0);

	memset(slot, 0, sizeof(slot));
	w->wr_id = UINT64_C(0x0807060504030201);
	w->sge[0] = sge;
	ring_rq_post(&ring, 1, w, 0x1211);
	assert_true(ring_rq_ready(&ring, 1) && !ring_rq_ready(&ring, 0));
	expect_bytes(w, "0102030405060708 1112 0000000000 02 " SGE);
}

static void
operand_blocks_follow_the_opcodes_that_have_them(void **state)
{
	uint32_t with = 0;

	for (unsigned int op = 0; op < 256; op++)
		with += wqe_has_block((uint8_t)op);
	assert_int_equal(with, 4);
	assert_true(wqe_has_block(UROCE_WR_ATOMIC_CMP_AND_SWP));
	assert_true(wqe_has_block(UROCE_WR_ATOMIC_FETCH_AND_ADD));
	assert_true(wqe_has_block(UROCE_WR_BIND_MW));
	assert_true(wqe_has_block(UROCE_WR_FLUSH));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_has_its_bytes),
		cmocka_unit_test(what_was_put_is_got),
		cmocka_unit_test(whole_control_words_have_their_members),
		cmocka_unit_test(a_datagram_has_its_bytes),
		cmocka_unit_test(a_receive_has_its_bytes),
		cmocka_unit_test(operand_blocks_follow_the_opcodes_that_have_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
