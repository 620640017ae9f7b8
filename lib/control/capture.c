/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "capture.h"
#include "control_priv.h"
#include "inspect.h"
#include "pcapng.h"

enum {
	WRITE_BURST = 64,
	NAP_US = 2000,                  /**< of the writer when there is nothing */
	FILE_BUFFER_BYTES = 1 << 20,
};

/** A copy of a packet. */
struct copy {
	uint64_t ns;
	uint16_t port;
	bool tx;
	uint32_t bytes, captured;
	const char *dropped;
	uint8_t data[WIRE_MAX_FRAME_BYTES];
};

struct capture {
	struct engine_tap tap;
	struct capture_stats stats;     /* packets, bytes, error: the writer's */
	uint32_t ports;                 /* bit per port */
	uint32_t snap;
	/* Of the QP: packets from it have the peer's number and address, or, on UD, its own number in the DETH. */
	uint32_t peer_qpn;
	uint8_t peer_version, peer_ip[16];
	uint64_t to_wall_ns;            /* from the engines' clock to the time of day */
	_Atomic uint64_t missed[UROCE_MAX_PORTS], seen[UROCE_MAX_PORTS];
	_Atomic bool stop;
	struct copy *copies;
	struct rte_ring *free, *full;
	FILE *f;
	uint32_t interface[UROCE_MAX_PORTS];
	pthread_t writer;
};

/* ---- On the engines ---- */
/** Is it of the QP that is asked for? */
static bool
of_qp(const struct capture *k, const uint8_t *frame, uint32_t bytes, bool tx)
{
	struct wire_pkt p;

	if (wire_parse(frame, bytes, false, &p) != WIRE_OK)
		return false;
	if (!tx)
		return p.bth.dqpn == k->stats.qpn;
	if (p.op->flags & WIRE_F_DETH)
		return wire_get24(p.bthp + p.op->off_deth + 5) == k->stats.qpn;
	if (p.bth.dqpn != k->peer_qpn || p.ip_version != k->peer_version)
		return false;
	return p.ip_version == 4 ? memcmp(p.l3 + 16, k->peer_ip, 4) == 0 : memcmp(p.l3 + 24, k->peer_ip, 16) == 0;
}

static void *
on_begin(struct engine_tap *t, uint16_t port, const struct rte_mbuf *m, bool tx, uint64_t now_ns)
{
	struct capture *k = (struct capture *)t;
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct copy *c;
	void *p;

	if ((k->ports >> port & 1) == 0 || (k->stats.qpn != 0 && !of_qp(k, frame, m->data_len, tx)))
		return NULL;
	atomic_fetch_add_explicit(&k->seen[port], 1, memory_order_relaxed);
	if (rte_ring_dequeue(k->free, &p) != 0) {
		atomic_fetch_add_explicit(&k->missed[port], 1, memory_order_relaxed);
		return NULL;
	}
	c = p;
	c->ns = now_ns;
	c->port = port;
	c->tx = tx;
	c->dropped = NULL;
	c->bytes = m->pkt_len;
	c->captured = RTE_MIN((uint32_t)m->data_len, k->snap);
	memcpy(c->data, frame, c->captured);
	return c;
}

/* Both rings have room for all copies. */
static void
on_end(struct engine_tap *t, void *packet, const char *dropped)
{
	struct capture *k = (struct capture *)t;

	((struct copy *)packet)->dropped = dropped;
	rte_ring_enqueue(k->full, packet);
}

static void
on_cancel(struct engine_tap *t, void *packet)
{
	struct capture *k = (struct capture *)t;

	atomic_fetch_sub_explicit(&k->seen[((struct copy *)packet)->port], 1, memory_order_relaxed);
	rte_ring_enqueue(k->free, packet);
}

static int
set_tap(struct engine *e, void *arg, uint64_t now_ns)
{
	engine_set_tap(e, arg);
	return 0;
}

/* ---- The writer ---- */
static void
write_copy(struct capture *k, const struct copy *c)
{
	char comment[96];
	struct pcapng_packet p = {
		.ns = c->ns + k->to_wall_ns,
		.interface = k->interface[c->port],
		.bytes = c->bytes,
		.captured = c->captured,
		.tx = c->tx,
		.data = c->data,
	};

	if (c->dropped != NULL) {
		snprintf(comment, sizeof(comment), "dropped: %s", c->dropped);
		p.comment = comment;
	}
	if (k->stats.error != 0)
		return;
	pcapng_packet(k->f, &p);
	if (ferror(k->f)) {
		k->stats.error = errno;
		return;
	}
	__atomic_store_n(&k->stats.packets, k->stats.packets + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&k->stats.bytes, k->stats.bytes + c->captured, __ATOMIC_RELAXED);
}

