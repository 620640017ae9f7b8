/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures of two Soft-RoCE endpoints (tests/golden) played again with uroce as one of them,
 * first the one, then the other.
 *
 * The program of the endpoint that uroce stands for is inferred from what that endpoint sent: its work requests are
 * posted where its first packet of each message stands in the capture. The other endpoint's packets come as they were
 * recorded, but for QPNs and keys, which uroce chooses itself. What uroce sends must be what the recorded endpoint sent:
 * the same requests and the same answers in the same order, each with the same opcode, PSN, headers and payload.
 * Requests that the recorded endpoint didn't live to answer are left out.
 *
 * What may differ, and why (docs/wire.md):
 * - Ethernet to UDP, MigReq: tests/interop compares those.
 * - AckReq inside a message: when a sender wants to know how far it got is its own affair.
 * - Credits in ACKs: uroce says how many receives are posted, Soft-RoCE never does.
 * - What Soft-RoCE sent again because its timer ran out too early: here no time passes.
 * - A READ of more packets than uroce asks for at a time: Soft-RoCE's answers don't fit uroce's requests. Such
 *   connections are played with uroce as the responder only.
 * - The window: uroce may have sent less than Soft-RoCE had when an ACK came. It then first gets an ACK for what it has
 *   sent, as the peer would have sent it.
 */
#include <dirent.h>

#include "replay_player.h"

enum {
	READ_CHUNK_PACKETS = 32, /* TP_READ_CHUNK_PACKETS */
	NO_CREDITS = WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID,
	/* What is in the folder. */
	CONNECTIONS = 109,
	DATAGRAM_QPS = 19,
	ASKED_IN_PIECES = 3,
};

/* ---- The peer's packets ---- */
/* The memory of the recorded endpoint, as far as its answer to this READ or atomic tells. */
static void
fill_memory(struct player *pl, uint32_t i)
{
	const struct wire_pkt *q = &record(pl, i)->p;
	bool read = (q->op->flags & WIRE_F_READ) != 0;
	const uint8_t *h = q->bthp + (read ? q->op->off_reth : q->op->off_atomiceth);
	uint32_t len = read ? wire_get32(h + 12) : ATOMIC_BYTES;
	uint32_t packets = read ? wire_packets(len, pl->mtu_shift) : 1;
	struct region *g;
	uint64_t off;

	if (len == 0)
		return;
	g = find_region(pl, wire_get32(h + 8));
	off = wire_get64(h) - g->lo;
	for (i++; i < pl->c->nb_records && packets > 0; i++) {
		const struct record *r = record(pl, i);
		int32_t nth = wire_psn_diff(r->p.bth.psn, q->bth.psn);
		uint64_t word;

		if (!flow_has(pl->f, r) || !ours(pl, r) || nth < 0 || nth >= (int32_t)packets)
			continue;
		if (read && r->p.op->flags & WIRE_F_READ_RESP)
			memcpy(g->mem + off + ((uint64_t)nth << pl->mtu_shift), r->p.payload, r->p.payload_bytes);
		if (read || !(r->p.op->flags & WIRE_F_ATOMICACKETH))
			continue;
		/* Only what was there before the first atomic: from then on uroce does the sums. */
		memcpy(&word, g->mem + off, sizeof(word));
		if (word == 0) {
			word = wire_get64(r->p.bthp + r->p.op->off_atomicacketh);
			memcpy(g->mem + off, &word, sizeof(word));
		}
		return;
	}
}

static void
check_written(struct player *pl, const struct wire_pkt *p)
{
	/* Without data address and key mean nothing. */
	if (p->payload_bytes == 0)
		return;
	if (p->op->flags & WIRE_F_RETH) {
		pl->write_va = wire_get64(p->bthp + p->op->off_reth);
		pl->write_region = find_region(pl, wire_get32(p->bthp + p->op->off_reth + 8));
	}
	assert_memory_equal(pl->write_region->mem + (pl->write_va - pl->write_region->lo), p->payload, p->payload_bytes);
	pl->write_va += p->payload_bytes;
}

