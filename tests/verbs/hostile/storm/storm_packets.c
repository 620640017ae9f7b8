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
	QUEUES = 2,      /* of the daemon's port. With fewer here, DPDK's memif reads one ring by two queues */
	PACED = 8,       /* bursts after which the daemon must have taken all */
};

/* ARP replies that have come. */
static uint64_t nb_replies;

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
	if (pool == NULL || rte_eth_dev_configure(0, QUEUES, QUEUES, &conf) != 0)
		attack_die("the memif port");
	for (uint16_t i = 0; i < QUEUES; i++)
		if (rte_eth_rx_queue_setup(0, i, RING, 0, NULL, pool) != 0 || rte_eth_tx_queue_setup(0, i, RING, 0, NULL) != 0)
			attack_die("a queue of the memif port");
	if (rte_eth_dev_start(0) != 0)
		attack_die("the memif port");
	return pool;
}

static void
look_at(struct packets *p, uint16_t queue)
{
	struct rte_mbuf *got[BURST];
	uint16_t n = rte_eth_rx_burst(0, queue, got, BURST);

	for (uint16_t i = 0; i < n; i++) {
		if (got[i]->nb_segs == 1) {
			nb_replies += packets_is_arp_reply(rte_pktmbuf_mtod(got[i], const uint8_t *), got[i]->data_len);
			packets_seen(p, rte_pktmbuf_mtod(got[i], const uint8_t *), got[i]->data_len);
		}
		rte_pktmbuf_free(got[i]);
	}
}

/** What the port sends; half of it gets answers. */
static void
look(struct packets *p)
{
	for (uint16_t i = 0; i < QUEUES; i++)
		look_at(p, i);
}

/** Wait until the daemon has taken all frames: on each queue it answers a question that is behind them. */
static void
pace(struct packets *p, struct rte_mempool *pool)
{
	uint64_t want = nb_replies + QUEUES, begun = now_s();
	struct rte_mbuf *m;

	for (uint16_t i = 0; i < QUEUES; i++) {
		m = rte_pktmbuf_alloc(pool);
		if (m == NULL)
			attack_die("no buffer");
		m->pkt_len = m->data_len = (uint16_t)packets_arp_request(rte_pktmbuf_mtod(m, uint8_t *));
		while (rte_eth_tx_burst(0, i, &m, 1) == 0) {
			look(p);
			if (now_s() - begun > WAIT_S)
				attack_die("the port takes nothing any more");
		}
	}
	while (nb_replies < want) {
		look(p);
		if (now_s() - begun > WAIT_S)
			attack_die("the port doesn't answer ARP any more");
	}
}

/** Send a burst of what @p make makes. @return frames that the port took. */
static unsigned int
send_burst(struct packets *p, struct rte_mempool *pool, unsigned int max)
{
	static uint16_t queue;
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
	queue = (queue + 1) % QUEUES;
	sent = rte_eth_tx_burst(0, queue, m, (uint16_t)n);
	for (unsigned int i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return sent;
}

int
main(int argc, char **argv)
{
	uint64_t n, sent = 0, last, begun, bursts = 0;
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
		if (++bursts % PACED == 0)
			pace(p, pool);
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