static void *
run_writer(void *arg)
{
	void *burst[WRITE_BURST];
	struct capture *k = arg;
	unsigned int n;
	bool last;

	control_thread_signals();
	for (;;) {
		/* In this order: after stop nothing comes. */
		last = atomic_load(&k->stop);
		n = rte_ring_dequeue_burst(k->full, burst, WRITE_BURST, NULL);
		for (unsigned int i = 0; i < n; i++) {
			write_copy(k, burst[i]);
			rte_ring_enqueue(k->free, burst[i]);
		}
		if (n > 0)
			continue;
		if (last)
			return NULL;
		/* Who looks at the file meanwhile sees whole blocks. */
		fflush(k->f);
		usleep(NAP_US);
	}
}

/* ---- Beginning and end ---- */
static uint64_t
wall_offset_ns(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec - control_now_ns();
}

static struct rte_ring *
make_ring(void)
{
	ssize_t bytes = rte_ring_get_memsize(CAPTURE_COPIES * 2);
	struct rte_ring *r = NULL;

	if (bytes > 0)
		r = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL((size_t)bytes, RTE_CACHE_LINE_SIZE));
	/* Engines may share a core with each other and with the writer: who was preempted must not hold up the rest (RTS). */
	if (r != NULL && rte_ring_init(r, "capture", CAPTURE_COPIES * 2, RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ) == 0)
		return r;
	free(r);
	return NULL;
}

static void
capture_free(struct capture *k)
{
	if (k == NULL)
		return;
	if (k->f != NULL)
		fclose(k->f);
	free(k->copies);
	free(k->free);
	free(k->full);
	free(k);
}

/** What the filter by QP needs to know. */
static int
find_qp(struct control *c, struct capture *k, char *err)
{
	struct inspect_qp qp;

	if (k->stats.qpn == 0)
		return 0;
	if (inspect_qp(c, k->stats.qpn, &qp) != 0) {
		snprintf(err, CONFIG_ERR_BYTES, "there is no QP %#x; /uroce/qp lists them", k->stats.qpn);
		return ENOENT;
	}
	k->peer_qpn = qp.v.dest_qpn;
	k->peer_version = qp.v.ip_version;
	memcpy(k->peer_ip, qp.v.dip, sizeof(k->peer_ip));
	return 0;
}

static int
open_file(struct control *c, struct capture *k, char *err)
{
	uint32_t interfaces = 0;
	int fd = open(k->stats.file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), rc = errno;

	k->f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (k->f == NULL) {
		if (fd >= 0)
			close(fd);
		snprintf(err, CONFIG_ERR_BYTES, "%s can't be made by uroced: %s; give a file that doesn't exist, in a folder that "
			 "does", k->stats.file, strerror(rc));
		return rc;
	}
	setvbuf(k->f, NULL, _IOFBF, FILE_BUFFER_BYTES);
	pcapng_begin(k->f, "uroced " UROCE_VERSION, "comments of packets name the counter that says why uroce dropped them");
	for (uint16_t i = 0; i < c->s.nb_ports; i++) {
		if ((k->ports >> i & 1) == 0)
			continue;
		k->interface[i] = interfaces++;
		pcapng_interface(k->f, c->s.ports[i]->conf.name, k->snap);
	}
	return 0;
}

static int
check(struct control *c, const struct capture_params *p, char *err)
{
	if (c->capture != NULL) {
		snprintf(err, CONFIG_ERR_BYTES, "a capture into %s runs already; stop it first", c->capture->stats.file);
		return EBUSY;
	}
	if (p->port >= (int)c->s.nb_ports) {
		snprintf(err, CONFIG_ERR_BYTES, "there is no port %d: there are %u", p->port, c->s.nb_ports);
		return ENOENT;
	}
	if (p->file == NULL || p->file[0] != '/' || strlen(p->file) >= CAPTURE_FILE_BYTES) {
		snprintf(err, CONFIG_ERR_BYTES, "the file must be an absolute path, shorter than %d characters", CAPTURE_FILE_BYTES);
		return EINVAL;
	}
	if (p->snap_bytes != 0 && p->snap_bytes < CAPTURE_SNAP_MIN) {
		snprintf(err, CONFIG_ERR_BYTES, "snap must be at least %d bytes: headers", CAPTURE_SNAP_MIN);
		return EINVAL;
	}
	return 0;
}