static void
check_received(struct player *pl, uint32_t last)
{
	const struct wire_pkt *p = &record(pl, last)->p;
	bool grh = pl->f->service == WIRE_UD;
	struct ring_cqe e = expect_cqe(&pl->e->rcq, pl->received, UROCE_WC_SUCCESS);
	const uint8_t *in = pl->in + (size_t)pl->received++ * pl->in_slot + (grh ? WIRE_GRH_BYTES : 0);
	uint32_t left = e.byte_len - (grh ? WIRE_GRH_BYTES : 0);

	if (p->op->flags & WIRE_F_IMM)
		assert_memory_equal(&e.imm, p->bthp + p->op->off_imm, sizeof(e.imm));
	if (p->op->flags & WIRE_F_WRITE)
		return;
	/* Backwards from the last packet. */
	for (uint32_t i = last + 1; i-- > 0;) {
		const struct record *r = record(pl, i);

		if (!flow_has(pl->f, r) || ours(pl, r) || !(r->p.op->flags & WIRE_F_REQUEST))
			continue;
		assert_true(r->p.payload_bytes <= left);
		left -= r->p.payload_bytes;
		assert_memory_equal(in + left, r->p.payload, r->p.payload_bytes);
		if (r->p.op->flags & WIRE_F_START)
			break;
	}
	assert_int_equal(left, 0);
}

/* What READs and atomics brought is what the peer sent. */
static void
check_brought(struct player *pl, const struct record *r)
{
	uint32_t i = 0, first;
	const uint8_t *at;

	if (!(r->p.op->flags & (WIRE_F_READ_RESP | WIRE_F_ATOMICACKETH)))
		return;
	while (i < pl->posted && wire_psn_diff(pl->end_psn[i], r->p.bth.psn) < 0)
		i++;
	assert_true(i < pl->posted);
	first = pl->first_psn[i];
	at = pl->buf[i] + ((size_t)((r->p.bth.psn - first) & WIRE_PSN_MASK) << pl->mtu_shift);
	if (r->p.op->flags & WIRE_F_READ_RESP) {
		assert_memory_equal(at, r->p.payload, r->p.payload_bytes);
	} else {
		uint64_t word = wire_get64(r->p.bthp + r->p.op->off_atomicacketh);

		assert_memory_equal(at, &word, sizeof(word));
	}
}

static void
from_peer(struct player *pl, uint32_t i)
{
	const struct record *r = record(pl, i);
	const struct wire_opcode *op = r->p.op;

	turn(pl);
	if (op->flags & WIRE_F_RESPONSE) {
		while (WIRE_OPCODE_OP(r->p.bth.opcode) == WIRE_OP_ACK && wire_psn_diff(r->p.bth.psn, pl->sent_psn) > 0) {
			uint32_t psn_msn[2] = { pl->sent_psn, pl->acked_msn };

			inject(pl, r, psn_msn);
			if (pl->sent_psn == psn_msn[0])
				fail_msg("%s: uroce has not sent PSN %u", pl->c->name, r->p.bth.psn);
		}
		if (op->flags & WIRE_F_AETH)
			pl->acked_msn = wire_get24(r->p.bthp + op->off_aeth + 1);
		pl->acked_psn = r->p.bth.psn;
		inject(pl, r, NULL);
		check_brought(pl, r);
		return;
	}
	if (op->flags & (WIRE_F_READ | WIRE_F_ATOMIC))
		fill_memory(pl, i);
	inject(pl, r, NULL);
	/* Sent again: there is an answer, but nothing else happens. */
	if (pl->peer_began && wire_psn_diff(r->p.bth.psn, pl->peer_psn) < 0)
		return;
	pl->peer_began = true;
	pl->peer_psn = wire_psn_add(r->p.bth.psn, 1);
	if (op->flags & WIRE_F_WRITE)
		check_written(pl, &r->p);
	if (op->flags & WIRE_F_END && (op->flags & WIRE_F_SEND || (op->flags & WIRE_F_WRITE && op->flags & WIRE_F_IMM)))
		check_received(pl, i);
}

