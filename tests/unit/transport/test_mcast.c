/* SPDX-License-Identifier: BSD-3-Clause */
/* UD multicast: who gets a copy, what is checked of it, on one engine and on several. */
#include <errno.h>
#include <malloc.h>

#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "rig.h"

enum { QKEY = 0x11111111, MEMBERS = 3, BYTES = 500, ROOM = 1024 };

/** QPs on one host, each with one receive of ROOM bytes posted. */
struct members {
	struct host *host;
	struct end *e[MEMBERS];
	uint8_t *buf;
	struct mr *mr;
};

static void
members_up(struct members *m, struct host *h)
{
	m->host = h;
	m->buf = calloc(MEMBERS, ROOM);
	m->mr = host_mr(h, m->buf, MEMBERS * ROOM, ACCESS_ALL);
	for (unsigned int i = 0; i < MEMBERS; i++) {
		m->e[i] = end_new(h, &(struct end_opts){ .type = UROCE_QPT_UD, .max_inline = ROOM });
		ud_to_rts(m->e[i], QKEY);
		end_recv(m->e[i], 100 + i, SGE(m->buf + i * ROOM, ROOM, m->mr), 1);
	}
}

static void
members_down(struct members *m)
{
	for (unsigned int i = 0; i < MEMBERS; i++)
		end_free(m->e[i]);
	mr_destroy(m->host->sh.mrs, m->mr);
	free(m->buf);
}

static void
attach(struct members *m, unsigned int i, bool v6)
{
	assert_int_equal(mcast_attach(m->host->sh.mcasts, 0, pair_group(v6), qp_num(m->e[i]->qp)), 0);
}

static void
detach(struct members *m, unsigned int i, bool v6)
{
	assert_int_equal(mcast_detach(m->host->sh.mcasts, 0, pair_group(v6), qp_num(m->e[i]->qp)), 0);
}

/** Member @p i has exactly one message from @p from. */
static void
expect_message(struct members *m, unsigned int i, const struct end *from, const uint8_t *data, bool v6)
{
	const uint8_t *grh = m->buf + i * ROOM;
	struct ring_cqe e;
	union ring_cqe_ctl ctl;
	uint32_t sum = 0;

	assert_true(cq_poll(&m->e[i]->rcq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(e.wr_id, 100 + i);
	assert_int_equal(e.byte_len, WIRE_GRH_BYTES + BYTES);
	assert_int_equal(e.src_qp, qp_num(from->qp));
	assert_int_equal(ctl.wc_flags, UROCE_WC_GRH);
	assert_memory_equal(grh + WIRE_GRH_BYTES, data, BYTES);
	if (v6) {
		assert_memory_equal(grh + 24, pair_group(true), 16);
	} else {
		assert_memory_equal(grh + 20 + 16, gid_ip(pair_group(false)), 4);
		for (unsigned int k = 0; k < WIRE_IPV4_BYTES; k += 2)
			sum += wire_get16(grh + 20 + k);
		sum = (sum & 0xffff) + (sum >> 16);
		assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	}
	expect_no_cqe(&m->e[i]->rcq);
}

static void
send_to_group(struct end *e, uint32_t ah, const uint8_t *data, uint32_t qkey)
{
	end_send(e, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .inline_data = data, .inline_bytes = BYTES, .rkey = qkey,
				  .remote_addr = (uint64_t)WIRE_QPN_MULTICAST << 32 | ah });
}

static void
every_attached_qp_gets_one_copy(void **state)
{
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		struct pair *p = pair_new();
		struct members here, there;
		uint8_t data[BYTES];
		uint32_t ah;

		members_up(&here, &p->h[0]);
		members_up(&there, &p->h[1]);
		fill(data, BYTES, 3);
		ah = host_group_ah(&p->h[0], PAIR_PD, v6);
		attach(&there, 0, v6);
		attach(&there, 2, v6);
		/* Twice is once. */
		attach(&there, 2, v6);
		/* Of the other family, and on another port. */
		attach(&there, 1, !v6);
		assert_int_equal(mcast_attach(there.host->sh.mcasts, 1, pair_group(v6), qp_num(there.e[1]->qp)), 0);
		send_to_group(here.e[0], ah, data, QKEY);
		pair_settle(p);
		expect_cqe(&here.e[0]->scq, 1, UROCE_WC_SUCCESS);
		expect_message(&there, 0, here.e[0], data, v6);
		expect_message(&there, 2, here.e[0], data, v6);
		expect_no_cqe(&there.e[1]->rcq);
		assert_int_equal(pair_count(p, 0, -1), 1);
		assert_int_equal(transport_counters(p->h[1].tp)->rx_mcast, 1);
		/* Nobody here is attached: no copy was made. */
		assert_int_equal(transport_counters(p->h[0].tp)->rx_packets, 0);
		/* Who detaches gets nothing more. */
		detach(&there, 0, v6);
		detach(&there, 2, v6);
		send_to_group(here.e[0], ah, data, QKEY);
		pair_settle(p);
		expect_no_cqe(&there.e[0]->rcq);
		assert_int_equal(transport_counters(p->h[1].tp)->rx_mcast_no_group, 1);
		assert_int_equal(transport_counters(p->h[1].tp)->rx_ud_no_wqe, 0);
		assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
		members_down(&here);
		members_down(&there);
		pair_free(p);
	}
}

