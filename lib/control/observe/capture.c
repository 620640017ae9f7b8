/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "control/core/control_priv.h"
#include "control/observe/capture.h"
#include "control/observe/inspect.h"
#include "control/observe/pcapng_priv.h"

enum {
	WRITE_BURST = 64,
	NAP_US = 2000,                  /**< how long the writer sleeps when there is nothing to write */
	FILE_BUFFER_BYTES = 1 << 20,
};

/** A copy of a packet. */
struct copy {
	struct source *source;
	uint64_t ns;
	uint16_t port;
	uint8_t way;                    /**< enum engine_tap_way */
	uint32_t bytes, captured;
	const char *dropped;
	uint8_t data[WIRE_MAX_FRAME_BYTES];
};

/** The part of a capture that belongs to one control. */
struct source {
	struct engine_tap tap;
	struct capture *capture;
	struct control *control;
	uint32_t ports;                 /* a bit per port */
	const char *(*name)(struct control *c, unsigned int port);
	/*
	 * Filter by QP; 0: none. A packet from the QP has the peer's QP number and address, or with UD its own number
	 * in the DETH.
	 */
	uint32_t qpn, peer_qpn;
	uint8_t peer_version, peer_ip[16];
	uint32_t interface[UROCE_MAX_PORTS];
	_Atomic uint64_t missed[UROCE_MAX_PORTS], seen[UROCE_MAX_PORTS];
};

struct capture {
	struct source sources[CAPTURE_FROM_MAX];
	unsigned int nb_sources;
	bool own;                       /* started by control_capture_start(): ends with the control */
	struct capture_stats stats;     /* except packets, bytes and missed; the writer sets error */
	_Atomic uint64_t packets, bytes; /* in the file */
	uint32_t snap;
	uint64_t to_wall_ns;            /* difference between the engines' clock and the time of day */
	_Atomic bool stop;
	struct copy *copies;
	struct rte_ring *free, *full;
	FILE *f;
	pthread_t writer;
};

/* ---- The tap, on the engines' threads ---- */
/** @return true if the packet is to or from the QP of the filter. */
static bool
of_qp(const struct source *s, const uint8_t *frame, uint32_t bytes, enum engine_tap_way way)
{
	struct wire_pkt p;

	if (wire_parse(frame, bytes, false, &p) != WIRE_OK)
		return false;
	if (way != ENGINE_TAP_TX && p.bth.dqpn == s->qpn)
		return true;
	if (way == ENGINE_TAP_RX)
		return false;
	if (p.op->flags & WIRE_F_DETH)
		return wire_get24(p.bthp + p.op->off_deth + 5) == s->qpn;
	if (p.bth.dqpn != s->peer_qpn || p.ip_version != s->peer_version)
		return false;
	return p.ip_version == 4 ? memcmp(p.l3 + 16, s->peer_ip, 4) == 0 : memcmp(p.l3 + 24, s->peer_ip, 16) == 0;
}

static void *
on_begin(struct engine_tap *t, uint16_t port, const struct rte_mbuf *m, enum engine_tap_way way, uint64_t now_ns)
{
	struct source *s = container_of(t, struct source, tap);
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct copy *c;
	void *p;

	if ((s->ports >> port & 1) == 0 || (s->qpn != 0 && !of_qp(s, frame, m->data_len, way)))
		return NULL;
	atomic_fetch_add_explicit(&s->seen[port], 1, memory_order_relaxed);
	if (rte_ring_dequeue(s->capture->free, &p) != 0) {
		atomic_fetch_add_explicit(&s->missed[port], 1, memory_order_relaxed);
		return NULL;
	}
	c = p;
	c->source = s;
	c->ns = now_ns;
	c->port = port;
	c->way = (uint8_t)way;
	c->dropped = NULL;
	c->bytes = m->pkt_len;
	c->captured = RTE_MIN((uint32_t)m->data_len, s->capture->snap);
	memcpy(c->data, frame, c->captured);
	return c;
}

/* rte_ring_enqueue() can't fail: either ring has room for all copies. */
static void
on_end(struct engine_tap *t, void *packet, const char *dropped)
{
	((struct copy *)packet)->dropped = dropped;
	rte_ring_enqueue(container_of(t, struct source, tap)->capture->full, packet);
}

static void
on_cancel(struct engine_tap *t, void *packet)
{
	struct source *s = container_of(t, struct source, tap);

	atomic_fetch_sub_explicit(&s->seen[((struct copy *)packet)->port], 1, memory_order_relaxed);
	rte_ring_enqueue(s->capture->free, packet);
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
		.interface = c->source->interface[c->port],
		.bytes = c->bytes,
		.captured = c->captured,
		.tx = c->way == ENGINE_TAP_TX,
		.local = c->way == ENGINE_TAP_LOCAL,
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
	atomic_fetch_add_explicit(&k->packets, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&k->bytes, c->captured, memory_order_relaxed);
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
		/* Read stop before the ring: nothing is put into the ring after stop was set. */
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
		/* A program that reads the file meanwhile should find whole blocks. */
		fflush(k->f);
		usleep(NAP_US);
	}
}

