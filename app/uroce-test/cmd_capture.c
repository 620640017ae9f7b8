/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture: what goes over hosts' ports, into a pcapng file. Callbacks of the ports copy packets on the lcores that send and receive
 * them; a thread of its own writes, so that a slow disk costs packets of the capture, not of the wire.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_pcapng.h>
#include <rte_ring.h>

#include "args.h"
#include "capture.h"
#include "format.h"
#include "inspect.h"
#include "objects.h"
#include "stack.h"

enum {
	COPIES = 4095,     /* under way to the file */
	RING_ENTRIES = 4096,
	BURST = 32,
	WRITER_SLEEP_US = 1000,
	ANY_QPN = 0,
	FILE_MODE = 0644,
};

/** One port that is captured. */
struct tap {
	struct host *host;
	uint32_t rx_qpn, tx_qpn; /**< destination QPN of what is wanted, ANY_QPN: everything */
	const struct rte_eth_rxtx_callback *rx[UROCE_MAX_ENGINES], *tx[UROCE_MAX_ENGINES];
};

static struct {
	bool on;
	char path[COMMAND_WORD_BYTES];
	int fd;
	rte_pcapng_t *file;
	struct rte_mempool *pool;
	struct rte_ring *ring;
	pthread_t writer;
	atomic_bool stop, failed;
	_Atomic uint64_t written, bytes, dropped;
	struct tap taps[HOSTS_MAX];
	unsigned int nb_taps;
} cap;

/** @return the destination QPN of a RoCE v2 packet, ANY_QPN: it is none. */
static uint32_t
dest_qpn(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t at = WIRE_ETH_BYTES, type = (uint32_t)p[12] << 8 | p[13];

	if (type == RTE_ETHER_TYPE_VLAN) {
		type = (uint32_t)p[16] << 8 | p[17];
		at += 4;
	}
	if (type == RTE_ETHER_TYPE_IPV4)
		at += 20;
	else if (type == RTE_ETHER_TYPE_IPV6)
		at += 40;
	else
		return ANY_QPN;
	if (m->data_len < at + 8 + 12 || ((uint32_t)p[at + 2] << 8 | p[at + 3]) != WIRE_UDP_PORT)
		return ANY_QPN;
	p += at + 8;
	return (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7];
}

/** [engines' threads] */
static void
copy(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, uint32_t qpn, enum rte_pcapng_direction direction)
{
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m;

		if (qpn != ANY_QPN && dest_qpn(pkts[i]) != qpn)
			continue;
		m = rte_pcapng_copy(port, queue, pkts[i], cap.pool, UINT32_MAX, rte_rdtsc(), direction);
		if (m != NULL && rte_ring_enqueue(cap.ring, m) == 0)
			continue;
		rte_pktmbuf_free(m);
		atomic_fetch_add_explicit(&cap.dropped, 1, memory_order_relaxed);
	}
}

static uint16_t
on_rx(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, uint16_t max, void *arg)
{
	const struct tap *t = arg;

	copy(port, queue, pkts, n, t->rx_qpn, RTE_PCAPNG_DIRECTION_IN);
	return n;
}

static uint16_t
on_tx(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, void *arg)
{
	const struct tap *t = arg;

	copy(port, queue, pkts, n, t->tx_qpn, RTE_PCAPNG_DIRECTION_OUT);
	return n;
}

static void *
write_file(void *arg)
{
	struct rte_mbuf *pkts[BURST];

	while (true) {
		/* Whoever stops us has seen to it that nothing comes after. */
		bool last = atomic_load(&cap.stop);
		unsigned int n = rte_ring_dequeue_burst(cap.ring, (void **)pkts, BURST, NULL);
		ssize_t bytes;

		if (n == 0 && last)
			return NULL;
		if (n == 0) {
			usleep(WRITER_SLEEP_US);
			continue;
		}
		bytes = rte_pcapng_write_packets(cap.file, pkts, (uint16_t)n);
		if (bytes < 0) {
			atomic_store(&cap.failed, true);
			continue;
		}
		atomic_fetch_add(&cap.written, n);
		atomic_fetch_add(&cap.bytes, (uint64_t)bytes);
	}
}

static int
nothing(struct engine *e, void *arg, uint64_t now_ns)
{
	return 0;
}

static void
release(void)
{
	if (cap.file != NULL)
		rte_pcapng_close(cap.file);
	else if (cap.fd >= 0)
		close(cap.fd);
	rte_ring_free(cap.ring);
	rte_mempool_free(cap.pool);
	memset(&cap, 0, sizeof(cap));
	cap.fd = -1;
}

/** Take the callbacks off, and wait until no engine is in one. */
static void
unhook(void)
{
	for (unsigned int i = 0; i < cap.nb_taps; i++) {
		const struct uroce *u = cap.taps[i].host->stack;
		uint16_t port = u->ports[cap.taps[i].host->port]->port_id;

		for (uint16_t q = 0; q < u->nb_engines; q++) {
			if (cap.taps[i].rx[q] != NULL)
				rte_eth_remove_rx_callback(port, q, cap.taps[i].rx[q]);
			if (cap.taps[i].tx[q] != NULL)
				rte_eth_remove_tx_callback(port, q, cap.taps[i].tx[q]);
		}
		for (unsigned int e = 0; e < u->nb_engines; e++)
			engine_call(u->engines[e], nothing, NULL);
		for (uint16_t q = 0; q < u->nb_engines; q++) {
			rte_free((void *)(uintptr_t)cap.taps[i].rx[q]);
			rte_free((void *)(uintptr_t)cap.taps[i].tx[q]);
		}
	}
}

