/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets by reference that stand for several packets of a message: in whatever pieces a message goes, it means the same. */
#include <stdlib.h>
#include <string.h>

#include "copy_rig.h"
#include "transport/core/local_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/rx_priv.h"

enum { BYTES = 200000, MTU = 1024, LONG = 20 * MTU + 7 };

struct bed {
	struct pair *p;
	struct host *h;
	struct end *a, *b;
	uint8_t *from, *to;
	struct mr *fmr, *tmr;
};

static struct mr *
memory(struct host *h, uint8_t *at, unsigned int pieces, bool mapped)
{
	struct mem_seg segs[2];
	struct mr_params p = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = ADDR(at), .length = BYTES, .iova = ADDR(at), .segs = segs,
			       .nb_segs = pieces, .owner = &self };
	struct mr *mr;

	for (unsigned int i = 0; i < pieces; i++)
		segs[i] = (struct mem_seg){ .va = ADDR(at) + i * (BYTES / pieces), .length = BYTES / pieces,
					    .host = mapped ? at + i * (BYTES / pieces) : NULL };
	assert_int_equal(mr_create(h->sh.mrs, &p, &mr), 0);
	return mr;
}

static void
bed_up_opts(struct bed *t, const struct end_opts *o, const struct conn_opts *co, unsigned int pieces, bool mapped)
{
	t->p = pair_new();
	t->h = &t->p->h[0];
	t->h->tp->locals = calloc(1, sizeof(*t->h->tp->locals)); /* what by_reference makes */
	assert_non_null(t->h->tp->locals);
	t->a = end_new(t->h, o);
	t->b = end_new(t->h, o);
	t->from = calloc(1, BYTES);
	t->to = calloc(1, BYTES);
	assert_true(t->from != NULL && t->to != NULL);
	fill(t->from, BYTES, 7);
	t->fmr = host_mr(t->h, t->from, BYTES, ACCESS_ALL);
	t->tmr = memory(t->h, t->to, pieces, mapped);
	ends_connect(t->a, t->b, co);
}

static void
bed_up(struct bed *t)
{
	bed_up_opts(t, NULL, NULL, 1, true);
}

static void
bed_down(struct bed *t)
{
	end_free(t->a);
	end_free(t->b);
	mr_destroy(t->h->sh.mrs, t->fmr);
	mr_destroy(t->h->sh.mrs, t->tmr);
	free(t->from);
	free(t->to);
	pair_free(t->p);
}

static const struct tp_counters *
counted(const struct bed *t)
{
	return transport_counters(t->h->tp);
}

/* Have a send what it may, and deliver it, but no answer. @return PSNs of the first packet, and in @p n how many packets there were. */
static uint32_t
first_of(struct bed *t, uint32_t budget, uint32_t *n)
{
	uint32_t psns;

	requester_run(t->h->tp, t->a->qp, budget);
	*n = t->h->tp->locals->n;
	assert_true(*n > 0);
	psns = 1u + t->h->tp->locals->e[0].p.more;
	rx_local(t->h->tp);
	return psns;
}

static void
write_long(struct bed *t, uint64_t id, uint32_t off, uint32_t len)
{
	end_send(t->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t->from + off, len, t->fmr), .nb_sge = 1,
				     .remote_addr = ADDR(t->to) + off, .rkey = t->tmr->key });
}

static void
read_long(struct bed *t, uint64_t id, uint32_t off, uint32_t len)
{
	end_send(t->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_READ, .sge = SGE(t->to + off, len, t->tmr), .nb_sge = 1,
				     .remote_addr = ADDR(t->from) + off, .rkey = t->fmr->key });
}

static void
send_long(struct bed *t, uint64_t id, enum uroce_wr_op op, uint32_t len)
{
	end_send(t->a, &(struct wr){ .id = id, .op = op, .flags = UROCE_SEND_SOLICITED, .imm = 99, .sge = SGE(t->from, len, t->fmr), .nb_sge = 1,
				     .remote_addr = ADDR(t->to), .rkey = t->tmr->key });
}

