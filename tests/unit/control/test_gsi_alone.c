/* SPDX-License-Identifier: BSD-3-Clause */
/* The GSI by itself, with a port and an engine that turns when the test says so: MADs to ourselves, to neighbours, and those that can't go. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "control/cma/gsi_priv.h"
#include "control/core/control_priv.h"
#include "daemon.h"

struct alone {
	struct uroced_config conf;
	struct rte_ring *in, *out;
	struct mr_table *mrs;
	struct qp_table *qps;
	struct net_port *port;
	struct engine *engine;
	struct control control;
	struct gsi *gsi;
};

static void
send_packet(void *arg, struct net_port *p, struct rte_mbuf *m)
{
	struct alone *a = arg;

	engine_send(a->engine, p->index, m);
}

static void
alone_up(struct alone *a)
{
	static unsigned int number;
	char ethdev[48], name[16];
	const char *sets[] = { ethdev, "port uroce0.addresses=198.18.0.1/24" };
	struct engine_config ec = { .nb_engines = 1, .idle = ENGINE_IDLE_POLL, .ports = &a->port, .nb_ports = 1 };
	char err[CONFIG_ERR_BYTES];

	memset(a, 0, sizeof(*a));
	snprintf(name, sizeof(name), "alone%u", number++);
	snprintf(ethdev, sizeof(ethdev), "port uroce0.ethdev=net_ring_%s", name);
	a->in = rte_ring_create("in", 256, SOCKET_ID_ANY, 0);
	a->out = rte_ring_create("out", 256, SOCKET_ID_ANY, 0);
	assert_true(rte_eth_from_rings(name, &a->in, 1, &a->out, 1, 0) >= 0);
	assert_int_equal(config_load(NULL, sets, 2, &a->conf, err), 0);
	ec.sh.pool = daemon_pool();
	a->port = net_port_open(&a->conf.ports[0].net, 0, 1, &ec.sh, err, sizeof(err));
	if (a->port == NULL)
		fail_msg("%s", err);
	ec.sh.mrs = a->mrs = mr_table_create(4, NULL, 0);
	ec.sh.qps = a->qps = qp_table_create(4, NULL, 0);
	a->engine = engine_create(&ec);
	assert_non_null(a->engine);
	net_port_set_sender(a->port, send_packet, a, daemon_pool());
	a->control.s = (struct control_setup){ .conf = &a->conf, .engines = &a->engine, .nb_engines = 1,
					       .ports = &a->port, .nb_ports = 1, .sh = ec.sh };
	a->gsi = gsi_open(&a->control);
	assert_non_null(a->gsi);
}

static void
alone_down(struct alone *a)
{
	void *m;

	gsi_close(a->gsi);
	net_port_set_sender(a->port, NULL, NULL, NULL);
	engine_destroy(a->engine);
	net_port_close(a->port);
	while (rte_ring_dequeue(a->out, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(a->in);
	rte_ring_free(a->out);
	qp_table_destroy(a->qps);
	mr_table_destroy(a->mrs);
}

static struct cm_connect_param
connect_to(uint8_t last_byte)
{
	return (struct cm_connect_param){
		.av = { .local_gid = { { [10] = 0xff, 0xff, 198, 18, 0, 1 } },
			 .remote_gid = { { [10] = 0xff, 0xff, 198, 18, 0, last_byte } },
			 .pkey = 0xffff,
			 .flow_label = 0x12345,
			 .hop_limit = 9,
			 .traffic_class = 0x20 },
		.service_id = 0x1122334455, /* not the RDMA CM's, whose private data begins with addresses */
		.qpn = 0x55,
		.path_mtu = 3,
		.packet_life = 14,
		.remote_response_timeout = 14,
		.local_response_timeout = 14,
		.max_cm_retries = 3,
	};
}

static void
mads_to_ourselves_take_no_wire(void **state)
{
	const struct cm_connect_param param = connect_to(1);
	const struct cm_counters *cm;
	struct cm_usage usage;
	struct alone a;
	uint64_t now;

	alone_up(&a);
	cm = cm_counters(gsi_cm(a.gsi));
	assert_non_null(cm_connect(gsi_cm(a.gsi), &param, control_now_ns()));
	assert_int_equal(gsi_counters(a.gsi)->loop_mads, 1);
	/* The REQ is to be taken now, and so is its REJ. */
	assert_int_equal(cm->rx_mads, 0);
	now = control_now_ns();
	assert_true(gsi_run(a.gsi, now) == now);
	assert_int_equal(cm->rx_mads, 1);
	assert_true(gsi_run(a.gsi, now) > now);
	assert_int_equal(cm->rx_mads, 2);
	assert_int_equal(cm->rej_no_listener, 1);
	assert_int_equal(gsi_counters(a.gsi)->loop_mads, 2);
	assert_int_equal(gsi_counters(a.gsi)->tx_mads, 0);
	/* Nobody owned the connection, so it is gone. */
	cm_usage(gsi_cm(a.gsi), &usage);
	assert_int_equal(usage.half_open, 0);
	engine_turn(a.engine);
	assert_true(rte_ring_empty(a.out));
	alone_down(&a);
}