/** All that needs memory, a file and a thread. */
static int
prepare(struct control *c, const struct capture_params *p, struct capture *k, char *err)
{
	int rc;

	k->tap = (struct engine_tap){ on_begin, on_end, on_cancel };
	k->stats = (struct capture_stats){ .running = true, .port = p->port, .qpn = p->qpn };
	strlcpy(k->stats.file, p->file, sizeof(k->stats.file));
	k->ports = p->port >= 0 ? UINT32_C(1) << p->port : UINT32_MAX;
	k->snap = p->snap_bytes != 0 ? RTE_MIN(p->snap_bytes, (uint32_t)WIRE_MAX_FRAME_BYTES) : WIRE_MAX_FRAME_BYTES;
	k->to_wall_ns = wall_offset_ns();
	rc = find_qp(c, k, err);
	if (rc != 0)
		return rc;
	snprintf(err, CONFIG_ERR_BYTES, "no memory for the capture");
	k->copies = malloc(CAPTURE_COPIES * sizeof(*k->copies));
	k->free = make_ring();
	k->full = make_ring();
	if (k->copies == NULL || k->free == NULL || k->full == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < CAPTURE_COPIES; i++)
		rte_ring_enqueue(k->free, &k->copies[i]);
	rc = open_file(c, k, err);
	if (rc != 0)
		return rc;
	rc = pthread_create(&k->writer, NULL, run_writer, k);
	if (rc != 0) {
		unlink(k->stats.file);
		snprintf(err, CONFIG_ERR_BYTES, "no thread for the capture: %s", strerror(rc));
	}
	return rc;
}

int
control_capture_start(struct control *c, const struct capture_params *p, char *err)
{
	struct capture *k;
	int rc;

	control_lock(c);
	rc = check(c, p, err);
	k = rc == 0 ? calloc(1, sizeof(*k)) : NULL;
	if (rc == 0 && k == NULL) {
		snprintf(err, CONFIG_ERR_BYTES, "no memory for the capture");
		rc = ENOMEM;
	}
	if (rc == 0)
		rc = prepare(c, p, k, err);
	if (rc == 0) {
		c->capture = k;
		for (unsigned int i = 0; i < c->s.nb_engines; i++)
			engine_call(c->s.engines[i], set_tap, &k->tap);
		CTL_LOG(NOTICE, "capture into %s begins", k->stats.file);
	} else {
		capture_free(k);
	}
	control_unlock(c);
	return rc;
}

static void
take_stats(struct control *c, struct capture_stats *out)
{
	const struct capture *k = c->capture;

	*out = k->stats;
	out->packets = __atomic_load_n(&k->stats.packets, __ATOMIC_RELAXED);
	out->bytes = __atomic_load_n(&k->stats.bytes, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < UROCE_MAX_PORTS; i++)
		out->missed += atomic_load_explicit(&k->missed[i], memory_order_relaxed);
}

bool
control_capture_status(struct control *c, struct capture_stats *out)
{
	*out = (struct capture_stats){ 0 };
	control_lock(c);
	if (c->capture != NULL)
		take_stats(c, out);
	control_unlock(c);
	return out->running;
}

int
control_capture_stop(struct control *c, struct capture_stats *out)
{
	struct capture *k;

	*out = (struct capture_stats){ 0 };
	control_lock(c);
	k = c->capture;
	if (k == NULL) {
		control_unlock(c);
		return ENOENT;
	}
	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_call(c->s.engines[i], set_tap, NULL);
	atomic_store(&k->stop, true);
	pthread_join(k->writer, NULL);
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		if (k->ports >> i & 1)
			pcapng_statistics(k->f, k->interface[i], control_now_ns() + k->to_wall_ns, k->seen[i], k->missed[i]);
	if (fflush(k->f) != 0 && k->stats.error == 0)
		k->stats.error = errno;
	take_stats(c, out);
	out->running = false;
	c->capture = NULL;
	CTL_LOG(NOTICE, "capture into %s ends: %lu packets, %lu missed%s%s", out->file, (unsigned long)out->packets,
		(unsigned long)out->missed, out->error != 0 ? ", " : "", out->error != 0 ? strerror(out->error) : "");
	capture_free(k);
	control_unlock(c);
	return 0;
}