/* ---- Comparison ---- */
static void
differ(const struct player *pl, uint32_t i, const char *what, uint64_t got, uint64_t want)
{
	fail_msg("%s, packet %u of the RoCE packets (%s): uroce sends %s 0x%lx, Soft-RoCE sent 0x%lx", pl->c->name, i,
		 record(pl, i)->p.op->name, what, (unsigned long)got, (unsigned long)want);
}

#define SAME(pl, i, what, got, want) \
	do { \
		if ((got) != (want)) \
			differ(pl, i, what, (uint64_t)(got), (uint64_t)(want)); \
	} while (0)

/* Extended headers, byte by byte. A DETH names the sender, whose number is uroce's own. */
static void
compare_headers(const struct player *pl, uint32_t i, const struct wire_pkt *s, const struct wire_pkt *r)
{
	bool ud = (r->op->flags & WIRE_F_DETH) != 0, aeth = (r->op->flags & WIRE_F_AETH) != 0;

	for (uint32_t k = WIRE_BTH_BYTES; k < r->op->hdr_bytes; k++) {
		if (ud && k > r->op->off_deth + 4u && k < r->op->off_deth + 8u)
			continue;
		if (aeth && k == r->op->off_aeth && WIRE_AETH_TYPE(s->bthp[k]) == WIRE_AETH_ACK && r->bthp[k] == NO_CREDITS)
			continue;
		SAME(pl, i, "in an extended header", s->bthp[k], r->bthp[k]);
	}
}

/* The next packet of this kind, request or answer, that uroce has sent must be record @i. */
static void
compare(struct player *pl, uint32_t *at, uint32_t i)
{
	const struct wire_pkt *r = &record(pl, i)->p, *s;
	uint32_t kind = r->op->flags & (WIRE_F_REQUEST | WIRE_F_RESPONSE);

	while (*at < pl->nb_sent && !(pl->sent[*at].p.op->flags & kind))
		(*at)++;
	if (*at == pl->nb_sent)
		fail_msg("%s, packet %u of the RoCE packets (%s, PSN %u): uroce doesn't send it", pl->c->name, i, r->op->name,
			 r->bth.psn);
	s = &pl->sent[(*at)++].p;
	SAME(pl, i, "opcode", s->bth.opcode, r->bth.opcode);
	SAME(pl, i, "PSN", s->bth.psn, r->bth.psn);
	SAME(pl, i, "destination QP", s->bth.dqpn, r->bth.dqpn);
	SAME(pl, i, "P_Key", s->bth.pkey, r->bth.pkey);
	SAME(pl, i, "pad", s->bth.pad, r->bth.pad);
	SAME(pl, i, "TVer", s->bth.tver, r->bth.tver);
	SAME(pl, i, "solicited", s->bth.solicited, r->bth.solicited);
	SAME(pl, i, "payload bytes", s->payload_bytes, r->payload_bytes);
	if (r->op->flags & WIRE_F_END || !(r->op->flags & WIRE_F_REQUEST))
		SAME(pl, i, "AckReq", s->bth.ackreq, r->bth.ackreq);
	compare_headers(pl, i, s, r);
	for (uint32_t k = 0; k < r->payload_bytes; k++)
		SAME(pl, i, "in the payload", s->payload[k], r->payload[k]);
	pl->compared++;
}

static void
compare_all(struct player *pl)
{
	uint32_t request_at = 0, answer_at = 0, next = 0;
	bool first = true;

	for (uint32_t i = 0; i < pl->c->nb_records; i++) {
		const struct wire_pkt *r = &record(pl, i)->p;

		if (!flow_has(pl->f, record(pl, i)) || !ours(pl, record(pl, i)))
			continue;
		if (r->op->flags & WIRE_F_RESPONSE) {
			compare(pl, &answer_at, i);
		} else if (first || wire_psn_diff(r->bth.psn, next) >= 0) {
			compare(pl, &request_at, i);
			next = wire_psn_add(r->bth.psn, 1);
			first = false;
		}
	}
}

