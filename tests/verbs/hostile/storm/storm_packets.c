/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storm_packets SOCKET TARGETS GOLDEN N SEED: the other end of a memif, which sends N frames to the port as fast as it takes them: packets for the QPs of
 * TARGETS with PSNs, keys and addresses that are right or nearly, answers to what these QPs send, mutated packets of the captures in GOLDEN, and
 * random bytes. It answers ARP, or there would be no QPs, and goes on doing so after the N frames until it is killed. Nothing is lost on the way: what the port has no room for is sent again.
 */
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "fuzz.h"
#include "storm/packets.h"
#include "stuck.h"

enum {
	BURST = 32,
	MBUFS = 4095,
	RING = 1024,
	WAIT_S = 30,     /* until there are targets, and until the port takes a frame */
	IDLE_US = 100,
	BSIZE = 4352,    /* as in test_storm.py */
};

static uint64_t
now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

static struct rte_mempool *
begin(const char *path)
{
	char vdev[256], prefix[32], cores[32];
	char *args[] = { "storm", "--no-huge", "-m", "64", "--no-shconf", "--no-pci", "--no-telemetry", "--lcores", cores, "--log-level", "1",
			 "--file-prefix", prefix, "--vdev", vdev };
	struct rte_eth_conf conf = { 0 };
	struct rte_mempool *pool;

	snprintf(prefix, sizeof(prefix), "storm%d", getpid());
	snprintf(vdev, sizeof(vdev), "net_memif0,role=client,id=0,socket-abstract=no,socket=%s,bsize=%d,mac=" STORM_MAC, path, BSIZE);
	snprintf(cores, sizeof(cores), "0@(0-%ld)", sysconf(_SC_NPROCESSORS_ONLN) - 1);
	if (rte_eal_init(sizeof(args) / sizeof(args[0]), args) < 0)
		attack_die("rte_eal_init");
	pool = rte_pktmbuf_pool_create("storm", MBUFS, 0, 0, RTE_PKTMBUF_HEADROOM + BSIZE, 0);
	if (pool == NULL || rte_eth_dev_configure(0, 1, 1, &conf) != 0 || rte_eth_rx_queue_setup(0, 0, RING, 0, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(0, 0, RING, 0, NULL) != 0 || rte_eth_dev_start(0) != 0)
		attack_die("the memif port");
	return pool;
}

/** What the port sends; half of it gets answers. */
static void
look(struct packets *p)
{
	struct rte_mbuf *got[BURST];
	uint16_t n = rte_eth_rx_burst(0, 0, got, BURST);

	for (uint16_t i = 0; i < n; i++) {
		if (got[i]->nb_segs == 1)
			packets_seen(p, rte_pktmbuf_mtod(got[i], const uint8_t *), got[i]->data_len);
		rte_pktmbuf_free(got[i]);
	}
}

/** Send a burst of what @p make makes. @return frames that the port took. */
static unsigned int
send_burst(struct packets *p, struct rte_mempool *pool, unsigned int max)
{
	struct rte_mbuf *m[BURST];
	unsigned int n = 0, sent;

	while (n < max && (m[n] = rte_pktmbuf_alloc(pool)) != NULL) {
		size_t bytes = packets_next(p, rte_pktmbuf_mtod(m[n], uint8_t *));

		if (bytes == 0) {
			rte_pktmbuf_free(m[n]);
			break;
		}
		m[n]->data_len = (uint16_t)bytes;
		m[n]->pkt_len = (uint32_t)bytes;
		n++;
	}
	sent = rte_eth_tx_burst(0, 0, m, (uint16_t)n);
	for (unsigned int i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return sent;
}

int
main(int argc, char **argv)
{
	uint64_t n, sent = 0, last, begun;
	struct rte_mempool *pool;
	struct packets *p;
	int fd;
	void *targets;

	if (argc != 6)
		attack_die("usage: storm_packets SOCKET TARGETS GOLDEN N SEED");
	n = strtoull(argv[4], NULL, 0);
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	targets = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct storm_targets), PROT_READ, MAP_SHARED, fd, 0);
	if (targets == MAP_FAILED)
		attack_die(argv[2]);
	p = packets_new(targets, argv[3], strtoull(argv[5], NULL, 0));
	pool = begin(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	/* Until the targets are there only ARP is answered. */
	for (last = now_s(); !packets_ready(p);) {
		look(p);
		send_burst(p, pool, BURST);
		if (now_s() - last > WAIT_S)
			attack_die("no targets");
	}
	attack_begun();
	for (begun = last = now_s(); sent < n;) {
		unsigned int took = send_burst(p, pool, n - sent < BURST ? (unsigned int)(n - sent) : BURST);

		sent += took;
		if (took > 0)
			last = now_s();
		else if (now_s() - last > WAIT_S)
			attack_die("the port takes nothing any more");
		look(p);
	}
	printf("%" PRIu64 " packets in %" PRIu64 " s: ", sent, now_s() - begun);
	packets_print(p);
	/* The rest of the storm needs somebody who answers ARP. */
	packets_only_arp(p);
	for (;; usleep(IDLE_US)) {
		look(p);
		send_burst(p, pool, BURST);
	}
}