static void
a_message_is_one_packet(void **state)
{
	struct bed t;
	uint32_t n;

	bed_up(&t);
	write_long(&t, 1, 0, LONG);
	assert_int_equal(first_of(&t, 100, &n), 21);
	assert_int_equal(n, 1);
	host_turn(t.h);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, LONG);
	assert_int_equal(t.to[LONG], 0);
	/* And its ACK. */
	assert_int_equal(counted(&t)->tx_packets, 22);
	assert_int_equal(counted(&t)->tx_by_reference, 22);
	assert_int_equal(counted(&t)->rx_packets, 22);
	bed_down(&t);
}

static void
a_read_has_an_answer_for_each_request(void **state)
{
	struct bed t;

	bed_up(&t);
	read_long(&t, 1, 5, 3 * TP_READ_CHUNK_PACKETS * MTU + 1);
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from + 5, t.to + 5, 3 * TP_READ_CHUNK_PACKETS * MTU + 1);
	assert_int_equal(t.to[4], 0);
	assert_int_equal(counted(&t)->acks_received, 3 * TP_READ_CHUNK_PACKETS + 1);
	bed_down(&t);
}

/* An administrator reads the same figures whichever way packets go. */
static void
packets_and_bytes_are_counted_as_those_of_frames(void **state)
{
	static const enum uroce_wr_op ops[] = { UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_WRITE_WITH_IMM, UROCE_WR_SEND, UROCE_WR_SEND_WITH_IMM, UROCE_WR_RDMA_READ };

	for (unsigned int i = 0; i < RTE_DIM(ops); i++) {
		struct tp_counters n[2];

		for (unsigned int frames = 0; frames < 2; frames++) {
			struct bed t;

			bed_up(&t);
			if (frames) {
				free(t.h->tp->locals);
				t.h->tp->locals = NULL;
			}
			end_recv(t.b, 2, SGE(t.to, BYTES, t.tmr), 1);
			if (ops[i] == UROCE_WR_RDMA_READ)
				read_long(&t, 1, 0, 70 * MTU + 1);
			else
				send_long(&t, 1, ops[i], 70 * MTU + 1);
			pair_settle(t.p);
			expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
			assert_memory_equal(t.from, t.to, 70 * MTU + 1);
			n[frames] = *counted(&t);
			bed_down(&t);
		}
		n[0].tx_by_reference = n[1].tx_by_reference = 0;
		/* How many ACKs there are inside a message depends on the pieces. */
		for (unsigned int frames = 0; frames < 2; frames++) {
			uint64_t acks = n[frames].acks_sent, each = 14 + 20 + 8 + WIRE_BTH_BYTES + WIRE_AETH_BYTES + WIRE_ICRC_BYTES;

			n[frames].tx_packets -= acks;
			n[frames].rx_packets -= acks;
			n[frames].tx_bytes -= acks * each;
			n[frames].rx_bytes -= acks * each;
		}
		assert_int_equal(n[0].tx_packets, n[1].tx_packets);
		assert_int_equal(n[0].rx_packets, n[1].rx_packets);
		assert_int_equal(n[0].tx_bytes, n[1].tx_bytes);
		assert_int_equal(n[0].rx_bytes, n[1].rx_bytes);
		assert_int_equal(n[0].rx_write_requests, n[1].rx_write_requests);
		assert_int_equal(n[0].rx_send_requests, n[1].rx_send_requests);
		assert_int_equal(n[0].acks_received - n[0].acks_sent, n[1].acks_received - n[1].acks_sent);
	}
}

static void
a_send_without_a_receive_waits_for_one(void **state)
{
	struct bed t;

	bed_up(&t);
	send_long(&t, 1, UROCE_WR_SEND_WITH_IMM, LONG);
	pair_settle(t.p);
	expect_no_cqe(&t.a->scq);
	assert_int_equal(counted(&t)->rnr_nak_sent, 1);
	end_recv(t.b, 2, SGE(t.to, LONG, t.tmr), 1);
	pair_advance(t.p, 100 * (uint64_t)PAIR_MS);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&t.b->rcq, 2, UROCE_WC_SUCCESS).byte_len, LONG);
	assert_memory_equal(t.from, t.to, LONG);
	assert_int_equal(counted(&t)->retransmitted_packets, 21);
	bed_down(&t);
}