/* READs that uroce would ask for in pieces. */
static bool
asks_in_pieces(const struct player *pl)
{
	for (uint32_t i = 0; i < pl->c->nb_records; i++) {
		const struct record *r = record(pl, i);

		if (flow_has(pl->f, r) && ours(pl, r) && r->p.op->flags & WIRE_F_READ &&
		    wire_packets(wire_get32(r->p.bthp + r->p.op->off_reth + 12), pl->mtu_shift) > READ_CHUNK_PACKETS)
			return true;
	}
	return false;
}

/* What the peer has answered is complete; a program may have ended without waiting for the last answer. */
static void
check_completions(struct player *pl)
{
	for (uint32_t i = 0; i < pl->posted; i++)
		if (pl->f->service != WIRE_RC || wire_psn_diff(pl->acked_psn, pl->end_psn[i]) >= 0)
			expect_cqe(&pl->e->scq, i, UROCE_WC_SUCCESS);
	expect_no_cqe(&pl->e->scq);
	expect_no_cqe(&pl->e->rcq);
}

/* Whether the recorded endpoint was gone when this request came: it never sent anything again. */
static bool
gone(const struct player *pl, uint32_t i)
{
	if (pl->f->service != WIRE_RC || !(record(pl, i)->p.op->flags & WIRE_F_REQUEST))
		return false;
	for (; i < pl->c->nb_records; i++)
		if (flow_has(pl->f, record(pl, i)) && ours(pl, record(pl, i)))
			return false;
	return true;
}

static bool
starts_request(const struct wire_pkt *p)
{
	return p->op->flags & WIRE_F_START && p->op->flags & WIRE_F_REQUEST;
}

/* @return false: left out */
static bool
play(const struct capture *c, const struct flow *f, unsigned int side)
{
	struct player pl = { .c = c, .f = f, .side = side };

	player_up(&pl);
	if (asks_in_pieces(&pl)) {
		player_down(&pl);
		return false;
	}
	for (uint32_t i = 0; i < c->nb_records; i++) {
		const struct record *r = record(&pl, i);

		if (!flow_has(f, r))
			continue;
		if (!ours(&pl, r) && !gone(&pl, i))
			from_peer(&pl, i);
		else if (ours(&pl, r) && starts_request(&r->p) && r->p.bth.psn == pl.next_psn)
			post(&pl, i);
	}
	turn(&pl);
	compare_all(&pl);
	if (pl.compared != pl.nb_sent)
		fail_msg("%s: uroce sends %u packets, Soft-RoCE sent %u", c->name, pl.nb_sent, pl.compared);
	check_completions(&pl);
	player_down(&pl);
	return true;
}

static void
every_capture(bool datagrams, uint32_t expected)
{
	struct capture *c = calloc(1, sizeof(*c));
	DIR *dir = opendir(GOLDEN_DIR);
	const struct dirent *d;
	uint32_t played = 0, left_out = 0;

	assert_non_null(dir);
	while ((d = readdir(dir)) != NULL) {
		const char *dot = strrchr(d->d_name, '.');

		if (dot == NULL || strcmp(dot, ".pcap") != 0)
			continue;
		capture_open(c, d->d_name);
		for (uint32_t i = 0; i < c->nb_flows; i++) {
			const struct flow *f = &c->flows[i];

			if ((f->service == WIRE_UD) != datagrams)
				continue;
			played++;
			if (datagrams) {
				play(c, f, f->side);
				continue;
			}
			left_out += !play(c, f, 0);
			left_out += !play(c, f, 1);
		}
		capture_close(c);
	}
	closedir(dir);
	free(c);
	assert_int_equal(played, expected);
	assert_int_equal(left_out, datagrams ? 0 : ASKED_IN_PIECES);
}

static void
uroce_does_in_each_connection_what_soft_roce_did(void **state)
{
	(void)state;
	every_capture(false, CONNECTIONS);
}

static void
uroce_does_with_each_datagram_qp_what_soft_roce_did(void **state)
{
	(void)state;
	every_capture(true, DATAGRAM_QPS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uroce_does_in_each_connection_what_soft_roce_did),
		cmocka_unit_test(uroce_does_with_each_datagram_qp_what_soft_roce_did),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
