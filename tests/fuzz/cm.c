/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/cm: two connection managers, their owners and the wire between them, all in the hands of the input: it connects, listens,
 * accepts and lets go, delivers MADs in any order, twice, changed or not at all, forges others, and lets time pass. At the end
 * everything is let go, and nothing may be left when all timers have run.
 */
#include <string.h>

#include "cm/cm.h"
#include "fuzz.h"

enum {
	CONNS = 8,      /* that an owner keeps; it drops further requests at once */
	LISTENERS = 2,
	WIRE = 16,      /* MADs under way to an end; further ones are lost */
	MAX_CONNS = 12,
	MAX_PER_PEER = 10,
	MAX_HALF_OPEN = 6,
	MAX_KEPT = 4,
	SERVICES = 3,
	QPNS = 4,
	TIMERS_MAX = 100000,
};
#define SERVICE UINT64_C(0x1000000001060042)
#define MS UINT64_C(1000000)

enum op {
	OP_CONNECT, OP_LISTEN, OP_UNLISTEN, OP_ACCEPT, OP_RTU, OP_REJECT, OP_MRA, OP_ESTABLISH, OP_DISCONNECT, OP_APR,
	OP_DESTROY, OP_SIDR, OP_SIDR_REPLY, OP_DELIVER, OP_DELIVER_ALL, OP_LOSE, OP_CHANGED, OP_FORGE, OP_RAW, OP_WAIT, OPS
};

struct mad {
	struct cm_av av; /* as the receiver sees it */
	uint8_t bytes[CM_MAD_BYTES];
};

struct end {
	struct cm *cm;
	struct end *peer;
	struct gid gid;
	struct cm_conn *conns[CONNS];
	struct cm_listener *listeners[LISTENERS];
	struct mad in[WIRE]; /* under way to this end */
	unsigned int nb_in;
};

static struct end ends[2];
static uint64_t now;

static struct cm_av
turned(const struct cm_av *av)
{
	struct cm_av t = *av;

	t.local_gid = av->remote_gid;
	t.remote_gid = av->local_gid;
	return t;
}

static void
on_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
	struct end *to = ((struct end *)arg)->peer;

	if (to->nb_in == WIRE)
		return;
	to->in[to->nb_in].av = turned(av);
	memcpy(to->in[to->nb_in++].bytes, mad, CM_MAD_BYTES);
}

static void
on_event(void *arg, const struct cm_event *ev)
{
	struct end *e = arg;
	volatile uint8_t read;
	uint32_t n;

	FUZZ_CHECK(ev->type < CM_NB_EVENTS && ev->state < CM_NB_STATES && cm_event_name(ev->type) != NULL);
	FUZZ_CHECK(ev->state == cm_conn_state(ev->conn) && cm_state_name(ev->state) != NULL);
	FUZZ_CHECK((ev->msg == NULL) == (ev->av == NULL));
	if (ev->msg != NULL) {
		const uint8_t *data = cm_msg_private(ev->msg, &n);
		struct cm_ip_hdr ip;

		for (uint32_t i = 0; i < n; i++)
			read = data[i];
		cm_ip_hdr_get(data, n, &ip);
	}
	if (ev->type == CM_EV_REJECTED)
		FUZZ_CHECK(cm_rej_reason_name(ev->reason) != NULL);
	(void)read;
	if (ev->type != CM_EV_REQUEST && ev->type != CM_EV_SIDR_REQUEST)
		return;
	for (unsigned int i = 0; i < CONNS; i++) {
		if (e->conns[i] == ev->conn)
			return; /* of a peer-to-peer pair */
	}
	for (unsigned int i = 0; i < CONNS; i++) {
		if (e->conns[i] == NULL) {
			e->conns[i] = ev->conn;
			cm_conn_set_owner(ev->conn, e);
			return;
		}
	}
	cm_destroy(ev->conn, now);
}

