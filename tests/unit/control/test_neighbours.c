/* SPDX-License-Identifier: BSD-3-Clause */
/* A neighbour announces another MAC address: the QPs and AHs of programs follow. The neighbour's part is the test's. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "control/neighbours_priv.h"
#include "pair.h"
#include "transport/path/changes.h"

enum { PEER = 9, ARP_BYTES = 60, WAIT_MS = 10000, ROUNDS = 20 };

/** MAC address number @p nr of the peer. */
static void
peer_mac(uint8_t nr, uint8_t mac[6])
{
	memcpy(mac, (uint8_t[6]){ 2, 0, 0, 0, 9, nr }, 6);
}

/** A gratuitous ARP, or the answer to a request of the daemon's: it is one and the same, since the daemon looks at sender and target only. */
static void
announce(uint8_t nr)
{
	uint8_t arp[ARP_BYTES] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, [28] = 198, 18, 0, PEER, [38] = 198, 18, 0, PEER,
	};

	peer_mac(nr, arp + 6);
	peer_mac(nr, arp + 22);
	daemon_wire_put(arp, sizeof(arp));
}

/** @return the type of what the daemon sends next; its destination in @p mac. */
static uint16_t
sent(uint8_t mac[6])
{
	struct rte_mbuf *m = daemon_wire_take(WAIT_MS);
	uint16_t type;

	assert_non_null(m);
	memcpy(mac, rte_pktmbuf_mtod(m, uint8_t *), 6);
	type = wire_get16(rte_pktmbuf_mtod(m, uint8_t *) + 12);
	rte_pktmbuf_free(m);
	return type;
}

/** Send what waits for the peer's MAC address; it has number @p nr. */
static void
ask(struct pair *t, const struct ctl_req *q, struct ctl_rsp *r, uint8_t nr)
{
	struct pollfd fd = { .fd = t->p.sock, .events = POLLIN };
	uint8_t mac[6];

	assert_int_equal(peer_send(t->p.sock, q, sizeof(*q), NULL, 0), 0);
	if (poll(&fd, 1, 20) == 0) {
		assert_int_equal(sent(mac), WIRE_ETHERTYPE_ARP);
		announce(nr);
	}
	assert_true(peer_recv(t->p.sock, r, NULL, 0));
	if (r->status != 0)
		fail_msg("%s", r->message);
}

/** QP 0 is connected to the peer, which doesn't answer: it sends again all the time. */
static void
connect(struct pair *t, uint8_t nr)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct uroce_qp_attr rts = { .qp_state = UROCE_QPS_RTS, .sq_psn = 100, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };
	struct ctl_rsp r;

	pair_init_qp(t, 0);
	q.qp_modify.handle = t->end[0].qp.handle;
	q.qp_modify.mask = PAIR_RTR_MASK;
	q.qp_modify.attr = pair_rtr_attr(t, 0, PEER);
	ask(t, &q, &r, nr);
	assert_int_equal(pair_modify(t, 0, UROCE_QP_STATE | UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY |
					       UROCE_QP_MAX_QP_RD_ATOMIC, &rts, &r), 0);
}

static void
open_pair(struct pair *t)
{
	memset(t, 0, sizeof(*t));
	peer_open(&t->p);
	pair_queues(t);
	pair_memory(t, CTL_SEG_CONVERTED);
}

static uint64_t
followed(void)
{
	uint64_t n;

	control_lock(daemon_control());
	n = daemon_control()->ports[0].followed;
	control_unlock(daemon_control());
	return n;
}

/** Wait until RoCE packets go to MAC address @p nr. */
static void
wait_sent_to(uint8_t nr)
{
	uint8_t wanted[6], mac[6];

	peer_mac(nr, wanted);
	for (unsigned int i = 0; sent(mac) != WIRE_ETHERTYPE_IPV4 || memcmp(mac, wanted, 6) != 0; i++)
		assert_in_range(i, 0, 1000);
}

static void
a_qp_follows_while_it_sends(void **state)
{
	uint64_t before = followed();
	struct pair t;

	open_pair(&t);
	connect(&t, 1);
	pair_post(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, 100, t.mem + PAIR_BYTES);
	wait_sent_to(1);
	announce(1); /* nothing new */
	announce(2);
	wait_sent_to(2);
	assert_int_equal(followed(), before + 1);
	announce(3);
	wait_sent_to(3);
	assert_int_equal(followed(), before + 2);
	pair_close(&t);
}

static void
an_ah_follows(void **state)
{
	struct ctl_req q = peer_req(CTL_AH_CREATE);
	struct tp_path path;
	struct ctl_rsp r;
	uint64_t before;
	uint8_t mac[6];
	struct pair t;

	open_pair(&t);
	q.ah_create.pd = t.pd;
	q.ah_create.attr = (struct uroce_ah_attr){ .dgid = { [10] = 0xff, 0xff, 198, 18, 0, PEER }, .sgid_index = 1, .hop_limit = 64, .is_global = 1,
						   .port_num = 1 };
	ask(&t, &q, &r, 1);
	announce(1);
	before = followed();
	announce(7);
	for (unsigned int i = 0; followed() == before; i++) {
		assert_in_range(i, 0, WAIT_MS);
		rte_delay_us_sleep(1000);
	}
	peer_mac(7, mac);
	control_lock(daemon_control());
	assert_true(ah_path(daemon_control()->s.sh.ahs, r.handle.handle, &path));
	control_unlock(daemon_control());
	assert_memory_equal(path.addr.dmac, mac, 6);
	pair_close(&t);
}

/* Somebody announces new addresses all the time: engines look through their QPs now and then, not each time. */
static void
a_flood_of_announcements_is_followed_now_and_then(void **state)
{
	uint64_t before, began;
	struct pair t;

	open_pair(&t);
	connect(&t, 1);
	before = followed();
	began = control_now_ns();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		announce((uint8_t)(10 + i));
		rte_delay_us_sleep(2000);
	}
	pair_post(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, 100, t.mem + PAIR_BYTES);
	wait_sent_to(10 + ROUNDS - 1);
	assert_in_range(followed() - before, 1, 2 + (control_now_ns() - began) / (NEIGHBOURS_FOLLOW_MS * UINT64_C(1000000)));
	pair_close(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qp_follows_while_it_sends),
		cmocka_unit_test(an_ah_follows),
		cmocka_unit_test(a_flood_of_announcements_is_followed_now_and_then),
	};

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