static void
members_on_the_senders_host_and_the_sender_itself_get_copies(void **state)
{
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		struct pair *p = pair_new();
		struct members here, there;
		uint8_t data[BYTES];
		uint32_t ah;

		members_up(&here, &p->h[0]);
		members_up(&there, &p->h[1]);
		fill(data, BYTES, 4);
		ah = host_group_ah(&p->h[0], PAIR_PD, v6);
		attach(&here, 0, v6);
		attach(&here, 1, v6);
		attach(&there, 1, v6);
		send_to_group(here.e[0], ah, data, QKEY);
		pair_settle(p);
		expect_cqe(&here.e[0]->scq, 1, UROCE_WC_SUCCESS);
		expect_message(&here, 0, here.e[0], data, v6);
		expect_message(&here, 1, here.e[0], data, v6);
		expect_no_cqe(&here.e[2]->rcq);
		expect_message(&there, 1, here.e[0], data, v6);
		assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
		members_down(&here);
		members_down(&there);
		pair_free(p);
	}
}

/* The copy for this host is dropped and counted; the datagram leaves. */
static void
without_room_in_loopback_members_on_the_senders_host_get_nothing(void **state)
{
	struct pair *p = pair_new();
	struct tp_txvec *loop = transport_loop(p->h[0].tp);
	struct members here;
	uint8_t data[BYTES];
	uint32_t ah;

	members_up(&here, &p->h[0]);
	fill(data, BYTES, 5);
	ah = host_group_ah(&p->h[0], PAIR_PD, false);
	attach(&here, 1, false);
	while (loop->n < TP_TX_MAX) {
		loop->pkts[loop->n] = rte_pktmbuf_alloc(pair_pool());
		assert_non_null(loop->pkts[loop->n]);
		loop->n++;
	}
	send_to_group(here.e[0], ah, data, QKEY);
	host_turn(&p->h[0]);
	assert_int_equal(loop->n, TP_TX_MAX);
	assert_int_equal(transport_counters(p->h[0].tp)->mcast_loop_dropped, 1);
	rte_pktmbuf_free_bulk(loop->pkts, loop->n);
	loop->n = 0;
	pair_settle(p);
	expect_cqe(&here.e[0]->scq, 1, UROCE_WC_SUCCESS);
	expect_no_cqe(&here.e[1]->rcq);
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	members_down(&here);
	pair_free(p);
}

