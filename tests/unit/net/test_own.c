/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two ports of their own, joined by memif: opening, resolving each other, closing. Needs no privileges. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "util.h"

enum { BURST = 32 };

static struct {
	struct rte_mempool *pool;
	struct net_port_config conf[2];
	struct net_port *port[2];
	struct net_counters counters[2];
	int device_says; /* to another MTU */
	uint16_t device_mtu;
	bool filters;  /* the device has a filter */
	bool lets[NET_VLAN_MAX + 1]; /* VLANs that it lets through */
	unsigned int lists, groups;  /* of MAC addresses that it was given; in the last one */
	bool promiscuous;
} t;

static void
transmit(struct net_port *p, struct rte_mbuf *m)
{
	if (rte_eth_tx_burst(p->port_id, 0, &m, 1) != 1)
		rte_pktmbuf_free(m);
}

/** What an engine does with it. */
static void
send_by_engine(void *arg, struct net_port *p, struct rte_mbuf *m)
{
	transmit(p, m);
}

/** A turn of the engine and the control thread of port @p i. */
static void
turn(unsigned int i)
{
	struct rte_mbuf *m[BURST];
	struct net_learned learned;
	bool has_learned;
	uint16_t k, n = rte_eth_rx_burst(t.port[i]->port_id, 0, m, BURST);

	for (k = 0; k < n; k++) {
		if (net_rx(t.port[i], m[k], &t.counters[i], &learned, &has_learned) == NET_REPLY)
			transmit(t.port[i], m[k]);
		else
			rte_pktmbuf_free(m[k]);
		if (has_learned)
			net_learn(t.port[i], &learned, now_ns());
	}
	net_port_poll(t.port[i], now_ns());
}

static void
expect_refusal(unsigned int i, const struct net_port_config *conf, uint16_t nb_queues, const char *says)
{
	char err[512] = "";

	assert_null(net_port_open(conf, 0, nb_queues, &(struct shared){ .pool = t.pool }, err, sizeof(err)));
	if (strstr(err, conf->name) == NULL || strstr(err, says) == NULL)
		fail_msg("message is \"%s\", should say \"%s\"", err, says);
}

static void
mistakes_are_explained(void **state)
{
	struct net_port_config c = t.conf[0];

	strcpy(c.ethdev, "net_memif7");
	expect_refusal(0, &c, 1, "there is no ethdev net_memif7; there are: net_memif0, net_memif1");
	c = t.conf[0];
	c.vlan_id = 4095;
	expect_refusal(0, &c, 1, "vlan is 4095; it must be 1 to 4094");
	c = t.conf[0];
	c.mtu = 300;
	expect_refusal(0, &c, 1, "mtu is 300; RoCE v2 needs at least 352");
	c = t.conf[0];
	c.addrs[1] = c.addrs[0];
	expect_refusal(0, &c, 1, "address 198.18.0.1 stands twice");
	c.addrs[1].vlan = 5;
	expect_refusal(0, &c, 1, "address 198.18.0.1 stands twice");
	c = t.conf[0];
	c.addrs[1].gid = gid_link_local((const uint8_t[6]){ 2, 0, 0, 0, 0, 1 });
	c.addrs[1].vlan = 5;
	expect_refusal(0, &c, 1, "is GID 0, whose VLAN is the port's: leave it out");
}

