/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks every byte: one operation is an RDMA WRITE of random bytes, an RDMA READ of the same memory, and, if the peer
 * is in this process, a SEND of the same bytes. Content and length are derived from the seed, the QP and the number of
 * the operation.
 */
#include <stdio.h>
#include <string.h>

#include "workload.h"

enum { AREA_SOURCE = 0, AREA_BACK = 1 };
enum phase { PHASE_WRITE, PHASE_READ, PHASE_SEND };

/** A 64-bit mixing function (splitmix64): different inputs give unrelated outputs. */
static uint64_t
mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t
stream(const struct endpoint *ep, uint64_t op)
{
	/* The immediate data contains the lower half of the number. */
	return mix(mix(ep->lane->w->o.seed) ^ mix((uint64_t)ep->number << 40 ^ (uint32_t)op));
}

/** @return bytes of operation @p op: 1 to the size. */
static uint32_t
length(const struct endpoint *ep, uint64_t op)
{
	return (uint32_t)(stream(ep, op) % ep->lane->w->o.size) + 1;
}

static inline uint64_t
word(uint64_t key, uint32_t at)
{
	return mix(key + at);
}

static void
fill(uint8_t *to, uint64_t key, uint32_t n)
{
	for (uint32_t at = 0; at < n; at += 8) {
		uint64_t v = word(key, at);

		memcpy(to + at, &v, n - at < 8 ? n - at : 8);
	}
}

/** @return the offset of the first wrong byte; @p n if there is none. */
static uint32_t
compare(const uint8_t *got, uint64_t key, uint32_t n)
{
	for (uint32_t at = 0; at < n; at += 8) {
		uint64_t v = word(key, at);

		if (memcmp(got + at, &v, n - at < 8 ? n - at : 8) == 0)
			continue;
		for (uint32_t i = 0; i < 8 && at + i < n; i++)
			if (got[at + i] != ((const uint8_t *)&v)[i])
				return at + i;
	}
	return n;
}

static void
expect(struct endpoint *ep, const char *what, const uint8_t *got, uint64_t op, uint32_t n)
{
	uint32_t at = compare(got, stream(ep, op), n);

	if (at < n)
		workload_fail(ep->lane->w, "%s QPN 0x%x: %s %llu of %u bytes: byte %u is 0x%02x, which is wrong",
			      ep->lane->host->name, ep->qp->qp_num, what, (unsigned long long)op, n, at, got[at]);
	else
		atomic_fetch_add_explicit(&ep->lane->w->extra[0], n, memory_order_relaxed);
}

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	uint64_t op = ep->numbers[slot];
	uint32_t n = length(ep, op);

	wr->sg_list->length = n;
	switch ((enum phase)ep->phases[slot]) {
	case PHASE_WRITE:
		fill(flow_slot(ep, AREA_SOURCE, slot), stream(ep, op), n);
		break;
	case PHASE_READ:
		wr->opcode = IBV_WR_RDMA_READ;
		wr->sg_list->addr = (uintptr_t)flow_slot(ep, AREA_BACK, slot);
		memset(flow_slot(ep, AREA_BACK, slot), 0, n);
		break;
	case PHASE_SEND:
		/*
		 * Operations in different slots can overtake each other, so the immediate data says which one this is.
		 */
		wr->opcode = IBV_WR_SEND_WITH_IMM;
		wr->imm_data = (uint32_t)op;
		break;
	}
}

static void
sent(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc)
{
	uint64_t op = ep->numbers[slot];
	uint32_t n = length(ep, op);

	if (ep->phases[slot] == PHASE_READ)
		expect(ep, "READ", flow_slot(ep, AREA_BACK, slot), op, n);
	if (ep->phases[slot] == (ep->peer != NULL ? PHASE_SEND : PHASE_READ)) {
		flow_done(ep, slot, (uint64_t)n * (ep->phases[slot] + 1u));
		return;
	}
	ep->phases[slot]++;
	flow_post(ep, slot);
}

static void
received(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc)
{
	uint64_t op = wc->imm_data;

	if ((wc->wc_flags & IBV_WC_WITH_IMM) == 0 || wc->byte_len != length(ep, op)) {
		workload_fail(ep->lane->w, "%s QPN 0x%x: a message of %u bytes arrived, which nobody sent", ep->lane->host->name,
			      wc->qp_num, wc->byte_len);
		return;
	}
	expect(ep, "SEND", ep->recv_mem + slot * flow_stride(ep->lane->w), op, wc->byte_len);
}

static void
describe(const struct workload *w, char *text, size_t bytes)
{
	snprintf(text, bytes, "%llu bytes checked%s", (unsigned long long)atomic_load_explicit(&w->extra[0], memory_order_relaxed),
		 workload_failing(w) ? "" : ", all right");
}

static const struct workload_ops verify_ops = {
	.name = "verify",
	.help = "RDMA WRITE, RDMA READ and SEND of random lengths, every byte of which is checked",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_RDMA_WRITE,
	.reaches_memory = true,
	.receives = true,
	.areas = 2,
	.make = make,
	.sent = sent,
	.received = received,
	.describe = describe,
};
WORKLOAD(verify_ops)