static void
each_member_checks_its_own_keys(void **state)
{
	static const struct tp_port_config two = { .pkeys = { 0xffff, 0x8001 }, .features = TP_FEATURES_ALL };
	const uint32_t init = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY;
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1, .pkey_index = 1, .qkey = QKEY };
	struct pair *p = pair_new_cc(&two);
	const struct tp_counters *c = transport_counters(p->h[1].tp);
	struct members here, there;
	uint8_t data[BYTES];
	uint32_t ah;

	members_up(&here, &p->h[0]);
	members_up(&there, &p->h[1]);
	fill(data, BYTES, 5);
	ah = host_group_ah(&p->h[0], PAIR_PD, false);
	for (unsigned int i = 0; i < MEMBERS; i++)
		attach(&there, i, false);
	/* One in another partition, one with another Q_Key; the third is a good one. */
	assert_int_equal(end_state(there.e[0], UROCE_QPS_RESET), 0);
	assert_int_equal(qp_modify(p->h[1].tp, there.e[0]->qp, &a, init, NULL, p->now), 0);
	assert_int_equal(end_state(there.e[0], UROCE_QPS_RTR), 0);
	assert_int_equal(end_state(there.e[1], UROCE_QPS_RESET), 0);
	ud_to_rts(there.e[1], QKEY + 1);
	send_to_group(here.e[0], ah, data, QKEY);
	pair_settle(p);
	expect_no_cqe(&there.e[0]->rcq);
	expect_no_cqe(&there.e[1]->rcq);
	expect_message(&there, 2, here.e[0], data, false);
	assert_int_equal(c->rx_bad_pkey, 1);
	assert_int_equal(c->rx_bad_qkey, 1);
	/* And its state. */
	assert_int_equal(end_state(there.e[2], UROCE_QPS_RESET), 0);
	send_to_group(here.e[0], ah, data, QKEY);
	pair_settle(p);
	assert_int_equal(c->rx_wrong_state, 1);
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	members_down(&here);
	members_down(&there);
	pair_free(p);
}

/* ---- Several engines ---- */
static struct {
	struct transport *tp[2];
	uint32_t packets;
	uint64_t now;
} handed;

static void
hand_over(void *arg, unsigned int engine, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	/* A copy's destination QPN was written anew, so nobody must look at its ICRC. */
	assert_true(trusted);
	handed.packets++;
	m->port = port;
	assert_int_equal(transport_rx(handed.tp[engine], port, &m, 1, trusted, handed.now), 0);
}

static void
members_of_all_engines_get_copies(void **state)
{
	struct pair *p = pair_new();
	struct host engines[2] = { p->h[1], p->h[1] };
	struct members m[2], here;
	uint8_t data[BYTES];
	struct rte_mbuf *sent;
	uint32_t ah;

	handed.packets = 0;
	handed.now = p->now;
	for (unsigned int i = 0; i < 2; i++) {
		struct transport_config c = { .sh = p->h[1].sh, .nb_ports = 1, .engine = i,
					      .handoff = hand_over, .ports[0] = { .features = TP_FEATURES_ALL } };

		engines[i].tp = handed.tp[i] = transport_create(&c);
		assert_non_null(engines[i].tp);
		members_up(&m[i], &engines[i]);
	}
	members_up(&here, &p->h[0]);
	ah = host_group_ah(&p->h[0], PAIR_PD, true);
	fill(data, BYTES, 6);
	attach(&m[0], 0, true);
	attach(&m[1], 0, true);
	attach(&m[1], 2, true);
	send_to_group(here.e[0], ah, data, QKEY);
	p->stalled = true;
	pair_settle(p);
	assert_int_equal(transport_tx(p->h[0].tp, 0)->n, 1);
	transport_tx(p->h[0].tp, 0)->n = 0;
	sent = transport_tx(p->h[0].tp, 0)->pkts[0];
	/* Ethernet's padding behind it belongs to no copy. */
	memset(rte_pktmbuf_append(sent, 8), 0xee, 8);
	assert_int_equal(transport_rx(engines[0].tp, 0, &sent, 1, false, handed.now), 0);
	assert_int_equal(handed.packets, 2);
	expect_message(&m[0], 0, here.e[0], data, true);
	expect_message(&m[1], 0, here.e[0], data, true);
	expect_message(&m[1], 2, here.e[0], data, true);
	for (unsigned int i = 0; i < 2; i++) {
		expect_no_cqe(&m[i].e[1]->rcq);
		members_down(&m[i]);
		transport_destroy(engines[i].tp);
	}
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	members_down(&here);
	pair_free(p);
}