/* ---- Start and end ---- */
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
	/*
	 * Engines may share a core with each other and with the writer. With RTS, a preempted thread doesn't block the
	 * others.
	 */
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

/** Find out what the filter by QP has to compare. */
static int
find_qp(struct source *s, char *err)
{
	struct inspect_qp qp;

	if (s->qpn == 0)
		return 0;
	if (inspect_qp(s->control, s->qpn, &qp) != 0)
		return config_fail(err, ENOENT, "there is no QP %#x; /uroce/qp lists them", s->qpn);
	s->peer_qpn = qp.v.dest_qpn;
	s->peer_version = qp.v.ip_version;
	memcpy(s->peer_ip, qp.v.dip, sizeof(s->peer_ip));
	return 0;
}

/** Write the file's header and an interface description for each port. */
static void
begin_file(struct capture *k)
{
	pcapng_begin(k->f, "uroce " UROCE_VERSION, "comments of packets name the counter that says why uroce dropped them");
	for (unsigned int i = 0; i < k->nb_sources; i++) {
		struct source *s = &k->sources[i];

		for (unsigned int p = 0; p < s->control->s.nb_ports; p++) {
			if ((s->ports >> p & 1) == 0)
				continue;
			s->interface[p] = k->stats.ports++;
			pcapng_interface(k->f, s->name != NULL ? s->name(s->control, p) : s->control->s.ports[p]->conf.name,
					 k->snap);
		}
	}
}

static int
open_file(struct capture *k, bool overwrite, char *err)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (overwrite ? O_TRUNC : O_EXCL | O_NOFOLLOW), fd, rc;

	fd = open(k->stats.file, flags, overwrite ? 0666 : 0600);
	k->f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (k->f != NULL) {
		setvbuf(k->f, NULL, _IOFBF, FILE_BUFFER_BYTES);
		return 0;
	}
	rc = errno;
	if (fd >= 0)
		close(fd);
	return config_fail(err, rc, "%s can't be made: %s; give a file %sin a folder that does", k->stats.file, strerror(rc),
		 overwrite ? "" : "that doesn't exist, ");
}

static int
check(const struct capture_params *p, unsigned int n, char *err)
{
	if (n == 0 || n > CAPTURE_FROM_MAX)
		return config_fail(err, EINVAL, "%u stacks: from 1 to %d can be captured", n, CAPTURE_FROM_MAX);
	if (p->file == NULL || p->file[0] == '\0' || strlen(p->file) >= CAPTURE_FILE_BYTES)
		return config_fail(err, EINVAL, "the file's name must have from 1 to %d characters", CAPTURE_FILE_BYTES - 1);
	if (p->snap_bytes != 0 && p->snap_bytes < CAPTURE_SNAP_MIN)
		return config_fail(err, EINVAL, "snap must be at least %d bytes: headers", CAPTURE_SNAP_MIN);
	return 0;
}