static void
a_receive_that_is_too_short_fails(void **state)
{
	struct bed t;

	bed_up(&t);
	end_recv(t.b, 2, SGE(t.to, LONG - 1, t.tmr), 1);
	send_long(&t, 1, UROCE_WR_SEND, LONG);
	pair_settle(t.p);
	expect_cqe(&t.b->rcq, 2, UROCE_WC_LOC_LEN_ERR);
	expect_cqe(&t.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
	assert_int_equal(t.to[LONG - 1], 0);
	bed_down(&t);
}

static void
a_wrong_key_is_refused(void **state)
{
	struct bed t;

	bed_up(&t);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.from, LONG, t.fmr), .nb_sge = 1,
				    .remote_addr = ADDR(t.to) + BYTES - LONG + 1, .rkey = t.tmr->key });
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	for (uint32_t i = 0; i < BYTES; i++)
		assert_int_equal(t.to[i], 0);
	bed_down(&t);
}

/* A QP's turn is no longer than before. */
static void
a_turn_has_its_limit(void **state)
{
	struct bed t;
	uint32_t n;

	bed_up(&t);
	write_long(&t, 1, 0, LONG);
	assert_int_equal(first_of(&t, 8, &n), 8);
	assert_int_equal(n, 1);
	assert_memory_equal(t.from, t.to, 8 * MTU);
	assert_int_equal(t.to[8 * MTU], 0);
	t.h->tp->c.limits.qp_budget = 8;
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, LONG);
	read_long(&t, 2, LONG, LONG);
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, 2 * LONG);
	bed_down(&t);
}

/* What fills the window asks for an answer. */
static void
the_window_has_its_limit(void **state)
{
	struct bed t;
	uint32_t n;

	bed_up(&t);
	t.h->tp->c.limits.cwnd = 16;
	end_state(t.a, UROCE_QPS_RESET);
	end_state(t.b, UROCE_QPS_RESET);
	ends_connect(t.a, t.b, NULL);
	write_long(&t, 1, 0, 40 * MTU);
	assert_int_equal(first_of(&t, 64, &n), 16);
	assert_int_equal(n, 1);
	assert_memory_equal(t.from, t.to, 16 * MTU);
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, 40 * MTU);
	bed_down(&t);
}

static void
payload_in_pieces_goes_packet_by_packet(void **state)
{
	struct ring_sge sge[2];
	struct bed t;
	uint32_t n;

	bed_up_opts(&t, &(struct end_opts){ .max_sge = 2 }, NULL, 1, true);
	sge[0] = *SGE(t.from, 3000, t.fmr);
	sge[1] = *SGE(t.from + 3000, 3000, t.fmr);
	end_send(t.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = sge, .nb_sge = 2, .remote_addr = ADDR(t.to), .rkey = t.tmr->key });
	assert_int_equal(first_of(&t, 100, &n), 1);
	/* The last three packets are in one piece. */
	assert_int_equal(n, 4);
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, 6000);
	bed_down(&t);
}

/* Memory that is mapped in two pieces, of the receiver, and of the one that a READ asks. */
static void
memory_in_two_mapped_pieces_is_written(void **state)
{
	struct bed t;
	uint32_t n;

	bed_up_opts(&t, NULL, NULL, 2, true);
	write_long(&t, 1, BYTES / 2 - LONG / 2, LONG);
	assert_int_equal(first_of(&t, 100, &n), 21);
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from + BYTES / 2 - LONG / 2, t.to + BYTES / 2 - LONG / 2, LONG);
	memset(t.from, 0, BYTES);
	end_send(t.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_READ, .sge = SGE(t.from, LONG, t.fmr), .nb_sge = 1,
				    .remote_addr = ADDR(t.to) + BYTES / 2 - LONG / 2, .rkey = t.tmr->key });
	pair_settle(t.p);
	expect_cqe(&t.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to + BYTES / 2 - LONG / 2, LONG);
	bed_down(&t);
}