static struct rte_mbuf *
sent(struct alone *a)
{
	void *m;

	engine_turn(a->engine);
	return rte_ring_dequeue(a->out, &m) == 0 ? m : NULL;
}

static void
mad_waits_for_its_neighbour(void **state)
{
	const struct net_learned answer = { .mac = { 2, 7, 7, 7, 7, 7 },
					    .gid = { { [10] = 0xff, 0xff, 198, 18, 0, 2 } } };
	const struct cm_connect_param param = connect_to(2);
	uint64_t now = control_now_ns();
	struct rte_mbuf *m;
	struct wire_pkt p;
	struct alone a;

	alone_up(&a);
	assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	m = sent(&a);
	assert_non_null(m);
	assert_int_equal(wire_get16(rte_pktmbuf_mtod(m, uint8_t *) + 12), WIRE_ETHERTYPE_ARP);
	rte_pktmbuf_free(m);
	assert_null(sent(&a));
	assert_int_equal(gsi_counters(a.gsi)->tx_mads, 0);
	net_learn(a.port, &answer, now + 1000);
	m = sent(&a);
	assert_non_null(m);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, &p), WIRE_OK);
	assert_memory_equal(p.l2, answer.mac, 6);
	assert_int_equal(p.l3[1], 0x20);
	assert_int_equal(p.l3[8], 9);
	assert_int_equal(p.sport, wire_flow_label_to_sport(0x12345));
	rte_pktmbuf_free(m);
	assert_int_equal(gsi_counters(a.gsi)->tx_mads, 1);
	/* The CM's timer sends it again, now without asking. */
	for (unsigned int i = 0; gsi_counters(a.gsi)->tx_mads < 2; i++) {
		now = gsi_run(a.gsi, now);
		assert_true(now < UINT64_MAX && i < 100);
	}
	m = sent(&a);
	assert_non_null(m);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, &p), WIRE_OK);
	assert_int_equal(cm_counters(gsi_cm(a.gsi))->retransmissions, 1);
	rte_pktmbuf_free(m);
	alone_down(&a);
}

static void
mads_that_cannot_go_are_counted(void **state)
{
	struct cm_connect_param param = connect_to(3);
	const uint64_t now = control_now_ns();
	const struct gsi_counters *g;
	uint64_t t = now;
	struct alone a;
	uint32_t i;

	alone_up(&a);
	g = gsi_counters(a.gsi);
	/* Nobody answers ARP. */
	assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	for (i = 0; i < 2 * NET_RESOLVE_TRIES; i++)
		net_port_poll(a.port, t += (uint64_t)NET_RESOLVE_INTERVAL_MS * 1000000);
	assert_int_equal(g->tx_unreachable, 1);
	/* No route. */
	param.av.remote_gid.raw[12] = 10;
	param.qpn++;
	assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	assert_int_equal(g->tx_unreachable, 2);
	/* Not the port's address, not a port. */
	param.av.local_gid.raw[15] = 9;
	param.qpn++;
	assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	param = connect_to(3);
	param.av.port = 1;
	param.qpn = 0x99;
	assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	assert_int_equal(g->tx_no_address, 2);
	/* Too many for one neighbour that doesn't answer. */
	param.av.port = 0;
	for (i = 0; i < GSI_MAX_WAITING + 3; i++) {
		param.qpn++;
		assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	}
	assert_int_equal(g->tx_waiting, 3);
	/* Too many to ourselves. */
	param = connect_to(1);
	for (i = 0; i < GSI_MAX_LOOP + 5; i++) {
		param.qpn = 0x1000 + i;
		assert_non_null(cm_connect(gsi_cm(a.gsi), &param, now));
	}
	assert_int_equal(g->loop_full, 5);
	alone_down(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mads_to_ourselves_take_no_wire),
		cmocka_unit_test(mad_waits_for_its_neighbour),
		cmocka_unit_test(mads_that_cannot_go_are_counted),
	};

	return DAEMON_TESTS(tests, 8, 64, NULL);
}
