/* SPDX-License-Identifier: BSD-3-Clause */
/* What there is to try. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

#define FIRST_VALUE UINT64_C(0x0123456789abcdef)
#define SWAPPED UINT64_C(0xfedcba9876543210)
#define ELSEWHERE (UINT64_C(1) << 45)
#define OTHER_KEY 0x5a5a00u

/* What a send of each opcode completes as. */
static int
sent_as(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	default:
		return IBV_WC_SEND;
	}
}

/* ---- The requester ---- */
static void
post_messages(struct side *s)
{
	for (uint32_t i = 0; i < s->cell.count; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = message_wr(s, &sge, i);

		pattern(out_message(s, i), s->cell.size, i);
		post_send(s, &wr);
	}
}

static void
request_messages(struct side *s)
{
	post_messages(s);
	for (uint32_t i = 0; i < s->cell.count; i++)
		expect_send(s, i, IBV_WC_SUCCESS, sent_as(s->cell.kind->opcode));
}

static void
request_reads(struct side *s)
{
	request_messages(s);
	for (uint32_t i = 0; i < s->cell.count; i++)
		expect_message(s, in_message(s, i), s->cell.size, i);
}

/* All at once: the values seen tell their order. */
static void
request_fetch_adds(struct side *s)
{
	uint64_t seen;

	s->cell.count = ATOMICS;
	request_messages(s);
	for (uint32_t i = 0; i < ATOMICS; i++) {
		memcpy(&seen, s->in + 64 + 8 * i, sizeof(seen));
		CHECK(s, seen == FIRST_VALUE + (uint64_t)i * ADDED, "fetch-and-add %u saw 0x%lx", i, (unsigned long)seen);
	}
}

/* One that fits, one that doesn't: the second must leave the first one's value. */
static void
request_cmp_swaps(struct side *s)
{
	uint64_t seen[2];

	for (uint32_t i = 0; i < 2; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = message_wr(s, &sge, i);

		wr.wr.atomic.compare_add = FIRST_VALUE;
		wr.wr.atomic.swap = i == 0 ? SWAPPED : 0;
		post_send(s, &wr);
		expect_send(s, i, IBV_WC_SUCCESS, IBV_WC_COMP_SWAP);
	}
	memcpy(seen, s->in + 64, sizeof(seen));
	CHECK(s, seen[0] == FIRST_VALUE && seen[1] == SWAPPED, "compare-and-swap saw 0x%lx, 0x%lx", (unsigned long)seen[0],
	      (unsigned long)seen[1]);
}

/* The first fails as the cell wants, what is behind it is flushed. */
static void
request_fault(struct side *s)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = message_wr(s, &sge, i);

		pattern(out_message(s, i), s->cell.size, i);
		post_send(s, &wr);
	}
	expect_send(s, 0, s->cell.want, 0);
	expect_send(s, 1, IBV_WC_WR_FLUSH_ERR, 0);
	expect_state(s, IBV_QPS_ERR);
}

/* What a window was taken away from can't be written by its key any more. */
static void
request_stale_window(struct side *s)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = message_wr(s, &sge, 0);

	pattern(out_message(s, 0), s->cell.size, 0);
	post_send(s, &wr);
	expect_send(s, 0, IBV_WC_SUCCESS, IBV_WC_SEND);
	wr.wr_id = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = s->theirs.addr + AREA_BYTES / 2;
	wr.wr.rdma.rkey = s->theirs.window_rkey;
	post_send(s, &wr);
	expect_send(s, 1, s->cell.want, 0);
	expect_state(s, IBV_QPS_ERR);
}

/* ---- The responder ---- */
static int
received_as(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
}

/* The addresses before a datagram: an IPv6 header, or an IPv4 header in the last 20 of the 40 bytes. */
static void
check_grh(struct side *s, const uint8_t *grh, const struct ibv_wc *wc)
{
	bool v4 = s->cell.family == 4;
	const uint8_t *from = v4 ? grh + 32 : grh + 8, *want = v4 ? s->theirs.gid + 12 : s->theirs.gid;

	CHECK(s, wc->wc_flags & IBV_WC_GRH, "a datagram without GRH");
	CHECK(s, wc->src_qp == s->theirs.qpn, "a datagram of QP %u", wc->src_qp);
	CHECK(s, (unsigned int)grh[v4 ? 20 : 0] >> 4 == s->cell.family, "no IPv%u header before the datagram", s->cell.family);
	CHECK(s, memcmp(from, want, v4 ? 4 : 16) == 0, "another sender before the datagram");
}