static void
ends_begin(void)
{
	static const struct cm_config limits = { .max_conns = MAX_CONNS, .max_per_peer = MAX_PER_PEER, .max_listeners = 3,
						 .max_half_open = MAX_HALF_OPEN, .max_kept = MAX_KEPT,
						 .ops = { on_send, on_event } };

	now = 5000 * MS;
	memset(ends, 0, sizeof(ends));
	for (unsigned int i = 0; i < 2; i++) {
		struct cm_config c = limits;

		ends[i].peer = &ends[!i];
		ends[i].gid = (struct gid){ { [10] = 0xff, [11] = 0xff, 198, 18, 0, (uint8_t)(i + 1) } };
		c.secret.key[0] = 1000 + i;
		c.arg = &ends[i];
		ends[i].cm = cm_open(&c, now);
		FUZZ_CHECK(ends[i].cm != NULL);
	}
}

/** Run all timers up to @p end. */
static void
pass(uint64_t end)
{
	uint64_t next, other;

	for (unsigned int i = 0;; i++) {
		next = cm_next_timeout(ends[0].cm);
		other = cm_next_timeout(ends[1].cm);
		next = other < next ? other : next;
		if (next > end || next == UINT64_MAX)
			break;
		/* Each ends some day. */
		FUZZ_CHECK(i < TIMERS_MAX);
		now = next > now ? next : now;
		cm_run(ends[0].cm, now);
		cm_run(ends[1].cm, now);
	}
	if (end != UINT64_MAX)
		now = end;
}

static void
ends_end(void)
{
	struct cm_usage u;

	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int k = 0; k < LISTENERS; k++)
			if (ends[i].listeners[k] != NULL)
				cm_unlisten(ends[i].cm, ends[i].listeners[k]);
		for (unsigned int k = 0; k < CONNS; k++)
			if (ends[i].conns[k] != NULL)
				cm_destroy(ends[i].conns[k], now);
	}
	pass(UINT64_MAX);
	for (unsigned int i = 0; i < 2; i++) {
		cm_usage(ends[i].cm, &u);
		FUZZ_CHECK(u.conns == 0 && u.half_open == 0 && u.kept == 0 && u.listeners == 0 && u.peers == 0 && u.timers == 0);
		cm_close(ends[i].cm);
	}
}

/* ---- What the input chooses ---- */
static struct cm_av
path_of(const struct end *e, struct fuzz_in *in)
{
	struct cm_av av = { .local_gid = e->gid, .remote_gid = e->peer->gid, .pkey = 0xffff, .hop_limit = 64 };
	uint8_t odd = fuzz_u8(in);

	if (odd > 250)
		av.remote_gid.raw[15] = odd; /* somebody else */
	return av;
}

static uint64_t
service(struct fuzz_in *in)
{
	return SERVICE + fuzz_below(in, SERVICES);
}

static uint32_t
qpn(struct fuzz_in *in)
{
	uint8_t n = fuzz_u8(in);

	return n > 250 ? n - 251u : 0x10u + n % QPNS;
}

/** Private data: the message's own length, or longer than it may be. */
static struct cm_private
data_of(struct fuzz_in *in)
{
	static const uint8_t bytes[CM_MAD_BYTES] = { 0, 0x40, 1, 2, 3 };
	uint8_t n = fuzz_u8(in);

	return (struct cm_private){ bytes, n };
}

static void
do_connect(struct end *e, struct cm_conn **slot, struct fuzz_in *in)
{
	struct cm_connect_param p = { .av = path_of(e, in), .service_id = service(in), .ca_guid = (uint64_t)(e - ends) + 1,
				      .qpn = qpn(in), .qkey = 1, .owner = e };

	p.transport = fuzz_below(in, 4);
	p.path_mtu = (uint8_t)(1 + fuzz_below(in, 6));
	p.retry_count = p.rnr_retry_count = fuzz_u8(in);
	p.packet_life = fuzz_u8(in);
	p.ack_timeout = fuzz_u8(in);
	p.remote_response_timeout = fuzz_u8(in);
	p.local_response_timeout = fuzz_u8(in);
	p.max_cm_retries = fuzz_u8(in);
	p.peer_to_peer = fuzz_below(in, 2);
	p.private_data = data_of(in);
	if (*slot == NULL)
		*slot = cm_connect(e->cm, &p, now);
}

