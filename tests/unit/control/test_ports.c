/* SPDX-License-Identifier: BSD-3-Clause */
/* What a driver reports about a port reaches its programs, and the port goes on with its QPs. The driver's part is the test's. */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "control/core/session_priv.h"
#include "daemon.h"

/* What drivers call (ethdev_driver.h, which isn't installed). */
struct rte_eth_dev *rte_eth_dev_allocated(const char *name);
int rte_eth_dev_callback_process(struct rte_eth_dev *dev, enum rte_eth_event_type event, void *ret_param);

enum { EVENT_MS = 10000, NOTHING_MS = 100, ARP_BYTES = 60, CYCLES = 5 };

static struct peer program;

static void
report(enum rte_eth_event_type type)
{
	rte_eth_dev_callback_process(rte_eth_dev_allocated(daemon_control()->s.ports[0]->conf.ethdev), type, NULL);
}

/** The kernel wants the device: what vfio's request for it becomes in EAL. */
static void
ask_for_device(void)
{
	struct rte_eth_dev_info info;

	assert_int_equal(rte_eth_dev_info_get(daemon_control()->s.ports[0]->port_id, &info), 0);
	rte_dev_event_callback_process(rte_dev_name(info.device), RTE_DEV_EVENT_REMOVE);
}

/** @return the next event of the program; 0: none. */
static uint32_t
next_event(int timeout_ms)
{
	struct pollfd fd = { .fd = program.async_fd, .events = POLLIN };
	struct ctl_async_event ev;

	if (poll(&fd, 1, timeout_ms) != 1)
		return 0;
	assert_int_equal(read(fd.fd, &ev, sizeof(ev)), sizeof(ev));
	return ev.type;
}

/** Somebody asks for the daemon's MAC address. @return whether it answers. */
static bool
answers(unsigned int timeout_ms)
{
	static const uint8_t arp[ARP_BYTES] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1,
		2, 0, 0, 0, 0, 9, 198, 18, 0, 9, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1,
	};
	struct rte_mbuf *m;

	daemon_wire_put(arp, sizeof(arp));
	m = daemon_wire_take(timeout_ms);
	rte_pktmbuf_free(m);
	return m != NULL;
}

static uint32_t
port_state(void)
{
	struct ctl_req q = peer_req(CTL_PORT_QUERY);
	struct ctl_rsp r;

	peer_must(program.sock, &q, &r, NULL);
	return r.port_query.state;
}

static void
a_device_that_asks_for_a_reset_is_restarted_and_its_qps_stay(void **state)
{
	const struct port_track *t = &daemon_control()->ports[0].track;
	uint32_t qps = daemon_counts().qps;

	peer_open(&program);
	peer_new_qp(&program, UROCE_QPT_RC);
	assert_true(answers(EVENT_MS));
	for (unsigned int i = 1; i <= 5; i++) {
		report(RTE_ETH_EVENT_INTR_RESET);
		assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ERR);
		assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ACTIVE);
		assert_int_equal(t->restarts, i);
		assert_int_equal(daemon_counts().qps, qps + 1);
		assert_true(answers(EVENT_MS));
	}
	assert_int_equal(next_event(NOTHING_MS), 0);
}

static void
a_device_that_recovers_is_not_touched_meanwhile(void **state)
{
	struct rte_mbuf *m;

	report(RTE_ETH_EVENT_ERR_RECOVERING);
	assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ERR);
	assert_int_equal(port_state(), 1);
	assert_false(answers(NOTHING_MS));
	report(RTE_ETH_EVENT_RECOVERY_SUCCESS);
	assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ACTIVE);
	assert_int_equal(port_state(), 4);
	/* The one that waited, and one more. */
	m = daemon_wire_take(EVENT_MS);
	assert_non_null(m);
	rte_pktmbuf_free(m);
	assert_true(answers(EVENT_MS));
}

static void
a_link_that_goes_and_comes_is_told(void **state)
{
	const uint16_t id = daemon_control()->s.ports[0]->port_id;

	/* net_ring's link is up when it is told so. */
	assert_int_equal(rte_eth_dev_set_link_down(id), 0);
	report(RTE_ETH_EVENT_INTR_LSC);
	assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ERR);
	assert_int_equal(port_state(), 1);
	assert_int_equal(rte_eth_dev_set_link_up(id), 0);
	report(RTE_ETH_EVENT_INTR_LSC);
	assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ACTIVE);
	assert_int_equal(port_state(), 4);
}

static bool
wait_state(enum port_state state)
{
	for (unsigned int i = 0; i < EVENT_MS; i++) {
		bool there;

		control_lock(daemon_control());
		there = daemon_control()->ports[0].track.state == state;
		control_unlock(daemon_control());
		if (there)
			return true;
		usleep(1000);
	}
	return false;
}