static void
check_receive(struct side *s, uint32_t i, const struct ibv_wc *wc)
{
	const struct cell *c = &s->cell;
	enum ibv_wr_opcode opcode = c->kind->opcode;
	bool ud = c->kind->type == IBV_QPT_UD;
	bool imm = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	CHECK(s, wc->wr_id == (uint64_t)RECV_ID + i, "receive %lu completes instead of %u", (unsigned long)wc->wr_id, i);
	CHECK(s, wc->status == c->peer_want, "receive %u: %s, not %s", i, ibv_wc_status_str(wc->status),
	      ibv_wc_status_str(c->peer_want));
	if (wc->status != IBV_WC_SUCCESS)
		return;
	CHECK(s, (int)wc->opcode == received_as(opcode), "receive %u has opcode %d", i, wc->opcode);
	CHECK(s, wc->byte_len == c->size + (ud ? GRH_BYTES : 0), "receive %u has %u bytes", i, wc->byte_len);
	CHECK(s, !imm == !(wc->wc_flags & IBV_WC_WITH_IMM), "receive %u: flags 0x%x", i, wc->wc_flags);
	if (imm)
		CHECK(s, wc->imm_data == htonl(0xabcd0000 + i), "receive %u: immediate 0x%x", i, ntohl(wc->imm_data));
	if (opcode == IBV_WR_SEND_WITH_INV) {
		CHECK(s, wc->wc_flags & c->inv_flag, "receive %u: flags 0x%x", i, wc->wc_flags);
		CHECK(s, wc->invalidated_rkey == s->mine.window_rkey, "key 0x%x invalidated", wc->invalidated_rkey);
	}
	if (ud)
		check_grh(s, in_message(s, i), wc);
	expect_message(s, in_message(s, i) + (ud ? GRH_BYTES : 0), c->size, i);
}

static void
receive_messages(struct side *s)
{
	bool sure = s->cell.kind->type == IBV_QPT_RC;

	for (uint32_t i = 0; i < s->cell.count; i++) {
		struct ibv_wc wc;

		if (!next_wc(s, s->rcq, &wc, sure ? WAIT_MS : UNSENT_MS)) {
			problem(s, "receive %u does not complete", i);
			return;
		}
		check_receive(s, i, &wc);
	}
}

static void
receive_late(struct side *s)
{
	usleep(s->cell.pause_ms * 1000);
	for (uint32_t i = 0; i < s->cell.count; i++)
		post_recv(s, i, s->cell.size);
	receive_messages(s);
}

/* Both sides at once. */
static void
exchange_messages(struct side *s)
{
	post_messages(s);
	receive_messages(s);
	for (uint32_t i = 0; i < s->cell.count; i++)
		expect_send(s, i, IBV_WC_SUCCESS, sent_as(s->cell.kind->opcode));
}

/* A message that doesn't fit: its receive says so. */
static void
receive_one(struct side *s)
{
	struct ibv_wc wc;

	if (next_wc(s, s->rcq, &wc, WAIT_MS))
		check_receive(s, 0, &wc);
	else
		problem(s, "the receive does not complete");
}

/* What doesn't fit may have been placed as far as there was room. */
static void
verify_short(struct side *s)
{
	uint32_t room = s->cell.size - (uint32_t)s->cell.kind->short_by;

	for (uint32_t k = room; k < AREA_BYTES; k++)
		if (s->in[k] != GUARD_BYTE) {
			problem(s, "byte %u behind the receive of %u bytes was written", k, room);
			return;
		}
}

static void
verify_messages(struct side *s)
{
	for (uint32_t i = 0; i < s->cell.count; i++)
		expect_message(s, in_message(s, i), s->cell.size, i);
}

static void
verify_late_messages(struct side *s)
{
	for (uint32_t i = 0; i < s->cell.count; i++)
		await_message(s, in_message(s, i), s->cell.size, i);
}

static void
expect_word(struct side *s, uint64_t want)
{
	uint64_t word;

	memcpy(&word, s->in, sizeof(word));
	CHECK(s, word == want, "the word is 0x%lx, not 0x%lx", (unsigned long)word, (unsigned long)want);
}

static void
verify_fetch_adds(struct side *s)
{
	expect_word(s, FIRST_VALUE + ATOMICS * ADDED);
}