static void
ports_open_and_connect(void **state)
{
	uint64_t end = now_ns() + 10 * SECOND_NS;
	char err[512] = "";

	for (unsigned int i = 0; i < 2; i++) {
		t.port[i] = net_port_open(&t.conf[i], (uint16_t)i, 1, &(struct shared){ .pool = t.pool }, err, sizeof(err));
		if (t.port[i] == NULL)
			fail_msg("%s", err);
		net_port_set_sender(t.port[i], send_by_engine, NULL, t.pool);
	}
	while ((!net_port_link(t.port[0], NULL) || !net_port_link(t.port[1], NULL)) && now_ns() < end)
		usleep(1000);
	assert_true(net_port_link(t.port[0], NULL) && net_port_link(t.port[1], NULL));
	assert_false(t.port[0]->shared);
	assert_int_equal(t.port[0]->active_mtu, UROCE_MTU_4096);
	assert_int_equal(t.port[0]->conf.pkeys[0], 0xffff);
	assert_true(gid_is_link_local(net_gid(t.port[0], 0)));
	assert_memory_equal(net_gid(t.port[0], 1), &t.conf[0].addrs[0].gid, 16);
	assert_memory_equal(net_gid(t.port[0], 2), &t.conf[0].addrs[1].gid, 16);
}

static void
ports_resolve_each_other(void **state)
{
	uint8_t mac[6];

	for (unsigned int sgid = 0; sgid < 3; sgid++) { /* link-local, IPv4, IPv6 */
		struct outcome o = { 0 };
		uint64_t end = now_ns() + 2 * SECOND_NS;

		assert_int_equal(net_resolve(t.port[0], sgid, net_gid(t.port[1], sgid), now_ns(), mac, done, &o),
				 EINPROGRESS);
		while (o.calls == 0 && now_ns() < end) {
			turn(1);
			turn(0);
		}
		assert_int_equal(o.calls, 1);
		assert_int_equal(o.status, 0);
		assert_memory_equal(o.mac, t.port[1]->mac, 6);
	}
	assert_int_equal(t.counters[1].tx_arp_reply, 1);
	assert_int_equal(t.counters[1].tx_nd_advert, 2);
	assert_int_equal(t.counters[0].rx_malformed + t.counters[1].rx_malformed, 0);
}

/** Configure the addresses that port 0 has had from the beginning, and two more; NULL: no more. @return errno value. */
static int
configure(const char *third, const char *fourth, uint32_t busy, char *err, size_t err_bytes)
{
	struct net_addr addrs[4] = { t.conf[0].addrs[0], t.conf[0].addrs[1] };
	struct net_gid_change change;
	unsigned int nb = 2;

	if (third != NULL)
		assert_int_equal(net_addr_parse(third, &addrs[nb++], err, err_bytes), 0);
	if (fourth != NULL)
		assert_int_equal(net_addr_parse(fourth, &addrs[nb++], err, err_bytes), 0);
	return net_port_addrs_configure(t.port[0], addrs, nb, busy, &change, err, err_bytes);
}

static void
refuse_addresses(const char *third, uint32_t busy, const char *says)
{
	struct net_gids *before = t.port[0]->gids;
	char err[512] = "";

	assert_int_equal(configure(third, NULL, busy, err, sizeof(err)), EINVAL);
	if (strstr(err, says) == NULL)
		fail_msg("message is \"%s\", should say \"%s\"", err, says);
	assert_ptr_equal(t.port[0]->gids, before);
}

static void
addresses_of_vlans_come_and_go_but_stay_in_their_vlan(void **state)
{
	char err[512] = "";

	assert_int_equal(configure("198.18.5.1/24@5", "fd00:5::1/64@5", 0, err, sizeof(err)), 0);
	assert_int_equal(net_addr(t.port[0], 0)->vlan, 0);
	assert_int_equal(net_addr(t.port[0], 1)->vlan, 0);
	assert_int_equal(net_addr(t.port[0], 3)->vlan, 5);
	assert_int_equal(net_addr(t.port[0], 4)->vlan, 5);
	refuse_addresses("198.18.5.1/24@6", 0, "198.18.5.1 is in VLAN 5; to have it in VLAN 6, remove it, reload, add it and reload again");
	refuse_addresses("198.18.5.1/24", 0, "198.18.5.1 is in VLAN 5; to have it untagged,");
	assert_int_equal(configure("198.18.5.1/24@5", NULL, 0, err, sizeof(err)), 0);
	assert_null(net_addr(t.port[0], 4));
	assert_int_equal(configure(NULL, NULL, 1 << 3, err, sizeof(err)), 0);
	assert_null(net_addr(t.port[0], 3));
	/* It may return elsewhere when nothing is left that sends in its old VLAN. */
	refuse_addresses("198.18.5.1/24@6", 1 << 3, "198.18.5.1 can't be in VLAN 6 yet: there are QPs or AHs that were made when it was in VLAN 5");
	assert_int_equal(configure("198.18.5.1/24@6", NULL, 0, err, sizeof(err)), 0);
	assert_int_equal(net_addr(t.port[0], 3)->vlan, 6);
	assert_int_equal(configure(NULL, NULL, 0, err, sizeof(err)), 0);
}