static void
do_listen(struct end *e, struct fuzz_in *in)
{
	struct cm_listener **l = &e->listeners[fuzz_below(in, LISTENERS)];
	struct cm_listen_param p = { .service_id = service(in), .scope = fuzz_below(in, 4), .gid = e->gid };

	p.backlog = fuzz_below(in, 4);
	if (*l == NULL)
		*l = cm_listen(e->cm, &p);
}

static void
do_accept(struct cm_conn *c, struct fuzz_in *in)
{
	struct cm_accept_param p = { .qpn = qpn(in), .qkey = 1, .starting_psn = 7, .responder_resources = fuzz_u8(in) };

	p.initiator_depth = fuzz_u8(in);
	p.target_ack_delay = fuzz_u8(in);
	p.rnr_retry_count = fuzz_u8(in);
	p.private_data = data_of(in);
	cm_accept(c, &p, now);
}

static void
do_sidr(struct end *e, struct cm_conn **slot, struct fuzz_in *in)
{
	struct cm_sidr_param p = { .av = path_of(e, in), .service_id = service(in), .owner = e };

	p.timeout_ns = (uint64_t)fuzz_u8(in) * 10 * MS;
	p.max_retries = fuzz_u8(in) % 16;
	p.private_data = data_of(in);
	if (*slot == NULL)
		*slot = cm_sidr_request(e->cm, &p, now);
}

static void
do_sidr_reply(struct cm_conn *c, struct fuzz_in *in)
{
	struct cm_sidr_reply_param p = { .status = fuzz_below(in, 6), .qpn = qpn(in), .qkey = 1 };

	p.info = data_of(in);
	p.private_data = data_of(in);
	cm_sidr_reply(c, &p, now);
}

/** What an owner does with a connection that it has. */
static void
run_conn(enum op op, struct cm_conn **slot, struct fuzz_in *in)
{
	struct cm_private info, data;
	struct cm_conn *c = *slot;
	uint16_t value = fuzz_u8(in);

	if (c == NULL)
		return;
	info = op == OP_REJECT || op == OP_APR ? data_of(in) : (struct cm_private){ 0 };
	data = data_of(in);
	switch (op) {
	case OP_RTU:
		cm_rtu(c, data, now);
		break;
	case OP_REJECT:
		cm_reject(c, value, info, data, now);
		break;
	case OP_MRA:
		cm_mra(c, (uint8_t)value, data, now);
		break;
	case OP_ESTABLISH:
		cm_establish(c, now);
		break;
	case OP_DISCONNECT:
		cm_disconnect(c, data, now);
		break;
	case OP_APR:
		cm_apr(c, (uint8_t)value, info, data);
		break;
	default:
		*slot = NULL;
		cm_destroy(c, now);
		break;
	}
}

/* ---- The wire ---- */
/** @param genuine  As the other end sent it: it can be read. */
static void
arrive(struct end *e, const struct cm_av *av, const uint8_t *mad, size_t size, bool genuine)
{
	uint8_t again[CM_MAD_BYTES];
	struct cm_msg m, n;

	memset(&m, 0, sizeof(m));
	memset(&n, 0, sizeof(n));
	if (cm_mad_decode(mad, size, &m) == CM_MAD_OK) {
		cm_mad_encode(&m, again);
		FUZZ_CHECK(cm_mad_decode(again, sizeof(again), &n) == CM_MAD_OK && memcmp(&m, &n, sizeof(m)) == 0);
	} else {
		FUZZ_CHECK(!genuine);
	}
	cm_rx(e->cm, av, mad, size, now);
}

/** @param keep  It arrives again later. */
static void
deliver(struct end *e, unsigned int i, bool keep, struct fuzz_in *changes)
{
	bool genuine = fuzz_left(changes) < 2;
	struct mad m;

	if (e->nb_in == 0)
		return;
	i %= e->nb_in;
	m = e->in[i];
	if (!keep)
		memmove(&e->in[i], &e->in[i + 1], (--e->nb_in - i) * sizeof(m));
	while (fuzz_left(changes) >= 2) {
		uint8_t at = fuzz_u8(changes);

		m.bytes[at] ^= fuzz_u8(changes);
	}
	arrive(e, &m.av, m.bytes, sizeof(m.bytes), genuine);
}