static void
copy_all(struct bed *t)
{
	pair_settle(t->p);
	while (host_copy(t->h, 1) != 0)
		;
}

/* Each packet can wait for its copy, and those behind it are held. */
static void
memory_that_is_not_mapped_is_written_packet_by_packet(void **state)
{
	struct bed t;

	bed_up_opts(&t, NULL, NULL, 1, false);
	write_long(&t, 1, 0, LONG);
	write_long(&t, 2, LONG, LONG);
	copy_all(&t);
	expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&t.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, 2 * LONG);
	assert_int_equal(counted(&t)->rx_write_requests, 2);
	memset(t.to, 0, BYTES);
	end_recv(t.b, 4, SGE(t.to, LONG, t.tmr), 1);
	send_long(&t, 3, UROCE_WR_SEND_WITH_IMM, LONG);
	copy_all(&t);
	expect_cqe(&t.a->scq, 3, UROCE_WC_SUCCESS);
	assert_int_equal(expect_cqe(&t.b->rcq, 4, UROCE_WC_SUCCESS).byte_len, LONG);
	assert_memory_equal(t.from, t.to, LONG);
	assert_int_equal(counted(&t)->rx_send_requests, 1);
	memset(t.to, 0, BYTES);
	read_long(&t, 5, 0, LONG);
	read_long(&t, 6, LONG, LONG);
	copy_all(&t);
	expect_cqe(&t.a->scq, 5, UROCE_WC_SUCCESS);
	expect_cqe(&t.a->scq, 6, UROCE_WC_SUCCESS);
	assert_memory_equal(t.from, t.to, 2 * LONG);
	assert_int_equal(counted(&t)->retransmitted_packets, 0);
	bed_down(&t);
}