static void
largest_roce_frame_passes_in_one_piece(void **state)
{
	const uint16_t bytes = 4096 + NET_ROCE_OVERHEAD_BYTES + NET_ETH_VLAN_BYTES;
	uint64_t end = now_ns() + SECOND_NS;
	struct rte_mbuf *m = rte_pktmbuf_alloc(t.pool);
	uint16_t n = 0;
	char *p;

	assert_non_null(m);
	assert_true(bytes <= t.port[0]->max_frame);
	p = rte_pktmbuf_append(m, bytes);
	assert_non_null(p);
	memset(p, 0x5a, bytes);
	assert_int_equal(rte_eth_tx_burst(t.port[0]->port_id, 0, &m, 1), 1);
	while (n == 0 && now_ns() < end)
		n = rte_eth_rx_burst(t.port[1]->port_id, 0, &m, 1);
	assert_int_equal(n, 1);
	assert_int_equal(m->nb_segs, 1);
	assert_int_equal(rte_pktmbuf_data_len(m), bytes);
	rte_pktmbuf_free(m);
}

/* What fits an mbuf of the pool, which is smaller than bsize. */
enum { MOST = WIRE_MAX_FRAME_BYTES - NET_ETH_VLAN_BYTES };

static void
expect_mtu(uint16_t mtu, uint32_t ip_mtu, uint32_t active_mtu)
{
	char err[512] = "";

	if (net_port_mtu_configure(t.port[0], mtu, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	assert_int_equal(t.port[0]->conf.mtu, mtu);
	assert_int_equal(t.port[0]->ip_mtu, ip_mtu);
	assert_int_equal(t.port[0]->active_mtu, active_mtu);
}

static void
refuse_mtu(uint16_t mtu, int rc, const char *says)
{
	struct net_port before = *t.port[0];
	char err[512] = "";

	assert_int_equal(net_port_mtu_configure(t.port[0], mtu, err, sizeof(err)), rc);
	if (strstr(err, says) == NULL)
		fail_msg("message is \"%s\", should say \"%s\"", err, says);
	assert_memory_equal(&before, t.port[0], sizeof(before));
}

static void
mtu_changes_while_the_port_runs(void **state)
{

	assert_int_equal(t.port[0]->ip_mtu, MOST);
	expect_mtu(1500, 1500, UROCE_MTU_1024);
	expect_mtu(4192, 4192, UROCE_MTU_4096);
	expect_mtu(4191, 4191, UROCE_MTU_2048);
	expect_mtu(9000, MOST, UROCE_MTU_4096);
	expect_mtu(352, 352, UROCE_MTU_256);
	expect_mtu(0, MOST, UROCE_MTU_4096);
	refuse_mtu(351, EINVAL, "mtu is 351; RoCE v2 needs at least 352");
	/* The kernel's interfaces are those of shared ports. */
	assert_false(net_port_mtu_follow(t.port[0]));
	assert_int_equal(net_port_kernel_mtu(t.port[0]), 0);
	assert_null(net_port_mtu_lacks(t.port[0]));
	atomic_store(&t.port[0]->restarting, true);
	refuse_mtu(1500, EBUSY, "it is being started: reload again when its link is up");
	atomic_store(&t.port[0]->restarting, false);
}

/* What a driver says, in its place. */
int __wrap_rte_eth_dev_set_mtu(uint16_t port_id, uint16_t mtu);

int
__wrap_rte_eth_dev_set_mtu(uint16_t port_id, uint16_t mtu)
{
	assert_int_equal(port_id, t.port[0]->port_id);
	t.device_mtu = mtu;
	return t.device_says;
}

/* ---- The filters of a NIC ---- */
int __real_rte_eth_dev_set_mc_addr_list(uint16_t port_id, struct rte_ether_addr *macs, uint32_t nb);
int __wrap_rte_eth_dev_set_mc_addr_list(uint16_t port_id, struct rte_ether_addr *macs, uint32_t nb);
int __wrap_rte_eth_dev_vlan_filter(uint16_t port_id, uint16_t vlan, int on);
int __real_rte_eth_promiscuous_enable(uint16_t port_id);
int __wrap_rte_eth_promiscuous_enable(uint16_t port_id);

int
__wrap_rte_eth_dev_set_mc_addr_list(uint16_t port_id, struct rte_ether_addr *macs, uint32_t nb)
{
	if (!t.filters)
		return __real_rte_eth_dev_set_mc_addr_list(port_id, macs, nb);
	t.lists++;
	t.groups = nb;
	return 0;
}

int
__wrap_rte_eth_dev_vlan_filter(uint16_t port_id, uint16_t vlan, int on)
{
	assert_true(t.filters);
	assert_int_not_equal(t.lets[vlan], on);
	if (t.device_says == 0)
		t.lets[vlan] = on;
	return t.device_says;
}

int
__wrap_rte_eth_promiscuous_enable(uint16_t port_id)
{
	t.promiscuous = true;
	return t.filters ? 0 : __real_rte_eth_promiscuous_enable(port_id);
}

/* Addresses that come while the port runs need solicited-node groups and VLANs, those that go don't any more. */
static void
a_nic_lets_through_what_its_addresses_need(void **state)
{
	struct net_priv *priv = t.port[0]->priv;
	bool allmulticast = priv->allmulticast;
	char err[512] = "";
	unsigned int groups;

	/* As of a NIC. */
	t.filters = priv->pmd.filters_vlans = true;
	priv->allmulticast = t.promiscuous = false;
	net_port_filter(t.port[0]);
	assert_true(t.lets[0]);
	assert_false(t.lets[5]);
	groups = t.groups;
	assert_int_equal(configure("198.18.5.1/24@5", "fd00:5::77/64@5", 0, err, sizeof(err)), 0);
	assert_true(t.lets[0] && t.lets[5]);
	assert_int_equal(t.groups, groups + 1);
	assert_int_equal(configure("198.18.7.1/24@7", NULL, 0, err, sizeof(err)), 0);
	assert_true(t.lets[0] && !t.lets[5] && t.lets[7]);
	assert_int_equal(t.groups, groups);
	assert_false(t.promiscuous);
	t.device_says = -ENOSPC;
	assert_int_equal(configure("198.18.7.1/24@7", "198.18.5.1/24@5", 0, err, sizeof(err)), 0);
	assert_true(t.promiscuous);
	t.device_says = 0;
	assert_int_equal(configure(NULL, NULL, 0, err, sizeof(err)), 0);
	t.filters = priv->pmd.filters_vlans = false;
	priv->allmulticast = allmulticast;
	priv->vlans.nb = 0;
}

static void
a_driver_has_to_agree(void **state)
{
	struct pmd_profile *pmd = &t.port[0]->priv->pmd;

	/* As of a NIC. */
	pmd->carries_mtu = false;
	t.port[0]->priv->dev_mtu = 1500;
	expect_mtu(2200, 2200, UROCE_MTU_2048);
	assert_int_equal(t.device_mtu, 2200);
	/* Not more than RoCE v2 can use. */
	expect_mtu(9000, MOST, UROCE_MTU_4096);
	assert_int_equal(t.device_mtu, NET_MAX_ROCE_IP_MTU);
	t.device_says = -EBUSY;
	refuse_mtu(1500, EBUSY, "the driver of net_memif0 can't change its MTU while it is started");
	t.device_says = -ENOTSUP;
	refuse_mtu(1500, EBUSY, "the driver of net_memif0 can't change its MTU");
	t.device_says = -EINVAL;
	refuse_mtu(1500, EINVAL, "the driver of net_memif0 does not take MTU 1500: ");
	t.device_says = 0;
	expect_mtu(0, 1500, UROCE_MTU_1024);
	pmd->carries_mtu = true;
	expect_mtu(0, MOST, UROCE_MTU_4096);
}

static void
closed_ports_leave_no_buffer_behind(void **state)
{
	for (unsigned int i = 0; i < 2; i++) {
		net_port_close(t.port[i]);
		t.port[i] = NULL;
	}
	assert_int_equal(rte_mempool_in_use_count(t.pool), 0);
	assert_int_equal(rte_eth_dev_count_avail(), 0);
	expect_refusal(0, &t.conf[0], 1, "and no other: give EAL a NIC");
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_are_explained),
		cmocka_unit_test(ports_open_and_connect),
		cmocka_unit_test(ports_resolve_each_other),
		cmocka_unit_test(addresses_of_vlans_come_and_go_but_stay_in_their_vlan),
		cmocka_unit_test(largest_roce_frame_passes_in_one_piece),
		cmocka_unit_test(mtu_changes_while_the_port_runs),
		cmocka_unit_test(a_driver_has_to_agree),
		cmocka_unit_test(a_nic_lets_through_what_its_addresses_need),
		cmocka_unit_test(closed_ports_leave_no_buffer_behind),
	};
	char vdev[2][256], dir[] = "/tmp/uroce-test-XXXXXX", socket[64];
	char *eal[] = { argv[0],       "--no-huge",      "-m",          "128",     "--no-pci",
			"--no-shconf", "--no-telemetry", "--log-level", "warning", "-l",
			"0",           "--vdev",         vdev[0],       "--vdev",  vdev[1] };
	char err[100];
	int rc;

	if (mkdtemp(dir) == NULL)
		return 1;
	snprintf(socket, sizeof(socket), "%s/memif", dir);
	for (unsigned int i = 0; i < 2; i++) {
		snprintf(vdev[i], sizeof(vdev[i]),
			 "net_memif%u,role=%s,bsize=4352,socket=%s,socket-abstract=no,mac=02:00:00:00:00:0%u", i,
			 i == 0 ? "server" : "client", socket, i + 1);
		snprintf(t.conf[i].name, sizeof(t.conf[i].name), "uroce%u", i);
		snprintf(t.conf[i].ethdev, sizeof(t.conf[i].ethdev), "net_memif%u", i);
		net_addr_parse(i == 0 ? "198.18.0.1/24" : "198.18.0.2/24", &t.conf[i].addrs[0], err, sizeof(err));
		net_addr_parse(i == 0 ? "fd00:18::1/64" : "fd00:18::2/64", &t.conf[i].addrs[1], err, sizeof(err));
		t.conf[i].nb_addrs = 2;
	}
	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0)
		return 1;
	t.pool =
		rte_pktmbuf_pool_create("pool", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES, SOCKET_ID_ANY);
	if (t.pool == NULL)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	/*
	 * No rte_eal_cleanup(): net_memif's server never takes its listener off EAL's interrupt thread, which reads the
	 * listener's handle once more while the cleanup unmaps the memory it is in (22.11).
	 */
	unlink(socket);
	rmdir(dir);
	return rc;
}