/* ---- Strangers ---- */
static void
packets_that_no_group_should_get_are_dropped(void **state)
{
	static const struct {
		uint8_t opcode;
		uint8_t dip;
		bool bad_icrc;
	} cases[] = {
		{ WIRE_UD | WIRE_OP_SEND_ONLY, 239, true },  /* damaged */
		{ WIRE_UD | WIRE_OP_SEND_ONLY, 198, false }, /* to a host, yet to the multicast QPN */
		{ WIRE_UD | WIRE_OP_SEND_ONLY, 238, false }, /* another group */
		{ WIRE_RC | WIRE_OP_SEND_ONLY, 239, false },
		{ WIRE_UC | WIRE_OP_WRITE_ONLY, 239, false },
		{ WIRE_OPCODE_CNP, 239, false },
	};
	struct pair *p = pair_new();
	const struct tp_counters *c = transport_counters(p->h[1].tp);
	struct members there;

	members_up(&there, &p->h[1]);
	attach(&there, 0, false);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct wire_opcode *op = &wire_opcodes[cases[i].opcode];
		struct wire_addr a = { .ip_version = 4, .ttl = 1, .sip = { 198, 18, 0, 9 },
				       .dip = { cases[i].dip, 18, 0, 1 } };
		struct wire_bth b = { .opcode = cases[i].opcode, .dqpn = WIRE_QPN_MULTICAST, .pkey = 0xffff };
		uint16_t l4 = (uint16_t)(op->hdr_bytes + 16 + WIRE_ICRC_BYTES);
		struct rte_mbuf *m = rte_pktmbuf_alloc(pair_pool());
		uint8_t *f = rte_pktmbuf_mtod(m, uint8_t *);
		struct wire_tmpl t;

		wire_tmpl_build(&t, &a);
		memset(f, 0, t.bth_off + l4);
		wire_tmpl_write(&t, f, l4, 0);
		wire_put_bth(f + t.bth_off, &b);
		if (op->flags & WIRE_F_DETH)
			wire_put_deth(f + t.bth_off + op->off_deth, QKEY, 9);
		wire_tmpl_seal(&t, f, l4);
		f[t.bth_off + l4 - 1] ^= cases[i].bad_icrc;
		m->data_len = (uint16_t)(t.bth_off + l4);
		m->pkt_len = m->data_len;
		assert_int_equal(transport_rx(p->h[1].tp, 0, &m, 1, false, p->now), 0);
		expect_no_cqe(&there.e[0]->rcq);
	}
	assert_int_equal(c->rx_icrc_encapsulated, 1);
	assert_int_equal(c->rx_mcast_no_group, 2);
	assert_int_equal(c->rx_wrong_service, 3);
	assert_int_equal(c->rx_mcast, 0);
	members_down(&there);
	pair_free(p);
}

/* A member that is gone without being detached is nobody, even if its place in the table has another QP. */
static void
number_of_a_destroyed_qp_is_nobody(void **state)
{
	struct pair *p = pair_new();
	struct members here, there;
	uint8_t data[BYTES];
	uint32_t ah;

	members_up(&here, &p->h[0]);
	members_up(&there, &p->h[1]);
	fill(data, BYTES, 7);
	ah = host_group_ah(&p->h[0], PAIR_PD, false);
	attach(&there, 0, false);
	attach(&there, 1, false);
	end_free(there.e[0]);
	send_to_group(here.e[0], ah, data, QKEY);
	pair_settle(p);
	expect_message(&there, 1, here.e[0], data, false);
	there.e[0] = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD });
	assert_int_equal(ah_destroy(p->h[0].sh.ahs, ah), 0);
	members_down(&here);
	members_down(&there);
	pair_free(p);
}