/* One end has another path MTU, which it shouldn't: it is told so, as with frames. */
static void
ends_that_disagree_about_the_mtu_fail(void **state)
{
	for (unsigned int frames = 0; frames < 2; frames++) {
		struct bed t;

		bed_up(&t);
		if (frames) {
			free(t.h->tp->locals);
			t.h->tp->locals = NULL;
		}
		end_state(t.b, UROCE_QPS_RESET);
		end_to_rtr(t.b, t.a, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
		write_long(&t, 1, 0, 3 * MTU);
		pair_settle(t.p);
		expect_cqe(&t.a->scq, 1, UROCE_WC_REM_INV_REQ_ERR);
		assert_int_equal(t.to[0], 0);
		bed_down(&t);
	}
}

/* Split, it is what frames would be. */
static void
its_parts_are_the_packets_of_the_message(void **state)
{
	static const struct { uint8_t whole, first, middle, last; } ops[] = {
		{ WIRE_OP_SEND_ONLY, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST },
		{ WIRE_OP_SEND_ONLY_IMM, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST_IMM },
		{ WIRE_OP_SEND_ONLY_INV, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST_INV },
		{ WIRE_OP_SEND_FIRST, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_MIDDLE },
		{ WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_MIDDLE },
		{ WIRE_OP_SEND_LAST_IMM, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST_IMM },
		{ WIRE_OP_WRITE_ONLY, WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST },
		{ WIRE_OP_WRITE_ONLY_IMM, WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST_IMM },
		{ WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_FIRST, WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_MIDDLE },
		{ WIRE_OP_WRITE_LAST, WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST },
		{ WIRE_OP_READ_RESP_ONLY, WIRE_OP_READ_RESP_FIRST, WIRE_OP_READ_RESP_MIDDLE, WIRE_OP_READ_RESP_LAST },
		{ WIRE_OP_READ_RESP_FIRST, WIRE_OP_READ_RESP_FIRST, WIRE_OP_READ_RESP_MIDDLE, WIRE_OP_READ_RESP_MIDDLE },
		{ WIRE_OP_READ_RESP_LAST, WIRE_OP_READ_RESP_MIDDLE, WIRE_OP_READ_RESP_MIDDLE, WIRE_OP_READ_RESP_LAST },
	};
	struct bed t;

	bed_up(&t);
	for (unsigned int i = 0; i < RTE_DIM(ops); i++) {
		for (unsigned int xrc = 0; xrc < 2; xrc++) {
			uint8_t service = xrc ? WIRE_XRC : WIRE_RC;
			const struct wire_opcode *op = &wire_opcodes[service | ops[i].whole];
			bool end = (op->flags & WIRE_F_END) != 0;
			struct wire_bth b = { .opcode = service | ops[i].whole, .psn = WIRE_PSN_MASK, .dqpn = 5, .ackreq = true, .solicited = end, .pad = end ? 3 : 0 };
			uint32_t len = end ? 3 * MTU + 1 : 4 * MTU;
			struct tp_local *l = local_begin(t.h->tp, &t.a->qp->path.tmpl);
			uint8_t *bth = l->frame + t.a->qp->path.tmpl.bth_off;

			for (unsigned int n = WIRE_BTH_BYTES; n < op->hdr_bytes; n++)
				bth[n] = (uint8_t)(n * 3);
			l->p.payload = t.from;
			l->p.more = 3;
			local_add(t.h->tp, l, t.a->qp, op, b, len, 0);
			t.h->tp->locals->n = 0;
			for (uint32_t nth = 0; nth < 4; nth++) {
				struct local_part part;
				const struct wire_pkt *p = &part.p;

				local_part(l, nth, &part);
				assert_int_equal(p->bth.opcode, service | (nth == 0 ? ops[i].first : nth == 3 ? ops[i].last : ops[i].middle));
				assert_ptr_equal(p->op, &wire_opcodes[p->bth.opcode]);
				assert_int_equal(p->more, 0);
				assert_int_equal(p->bth.psn, wire_psn_add(WIRE_PSN_MASK, nth));
				assert_int_equal(p->bth.ackreq, nth == 3);
				assert_int_equal(p->bth.solicited, nth == 3 && end);
				assert_int_equal(p->bth.pad, nth == 3 && end ? 3 : 0);
				assert_int_equal(p->payload_bytes, nth == 3 && end ? 1 : MTU);
				assert_ptr_equal(p->payload, t.from + nth * MTU);
				assert_memory_equal(p->l3, l->p.l3, 20);
				assert_ptr_equal(p->bthp - p->l2, l->p.bthp - l->p.l2);
#define HAS(flag, off, bytes) \
	if (p->op->flags & flag) \
		assert_memory_equal(p->bthp + p->op->off, bth + op->off, bytes)
				HAS(WIRE_F_XRCETH, off_xrceth, WIRE_XRCETH_BYTES);
				HAS(WIRE_F_RETH, off_reth, WIRE_RETH_BYTES);
				HAS(WIRE_F_AETH, off_aeth, WIRE_AETH_BYTES);
				HAS(WIRE_F_IMM, off_imm, WIRE_IMM_BYTES);
				HAS(WIRE_F_IETH, off_ieth, WIRE_IETH_BYTES);
#undef HAS
			}
		}
	}
	bed_down(&t);
}

/* ---- Captures ---- */
enum { SEEN = 64 };
struct tap {
	struct tp_tap tap;
	struct wire_bth bth[SEEN];
	uint8_t frames[SEEN][WIRE_MAX_FRAME_BYTES];
	uint32_t bytes[SEEN];
	const char *dropped[SEEN];
	unsigned int n, ended;
};

static void *
tap_begin(struct tp_tap *t, uint16_t port, const struct rte_mbuf *m, uint64_t now_ns)
{
	struct tap *k = (struct tap *)t;
	struct wire_pkt p;

	assert_true(k->n < SEEN);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, true, &p), WIRE_OK);
	assert_int_equal(m->pkt_len, m->data_len);
	k->bth[k->n] = p.bth;
	k->bytes[k->n] = m->data_len;
	memcpy(k->frames[k->n], rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
	return k->bth + k->n++;
}