static int
try_open(void)
{
	struct ctl_req q = peer_req(CTL_DEVICE_OPEN);
	int sock = peer_connect(), rc;
	struct ctl_rsp r;

	assert_int_equal(peer_hello(sock), 0);
	rc = peer_call(sock, &q, NULL, 0, &r, NULL, 0);
	close(sock);
	return rc;
}

static void
what_happens_to_another_device_is_nothing_to_a_port(void **state)
{
	struct rte_eth_dev_info info;

	assert_int_equal(rte_eth_dev_info_get(daemon_control()->s.ports[0]->port_id, &info), 0);
	rte_dev_event_callback_process("0000:07:00.0", RTE_DEV_EVENT_REMOVE);
	rte_dev_event_callback_process(rte_dev_name(info.device), RTE_DEV_EVENT_ADD);
	assert_int_equal(next_event(NOTHING_MS), 0);
	assert_true(answers(EVENT_MS));
}

static void
a_removed_device_is_fatal_and_left_alone(void **state)
{
	struct ctl_req q = peer_req(CTL_AH_CREATE);
	struct ctl_rsp r;

	report(RTE_ETH_EVENT_INTR_RMV);
	assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ERR);
	assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_DEVICE_FATAL);
	assert_int_equal(port_state(), 1);
	assert_false(answers(NOTHING_MS));
	assert_int_equal(next_event(NOTHING_MS), 0);
	/* What it has it may only destroy. */
	assert_int_equal(peer_call(program.sock, &q, NULL, 0, &r, NULL, 0), EIO);
	assert_int_equal(peer_try_qp(&program, UROCE_QPT_RC, 1, 1, 1, 1, 0), EIO);
	assert_int_equal(try_open(), ENODEV);
	assert_true(wait_state(PORT_GONE));
}

static void
post(void *sem)
{
	sem_post(sem);
}

/** Waits until the device that went is closed and has left its bus: then its name can be had again. */
static void
wait_removed(void)
{
	sem_t turn;

	while (rte_eth_dev_allocated("net_ring_wire") != NULL)
		usleep(1000);
	/* Its bus forgets it later, in the same callback of EAL's interrupt thread. What is called after that one finds it gone. */
	assert_int_equal(sem_init(&turn, 0, 0), 0);
	assert_int_equal(rte_eal_alarm_set(1, post, &turn), 0);
	while (sem_wait(&turn) != 0)
		;
	sem_destroy(&turn);
}

static void
the_same_device_that_comes_back_is_used_again(void **state)
{
	struct peer old = program;
	struct daemon_counts before = { 0 };
	const char *gids[] = { "198.18.0.1", "fd00:18::1" };
	char text[GID_TEXT_BYTES];

	for (unsigned int i = 0; i < CYCLES; i++) {
		wait_removed();
		if (i == 1)
			before = daemon_counts();
		daemon_wire_again();
		assert_true(wait_state(PORT_UP));
		peer_open(&program);
		assert_int_equal(port_state(), 4);
		assert_true(answers(EVENT_MS));
		for (unsigned int k = 0; k < 2; k++)
			assert_string_equal(gid_text(net_gid(daemon_control()->s.ports[0], k + 1), text), gids[k]);
		assert_int_equal(daemon_control()->ports[0].track.returns, i + 1);
		peer_new_qp(&program, UROCE_QPT_RC);
		/* Whoever had the old device hasn't got the new one. */
		if (i == 0) {
			struct peer now = program;

			program = old;
			assert_int_equal(port_state(), 1);
			assert_int_equal(next_event(NOTHING_MS), 0);
			peer_close(&program);
			program = now;
		}
		/* Drivers report it, or the device's bus. */
		if (i % 2 == 0)
			ask_for_device();
		else
			report(RTE_ETH_EVENT_INTR_RMV);
		assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_PORT_ERR);
		assert_int_equal(next_event(EVENT_MS), UROCE_EVENT_DEVICE_FATAL);
		peer_close(&program);
		assert_true(daemon_wait_empty());
	}
	wait_removed();
	assert_int_equal(daemon_counts().fds, before.fds);
	assert_int_equal(daemon_counts().qps, before.qps);
	daemon_wire_again();
	assert_true(wait_state(PORT_UP));
	daemon_assert_well();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_asks_for_a_reset_is_restarted_and_its_qps_stay),
		cmocka_unit_test(a_device_that_recovers_is_not_touched_meanwhile),
		cmocka_unit_test(a_link_that_goes_and_comes_is_told),
		cmocka_unit_test(what_happens_to_another_device_is_nothing_to_a_port),
		cmocka_unit_test(a_removed_device_is_fatal_and_left_alone),
		cmocka_unit_test(the_same_device_that_comes_back_is_used_again),
	};

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