/* ---- The table ---- */
static void
table_has_its_limits_and_forgets_nothing(void **state)
{
	struct rte_rcu_qsbr *qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(rte_rcu_qsbr_get_memsize(1), 64));
	struct gid gid = { { 0xff, 0x0e } };
	struct mcast_table *t;
	uint32_t i;

	assert_int_equal(rte_rcu_qsbr_init(qsbr, 1), 0);
	rte_rcu_qsbr_thread_register(qsbr, 0);
	rte_rcu_qsbr_thread_online(qsbr, 0);
	t = mcast_table_create(qsbr);
	assert_non_null(t);
	for (i = 0; i < UROCE_MAX_MCAST_ATTACH; i++)
		assert_int_equal(mcast_attach(t, 0, &gid, 2 + i), 0);
	assert_int_equal(mcast_attach(t, 0, &gid, 9999), ENOMEM);
	assert_int_equal(mcast_attach(t, 0, &gid, 2), 0);
	assert_int_equal(mcast_table_attached(t), UROCE_MAX_MCAST_ATTACH);
	assert_int_equal(mcast_table_groups(t), 1);
	/* A place that is free again is used again. */
	assert_int_equal(mcast_detach(t, 0, &gid, 77), 0);
	assert_int_equal(mcast_detach(t, 0, &gid, 77), EINVAL);
	assert_int_equal(mcast_attach(t, 0, &gid, 9999), 0);
	for (i = 1; i < UROCE_MAX_MCAST_GROUPS; i++) {
		wire_put32(gid.raw + 12, i);
		assert_int_equal(mcast_attach(t, 0, &gid, 5), 0);
	}
	wire_put32(gid.raw + 12, i);
	assert_int_equal(mcast_attach(t, 0, &gid, 5), ENOMEM);
	assert_int_equal(mcast_detach(t, 0, &gid, 5), EINVAL);
	for (i = 1; i < UROCE_MAX_MCAST_GROUPS; i++) {
		wire_put32(gid.raw + 12, i);
		assert_int_equal(mcast_detach(t, 1, &gid, 5), EINVAL);
		assert_int_equal(mcast_detach(t, 0, &gid, 5), 0);
	}
	assert_int_equal(mcast_table_groups(t), 1);
	wire_put32(gid.raw + 12, 0);
	for (i = 0; i < UROCE_MAX_MCAST_ATTACH; i++)
		assert_int_equal(mcast_detach(t, 0, &gid, 2 + i), 2 + i == 77 ? EINVAL : 0);
	assert_int_equal(mcast_detach(t, 0, &gid, 9999), 0);
	assert_int_equal(mcast_table_groups(t), 0);
	assert_int_equal(mcast_table_attached(t), 0);
	rte_rcu_qsbr_quiescent(qsbr, 0);
	mcast_table_destroy(t);
	free(qsbr);
}

static void
groups_that_have_gone_take_no_memory(void **state)
{
	enum { ROUNDS = 1000, MEMBERS_OF_GROUP = 20, MOST = 16384 };
	struct rte_rcu_qsbr *qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(rte_rcu_qsbr_get_memsize(1), 64));
	struct gid gid = { { 0xff, 0x0e } };
	struct mcast_table *t;
	size_t before;

	assert_int_equal(rte_rcu_qsbr_init(qsbr, 1), 0);
	rte_rcu_qsbr_thread_register(qsbr, 0);
	rte_rcu_qsbr_thread_online(qsbr, 0);
	t = mcast_table_create(qsbr);
	assert_non_null(t);
	before = mallinfo2().uordblks;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		wire_put32(gid.raw + 12, i);
		/* A group that grows is replaced by a larger one. */
		for (uint32_t k = 0; k < MEMBERS_OF_GROUP; k++)
			assert_int_equal(mcast_attach(t, 0, &gid, 2 + k), 0);
		for (uint32_t k = 0; k < MEMBERS_OF_GROUP; k++)
			assert_int_equal(mcast_detach(t, 0, &gid, 2 + k), 0);
		rte_rcu_qsbr_quiescent(qsbr, 0);
	}
	assert_true(mallinfo2().uordblks < before + MOST);
	mcast_table_destroy(t);
	free(qsbr);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_attached_qp_gets_one_copy),
		cmocka_unit_test(members_on_the_senders_host_and_the_sender_itself_get_copies),
		cmocka_unit_test(without_room_in_loopback_members_on_the_senders_host_get_nothing),
		cmocka_unit_test(each_member_checks_its_own_keys),
		cmocka_unit_test(members_of_all_engines_get_copies),
		cmocka_unit_test(packets_that_no_group_should_get_are_dropped),
		cmocka_unit_test(number_of_a_destroyed_qp_is_nobody),
		cmocka_unit_test(table_has_its_limits_and_forgets_nothing),
		cmocka_unit_test(groups_that_have_gone_take_no_memory),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