static void
verify_cmp_swaps(struct side *s)
{
	expect_word(s, SWAPPED);
}

/* ---- All of them ---- */
#define RC_FAULT(n, op, ...) \
	{ .name = n, .type = IBV_QPT_RC, .opcode = op, .request = request_fault, .verify = expect_untouched, __VA_ARGS__ }

const struct kind kinds[] = {
	{ .name = "send", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND, .receives = true, .request = request_messages,
	  .receive = receive_messages },
	{ .name = "send_imm", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND_WITH_IMM, .receives = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "send_inv", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND_WITH_INV, .receives = true, .window = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "send_solicited", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND, .receives = true, .solicited = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "send_both", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND, .receives = true, .request = exchange_messages,
	  .receive = exchange_messages },
	{ .name = "srq_send", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND, .receives = true, .srq = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "srq_send_imm", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND_WITH_IMM, .receives = true, .srq = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "write", .type = IBV_QPT_RC, .opcode = IBV_WR_RDMA_WRITE, .request = request_messages,
	  .verify = verify_messages },
	{ .name = "write_imm", .type = IBV_QPT_RC, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .receives = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "window_write", .type = IBV_QPT_RC, .opcode = IBV_WR_RDMA_WRITE, .window = true,
	  .request = request_messages, .verify = verify_messages },
	{ .name = "read", .type = IBV_QPT_RC, .opcode = IBV_WR_RDMA_READ, .request = request_reads },
	{ .name = "fetch_add", .type = IBV_QPT_RC, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .request = request_fetch_adds,
	  .verify = verify_fetch_adds },
	{ .name = "cmp_swap", .type = IBV_QPT_RC, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .request = request_cmp_swaps,
	  .verify = verify_cmp_swaps },
	{ .name = "uc_send", .type = IBV_QPT_UC, .opcode = IBV_WR_SEND, .receives = true, .request = request_messages,
	  .receive = receive_messages },
	{ .name = "uc_send_imm", .type = IBV_QPT_UC, .opcode = IBV_WR_SEND_WITH_IMM, .receives = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "uc_write", .type = IBV_QPT_UC, .opcode = IBV_WR_RDMA_WRITE, .request = request_messages,
	  .verify = verify_late_messages },
	{ .name = "uc_write_imm", .type = IBV_QPT_UC, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .receives = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "ud_send", .type = IBV_QPT_UD, .opcode = IBV_WR_SEND, .receives = true, .request = request_messages,
	  .receive = receive_messages },
	{ .name = "ud_send_imm", .type = IBV_QPT_UD, .opcode = IBV_WR_SEND_WITH_IMM, .receives = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "ud_multicast", .type = IBV_QPT_UD, .opcode = IBV_WR_SEND, .receives = true, .multicast = true,
	  .request = request_messages, .receive = receive_messages },
	{ .name = "rnr", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND, .request = request_messages,
	  .receive = receive_late },
	{ .name = "rnr_write_imm", .type = IBV_QPT_RC, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .request = request_messages,
	  .receive = receive_late },
	RC_FAULT("rnr_expired", IBV_WR_SEND),
	RC_FAULT("nobody", IBV_WR_SEND, .deaf = true),
	{ .name = "too_long", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND, .receives = true, .short_by = 1,
	  .request = request_fault, .receive = receive_one, .verify = verify_short },
	RC_FAULT("bad_rkey_write", IBV_WR_RDMA_WRITE, .rkey_xor = OTHER_KEY),
	RC_FAULT("bad_rkey_read", IBV_WR_RDMA_READ, .rkey_xor = OTHER_KEY),
	RC_FAULT("bad_rkey_atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, .rkey_xor = OTHER_KEY),
	RC_FAULT("bad_addr_write", IBV_WR_RDMA_WRITE, .addr_xor = ELSEWHERE),
	RC_FAULT("bad_addr_read", IBV_WR_RDMA_READ, .addr_xor = ELSEWHERE),
	RC_FAULT("bad_addr_atomic", IBV_WR_ATOMIC_CMP_AND_SWP, .addr_xor = ELSEWHERE),
	RC_FAULT("misaligned_atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, .addr_xor = 1),
	{ .name = "stale_window", .type = IBV_QPT_RC, .opcode = IBV_WR_SEND_WITH_INV, .receives = true, .window = true,
	  .request = request_stale_window, .receive = receive_messages },
	{ .name = NULL },
};