static void
deliver_all(void)
{
	struct fuzz_in none = { 0 };

	for (unsigned int i = 0; i < 4 * WIRE && ends[0].nb_in + ends[1].nb_in > 0; i++) {
		deliver(&ends[0], 0, false, &none);
		deliver(&ends[1], 0, false, &none);
	}
}

/** A MAD of the right kind about a connection that there is, with anything in its other fields. */
static void
forge(struct end *e, const struct cm_conn *c, struct fuzz_in *in)
{
	struct cm_av av = path_of(e, in);
	uint8_t mad[CM_MAD_BYTES], flags, attr = fuzz_u8(in) % CM_ATTR_COUNT;
	struct cm_msg m;

	cm_msg_init(&m, CM_ATTR_FIRST + attr, fuzz_u8(in));
	memset((uint8_t *)&m + sizeof(m.hdr), 0, sizeof(m) - sizeof(m.hdr));
	cm_mad_encode(&m, mad);
	flags = fuzz_u8(in);
	fuzz_bytes(in, mad + CM_MAD_HDR_BYTES, CM_MAD_DATA_BYTES);
	/* All but REQ and the SIDR pair begin with the sender's ID and the receiver's. */
	if (c != NULL && (flags & 1) != 0) {
		uint32_t id = __builtin_bswap32(cm_conn_local_id(c));

		memcpy(mad + CM_MAD_HDR_BYTES + 4, &id, sizeof(id));
	}
	if (c != NULL && (flags & 2) != 0) {
		uint32_t id = __builtin_bswap32(cm_conn_remote_id(c));

		memcpy(mad + CM_MAD_HDR_BYTES, &id, sizeof(id));
	}
	if (c != NULL && (flags & 4) != 0)
		av = *cm_conn_av(c);
	arrive(e, &av, mad, sizeof(mad), false);
}

static void
raw(struct end *e, struct fuzz_in *in)
{
	struct cm_av av = path_of(e, in);

	arrive(e, &av, in->at, fuzz_left(in), false);
}

static void
run(enum op op, struct fuzz_in *in)
{
	uint8_t who = fuzz_u8(in);
	struct end *e = &ends[who & 1];
	struct cm_conn **slot = &e->conns[who / 2 % CONNS];
	struct cm_listener **l;

	switch (op) {
	case OP_CONNECT:
		do_connect(e, slot, in);
		break;
	case OP_LISTEN:
		do_listen(e, in);
		break;
	case OP_UNLISTEN:
		l = &e->listeners[fuzz_below(in, LISTENERS)];
		if (*l != NULL)
			cm_unlisten(e->cm, *l);
		*l = NULL;
		break;
	case OP_ACCEPT:
		if (*slot != NULL)
			do_accept(*slot, in);
		break;
	case OP_SIDR:
		do_sidr(e, slot, in);
		break;
	case OP_SIDR_REPLY:
		if (*slot != NULL)
			do_sidr_reply(*slot, in);
		break;
	case OP_DELIVER:
		deliver(e, fuzz_u8(in), fuzz_below(in, 4) == 3, &(struct fuzz_in){ 0 });
		break;
	case OP_DELIVER_ALL:
		deliver_all();
		break;
	case OP_LOSE:
		e->nb_in = 0;
		break;
	case OP_CHANGED:
		deliver(e, fuzz_u8(in), true, in);
		break;
	case OP_FORGE:
		forge(e, *slot, in);
		break;
	case OP_RAW:
		raw(e, in);
		break;
	case OP_WAIT:
		pass(now + fuzz_u16(in) * MS);
		break;
	default:
		run_conn(op, slot, in);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size), body;
	uint8_t kind;

	ends_begin();
	while (fuzz_chunk(&in, &kind, &body))
		run(kind % OPS, &body);
	ends_end();
	return 0;
}

FUZZ_PROGRAM(14, NULL)