static void
tap_end(struct tp_tap *t, void *packet, const char *dropped)
{
	struct tap *k = (struct tap *)t;

	assert_ptr_equal(packet, k->bth + k->ended);
	k->dropped[k->ended++] = dropped;
}

/* A tap sees the frames that there would be, byte for byte. */
static void
a_tap_sees_frames(void **state)
{
	static struct tap k[2];

	for (unsigned int frames = 0; frames < 2; frames++) {
		struct bed t;

		bed_up(&t);
		k[frames].tap = (struct tp_tap){ tap_begin, tap_end };
		if (frames) {
			free(t.h->tp->locals);
			t.h->tp->locals = NULL;
		} else {
			transport_set_tap(t.h->tp, &k[0].tap);
		}
		memcpy(t.from, "the same", 8);
		end_recv(t.b, 2, SGE(t.to, BYTES, t.tmr), 1);
		send_long(&t, 1, UROCE_WR_SEND_WITH_IMM, 3 * MTU + 1);
		if (frames) {
			struct tp_txvec *v = transport_loop(t.h->tp);

			host_turn(t.h);
			assert_int_equal(v->n, 4);
			for (uint16_t i = 0; i < v->n; i++) {
				uint8_t *f = rte_pktmbuf_mtod(v->pkts[i], uint8_t *);
				uint32_t icrc = wire_icrc_packet(f + 14, 4, v->pkts[i]->data_len - 14u - WIRE_ICRC_BYTES);

				wire_put_icrc(f + v->pkts[i]->data_len - WIRE_ICRC_BYTES, icrc);
				tap_begin(&k[1].tap, 0, v->pkts[i], 0);
			}
		}
		pair_settle(t.p);
		expect_cqe(&t.a->scq, 1, UROCE_WC_SUCCESS);
		transport_set_tap(t.h->tp, NULL);
		bed_down(&t);
	}
	/* And an ACK. */
	assert_int_equal(k[0].n, 5);
	assert_int_equal(k[0].ended, 5);
	assert_int_equal(k[0].bth[4].opcode, WIRE_RC | WIRE_OP_ACK);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(k[0].bytes[i], k[1].bytes[i]);
		assert_memory_equal(k[0].frames[i], k[1].frames[i], k[0].bytes[i]);
		assert_null(k[0].dropped[i]);
	}
}

/* Why the peer has dropped it. */
static void
a_tap_is_told_why_packets_are_dropped(void **state)
{
	static struct tap k;
	struct bed t;

	bed_up(&t);
	k.tap = (struct tp_tap){ tap_begin, tap_end };
	transport_set_tap(t.h->tp, &k.tap);
	end_state(t.b, UROCE_QPS_ERR);
	write_long(&t, 1, 0, 3 * MTU);
	pair_settle(t.p);
	assert_int_equal(k.ended, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_string_equal(k.dropped[i], "rx_wrong_state");
	transport_set_tap(t.h->tp, NULL);
	bed_down(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_one_packet),
		cmocka_unit_test(a_read_has_an_answer_for_each_request),
		cmocka_unit_test(packets_and_bytes_are_counted_as_those_of_frames),
		cmocka_unit_test(a_send_without_a_receive_waits_for_one),
		cmocka_unit_test(a_receive_that_is_too_short_fails),
		cmocka_unit_test(a_wrong_key_is_refused),
		cmocka_unit_test(a_turn_has_its_limit),
		cmocka_unit_test(the_window_has_its_limit),
		cmocka_unit_test(payload_in_pieces_goes_packet_by_packet),
		cmocka_unit_test(memory_in_two_mapped_pieces_is_written),
		cmocka_unit_test(memory_that_is_not_mapped_is_written_packet_by_packet),
		cmocka_unit_test(ends_that_disagree_about_the_mtu_fail),
		cmocka_unit_test(its_parts_are_the_packets_of_the_message),
		cmocka_unit_test(a_tap_sees_frames),
		cmocka_unit_test(a_tap_is_told_why_packets_are_dropped),
	};

	return cmocka_run_group_tests(tests, open_memory, close_memory);
}