static bool
hook(struct host *h, uint32_t rx_qpn, uint32_t tx_qpn)
{
	struct tap *t = &cap.taps[cap.nb_taps++];
	uint16_t port = h->stack->ports[h->port]->port_id;

	*t = (struct tap){ .host = h, .rx_qpn = rx_qpn, .tx_qpn = tx_qpn };
	for (uint16_t q = 0; q < h->stack->nb_engines; q++) {
		t->rx[q] = rte_eth_add_rx_callback(port, q, on_rx, t);
		t->tx[q] = rte_eth_add_tx_callback(port, q, on_tx, t);
		if (t->rx[q] == NULL || t->tx[q] == NULL)
			return false;
	}
	return true;
}

/** File, memory and writer. */
static int
prepare(struct call *c, const char *path)
{
	uint32_t room = rte_pcapng_mbuf_size(WIRE_MAX_FRAME_BYTES);
	int rc;

	memset(&cap, 0, sizeof(cap));
	snprintf(cap.path, sizeof(cap.path), "%s", path);
	cap.fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, FILE_MODE);
	if (cap.fd < 0)
		return call_errno(c, path, errno);
	cap.pool = rte_pktmbuf_pool_create("uroce_capture", COPIES, 0, 0, (uint16_t)RTE_ALIGN(room, RTE_CACHE_LINE_SIZE),
					   SOCKET_ID_ANY);
	cap.ring = rte_ring_create("uroce_capture", RING_ENTRIES, SOCKET_ID_ANY, RING_F_SC_DEQ);
	if (cap.pool == NULL || cap.ring == NULL)
		return call_fail(c, "no memory for %d packets; give EAL more by -m MIB", COPIES);
	cap.file = rte_pcapng_fdopen(cap.fd, NULL, NULL, "uroce-test " UROCE_VERSION, NULL);
	if (cap.file == NULL)
		return call_errno(c, path, rte_errno);
	rc = pthread_create(&cap.writer, NULL, write_file, NULL);
	if (rc != 0)
		return call_errno(c, "no thread", rc);
	cap.on = true;
	return 0;
}

/** Write what was taken, end the thread. */
static void
finish(void)
{
	unhook();
	atomic_store(&cap.stop, true);
	pthread_join(cap.writer, NULL);
}

static int
run_start(struct call *c)
{
	struct object *qp = object_find(OBJECT_QP, call_text(c, "qp"));
	const struct host *only = call_has(c, "host") ? host_find(call_text(c, "host")) : NULL;
	struct inspect_qp seen = { 0 };
	bool hooked = true;

	if (cap.on)
		return call_fail(c, "%s is being written: `capture stop` first", cap.path);
	if (qp != NULL && only != NULL && only != qp->host)
		return call_fail(c, "%s is of %s, not of %s", qp->name, qp->host->name, only->name);
	if (qp != NULL && inspect_qp(qp->host->stack->control, qp->v.qp->qp_num, &seen) != 0)
		return call_fail(c, "%s: it is gone", qp->name);
	if (prepare(c, call_text(c, "file")) != 0) {
		release();
		return -1;
	}
	for (unsigned int i = 0; hooked && i < hosts_count(); i++) {
		if (qp != NULL && host_at(i) == qp->host)
			hooked = hook(host_at(i), seen.v.qpn, seen.v.dest_qpn);
		else if (qp == NULL && (only == NULL || only == host_at(i)))
			hooked = hook(host_at(i), ANY_QPN, ANY_QPN);
	}
	if (!hooked) {
		finish();
		release();
		return call_fail(c, "a port takes no callback: %s", rte_strerror(rte_errno));
	}
	printf("capturing into %s\n", cap.path);
	return 0;
}

void
capture_stop(void)
{
	if (!cap.on)
		return;
	finish();
	printf("%s: %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " packets not written in time%s\n", cap.path,
	       atomic_load(&cap.written), atomic_load(&cap.bytes), atomic_load(&cap.dropped),
	       atomic_load(&cap.failed) ? "; writing failed: is the disk full?" : "");
	release();
}

static int
run_stop(struct call *c)
{
	if (!cap.on)
		return call_fail(c, "nothing is being captured");
	capture_stop();
	return 0;
}

static int
show_capture(struct call *c)
{
	struct format *f = format_new();

	if (cap.on) {
		format_row(f);
		format_text(f, "file", "%s", cap.path);
		format_number(f, "ports", cap.nb_taps);
		format_number(f, "packets", atomic_load(&cap.written));
		format_number(f, "bytes", atomic_load(&cap.bytes));
		format_number(f, "dropped", atomic_load(&cap.dropped));
	}
	format_end(f, call_has(c, "json") ? FORMAT_JSON : FORMAT_LIST, "nothing is being captured", stdout);
	return 0;
}

static const struct arg start_args[] = {
	ARG_ANY("file", "where to; what is there is overwritten", ARG_NEEDED),
	{ "host", "only what this one sends and receives", ARG_NAME, ARG_KEYED, .names = host_names },
	{ "qp", "only what this QP sends and receives", ARG_NAME, ARG_KEYED, .names = qp_names },
	{ 0 },
};
static const struct arg show_args[] = { ARG_JSON, { 0 } };
static const struct command table[] = {
	{ "capture start", "Write packets of all hosts, or of one, to a pcapng file.", start_args, NULL, run_start },
	{ "capture stop", "End the capture.", NULL, NULL, run_stop },
	{ "show capture", "How much has been captured.", show_args, NULL, show_capture },
	{ 0 },
};
COMMANDS(table)