/** Set what is to be captured, and from which controls. */
static int
prepare(const struct capture_params *p, const struct capture_from *from, unsigned int n, struct capture *k, char *err)
{
	k->stats.running = true;
	k->stats.qpn = from[0].qpn;
	k->stats.port = __builtin_popcount(from[0].ports) == 1 ? __builtin_ctz(from[0].ports) : -1;
	strlcpy(k->stats.file, p->file, sizeof(k->stats.file));
	k->snap = p->snap_bytes != 0 ? RTE_MIN(p->snap_bytes, (uint32_t)WIRE_MAX_FRAME_BYTES) : WIRE_MAX_FRAME_BYTES;
	k->to_wall_ns = wall_offset_ns();
	for (unsigned int i = 0; i < n; i++) {
		struct source *s = &k->sources[k->nb_sources++];
		int rc;

		*s = (struct source){ .tap = { on_begin, on_end, on_cancel }, .capture = k, .control = from[i].control,
				      .ports = from[i].ports, .name = from[i].name, .qpn = from[i].qpn };
		rc = find_qp(s, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/** Allocate memory, open the file, start the writer. */
static int
begin(struct capture *k, bool overwrite, char *err)
{
	int rc;

	snprintf(err, CONFIG_ERR_BYTES, "no memory for the capture");
	k->copies = malloc(CAPTURE_COPIES * sizeof(*k->copies));
	k->free = make_ring();
	k->full = make_ring();
	if (k->copies == NULL || k->free == NULL || k->full == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < CAPTURE_COPIES; i++)
		rte_ring_enqueue(k->free, &k->copies[i]);
	rc = open_file(k, overwrite, err);
	if (rc != 0)
		return rc;
	begin_file(k);
	rc = pthread_create(&k->writer, NULL, run_writer, k);
	if (rc != 0) {
		if (!overwrite)
			unlink(k->stats.file);
		snprintf(err, CONFIG_ERR_BYTES, "no thread for the capture: %s", strerror(rc));
	}
	return rc;
}

/** Make the control part of the capture. @return 0 or EBUSY. */
static int
take_control(struct source *s, char *err)
{
	struct control *c = s->control;
	int rc = 0;

	control_lock(c);
	if (c->capture != NULL) {
		snprintf(err, CONFIG_ERR_BYTES, "a capture into %s runs already; stop it first", c->capture->stats.file);
		rc = EBUSY;
	} else {
		c->capture = s->capture;
	}
	control_unlock(c);
	return rc;
}

/** Let the control be captured by others again. Does nothing if it isn't part of this capture. */
static void
release_control(struct source *s)
{
	struct control *c = s->control;

	control_lock(c);
	if (c->capture == s->capture)
		c->capture = NULL;
	control_unlock(c);
}

/** Set the tap of the control's engines; @p t NULL: remove it. */
static void
set_taps(struct source *s, struct engine_tap *t)
{
	struct control *c = s->control;

	control_lock(c);
	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_call(c->s.engines[i], set_tap, t);
	control_unlock(c);
}

int
capture_start(const struct capture_params *p, const struct capture_from *from, unsigned int n, struct capture **out, char *err)
{
	struct capture *k;
	int rc = check(p, n, err);

	if (rc != 0)
		return rc;
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return config_fail(err, ENOMEM, "no memory for the capture");
	rc = prepare(p, from, n, k, err);
	for (unsigned int i = 0; i < k->nb_sources && rc == 0; i++)
		rc = take_control(&k->sources[i], err);
	if (rc == 0)
		rc = begin(k, p->overwrite, err);
	if (rc != 0) {
		for (unsigned int i = 0; i < k->nb_sources; i++)
			release_control(&k->sources[i]);
		capture_free(k);
		return rc;
	}
	for (unsigned int i = 0; i < n; i++)
		set_taps(&k->sources[i], &k->sources[i].tap);
	*out = k;
	return 0;
}

void
capture_status(const struct capture *k, struct capture_stats *out)
{
	*out = k->stats;
	out->packets = atomic_load_explicit(&k->packets, memory_order_relaxed);
	out->bytes = atomic_load_explicit(&k->bytes, memory_order_relaxed);
	for (unsigned int i = 0; i < k->nb_sources; i++)
		for (unsigned int p = 0; p < UROCE_MAX_PORTS; p++)
			out->missed += atomic_load_explicit(&k->sources[i].missed[p], memory_order_relaxed);
}

/** Write how many packets each interface saw and missed. */
static void
end_file(struct capture *k)
{
	for (unsigned int i = 0; i < k->nb_sources; i++) {
		const struct source *s = &k->sources[i];

		for (unsigned int p = 0; p < s->control->s.nb_ports; p++)
			if (s->ports >> p & 1)
				pcapng_statistics(k->f, s->interface[p], control_now_ns() + k->to_wall_ns, s->seen[p], s->missed[p]);
	}
	if (fflush(k->f) != 0 && k->stats.error == 0)
		k->stats.error = errno;
}

void
capture_stop(struct capture *k, struct capture_stats *out)
{
	struct capture_stats s;

	for (unsigned int i = 0; i < k->nb_sources; i++)
		set_taps(&k->sources[i], NULL);
	atomic_store(&k->stop, true);
	pthread_join(k->writer, NULL);
	end_file(k);
	capture_status(k, &s);
	s.running = false;
	for (unsigned int i = 0; i < k->nb_sources; i++)
		release_control(&k->sources[i]);
	capture_free(k);
	if (out != NULL)
		*out = s;
}

/* ---- The capture of a single control ---- */
int
control_capture_start(struct control *c, const struct capture_params *p, int port, uint32_t qpn, char *err)
{
	struct capture_from from = { .control = c, .ports = port >= 0 ? UINT32_C(1) << port : UINT32_MAX, .qpn = qpn };
	struct capture *k;
	int rc;

	if (port >= (int)c->s.nb_ports)
		return config_fail(err, ENOENT, "there is no port %d: there are %u", port, c->s.nb_ports);
	if (p->file == NULL || p->file[0] != '/')
		return config_fail(err, EINVAL, "the file must be an absolute path, shorter than %d characters", CAPTURE_FILE_BYTES);
	/* With the lock held nobody can end the capture before it has begun. */
	control_lock(c);
	rc = capture_start(p, &from, 1, &k, err);
	if (rc == 0) {
		k->own = true;
		CTL_LOG(NOTICE, "capture into %s begins", p->file);
	}
	control_unlock(c);
	return rc;
}

bool
control_capture_status(struct control *c, struct capture_stats *out)
{
	*out = (struct capture_stats){ 0 };
	control_lock(c);
	if (c->capture != NULL)
		capture_status(c->capture, out);
	control_unlock(c);
	return out->running;
}

int
control_capture_stop(struct control *c, struct capture_stats *out)
{
	int rc = 0;

	*out = (struct capture_stats){ 0 };
	control_lock(c);
	if (c->capture == NULL) {
		rc = ENOENT;
	} else if (!c->capture->own) {
		rc = EPERM;
	} else {
		capture_stop(c->capture, out);
		CTL_LOG(NOTICE, "capture into %s ends: %lu packets, %lu missed%s%s", out->file, (unsigned long)out->packets,
			(unsigned long)out->missed, out->error != 0 ? ", " : "", out->error != 0 ? strerror(out->error) : "");
	}
	control_unlock(c);
	return rc;
}
