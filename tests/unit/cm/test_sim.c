/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts, thousands of connections, a link that loses, repeats and reorders MADs, programs that reject,
 * dawdle and die, hosts that are started anew, a link that is down for a while; a virtual clock, and everything
 * from one seed.
 *
 * Each round opens connections both ways, waits until nothing moves, and checks that the two ends of each
 * agree: both established, knowing each other's IDs, or neither. Then all are ended, from one side, from the
 * other, from both at once or by a death, and both CMs must be empty after TimeWait. A failure prints the seed:
 * test_sim SEED repeats it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../sim/marks.h"
#include "../../sim/rng.h"
#include "cm/cm.h"

enum {
	ACTIVE = 0,
	PASSIVE = 1,
	PAIRS = 120,
	ROUNDS = 4,
	DEFAULT_SEEDS = 60,
	QUEUE_MAX = 1 << 16,
	QPNS = 1024,
	MAX_LOSS_PPM = 150000, /* 16 transmissions with 15 % lost each way: all lost once in 10^9 */
	MAX_DUP_PPM = 100000,
	RESPONSE_TIMEOUT = 16, /* 268 ms */
	PACKET_LIFE = 13,      /* 34 ms, so TimeWait is 67 ms: longer than a MAD may be under way */
	MAX_MRA = 18,
};
static const struct cm_private no_data;

#define MS UINT64_C(1000000)
#define MAX_DELAY_NS (30 * MS)
#define ROUND_NS (500 * MS)
#define SETTLE_NS (60000 * MS)
#define BLACKOUT_NS (8000 * MS) /* 16 transmissions take 5.4 s */
#define SERVICE UINT64_C(0x1000000000000042)

enum what { MAD, CONNECT, ACCEPT, REJECT, RTU, COMM_EST, DISCONNECT, DIE, REBOOT, BLACKOUT };

struct item {
	uint64_t at, order;
	enum what what;
	unsigned int host;   /* MAD: to which; REBOOT: which */
	uint32_t pair;
	unsigned int side;
	uint32_t serial;     /* of the pair when this was planned */
	struct cm_av av;
	uint8_t mad[CM_MAD_BYTES];
};

/* The two ends of a connection as their owners see them. */
struct pair {
	uint32_t serial;         /* another for each round; 0: not in use */
	unsigned int host[2];    /* where the active and the passive end are */
	struct cm_conn *conn[2]; /* NULL: not yet, or destroyed */
	uint32_t qpn[2];
	bool established[2], over[2];
	bool asked;              /* the REQUEST has come */
	bool torn;               /* one of its hosts was started anew */
	bool cut;                /* the link was down for longer than all repetitions */
};

struct host {
	struct world *w;
	struct cm *cm;
	unsigned int number;
	bool qpn_used[QPNS];
	uint32_t next_qpn;
};

struct world {
	uint64_t seed, now, order, dark_until;
	struct rng rng;
	uint32_t loss_ppm, dup_ppm, serial;
	struct host hosts[2];
	struct pair pairs[PAIRS];
	struct item *queue[QUEUE_MAX];
	uint32_t nb_queue;
	uint64_t nb_established, nb_rejected, nb_stale, nb_died, nb_unreachable, nb_both, nb_ghosts, nb_comm_est;
};

static void
failed(const struct world *w, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "seed %" PRIu64 ", %.3f ms: ", w->seed, (double)w->now / 1e6);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/* ---- The queue of what will happen ---- */
static bool
before(const struct item *a, const struct item *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static struct item *
plan(struct world *w, uint64_t delay_ns, enum what what)
{
	struct item *it = calloc(1, sizeof(*it));
	uint32_t i = w->nb_queue++;

	if (it == NULL || w->nb_queue > QUEUE_MAX)
		failed(w, "too much to do at once");
	it->at = w->now + delay_ns;
	it->order = w->order++;
	it->what = what;
	for (; i > 0 && before(it, w->queue[(i - 1) / 2]); i = (i - 1) / 2)
		w->queue[i] = w->queue[(i - 1) / 2];
	w->queue[i] = it;
	return it;
}

static struct item *
next_item(struct world *w)
{
	struct item *top = w->queue[0], *last = w->queue[--w->nb_queue];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w->nb_queue) {
		if (child + 1 < w->nb_queue && before(w->queue[child + 1], w->queue[child]))
			child++;
		if (before(last, w->queue[child]))
			break;
		w->queue[i] = w->queue[child];
		i = child;
	}
	w->queue[i] = last;
	return top;
}

static void
plan_for(struct world *w, uint64_t max_delay_ns, enum what what, uint32_t pair, unsigned int side)
{
	struct item *it = plan(w, rng_below(&w->rng, max_delay_ns + 1), what);

	it->pair = pair;
	it->side = side;
	it->serial = w->pairs[pair].serial;
}

/* ---- Hosts ---- */
static struct gid
host_gid(unsigned int number)
{
	return (struct gid){ { [10] = 0xff, [11] = 0xff, 198, 18, 0, (uint8_t)(1 + number) } };
}

static uint64_t
host_guid(unsigned int number)
{
	return UINT64_C(0x1111111111111111) * (number + 1);
}

static struct cm_av
host_av(unsigned int number)
{
	return (struct cm_av){
		.local_gid = host_gid(number), .remote_gid = host_gid(!number), .pkey = 0xffff, .hop_limit = 64
	};
}

static uint32_t
qpn_take(struct host *h)
{
	for (unsigned int i = 0; i < QPNS; i++) {
		h->next_qpn = (h->next_qpn + 1) % QPNS;
		if (!h->qpn_used[h->next_qpn]) {
			h->qpn_used[h->next_qpn] = true;
			return h->next_qpn + 16;
		}
	}
	failed(h->w, "host %u: no QPN is free", h->number);
	return 0;
}

static void
carry(struct world *w, unsigned int to, const struct cm_av *av, const uint8_t *mad)
{
	struct item *it = plan(w, rng_between(&w->rng, 10000, MAX_DELAY_NS), MAD);

	it->host = to;
	it->av = *av;
	it->av.local_gid = av->remote_gid;
	it->av.remote_gid = av->local_gid;
	memcpy(it->mad, mad, CM_MAD_BYTES);
}

static void
on_send(void *arg, const struct cm_av *av, const uint8_t *mad)
{
	struct host *h = arg;
	struct world *w = h->w;

	if (w->now < w->dark_until)
		return;
	if (!rng_chance(&w->rng, w->loss_ppm))
		carry(w, !h->number, av, mad);
	if (rng_chance(&w->rng, w->dup_ppm))
		carry(w, !h->number, av, mad);
}

/* ---- Owners ---- */
static void *
owner_of(uint32_t pair, unsigned int side)
{
	return (void *)(uintptr_t)(2 * pair + side + 1);
}

static void
let_go(struct world *w, struct pair *p, unsigned int side, bool died)
{
	struct cm_conn *c = p->conn[side];

	/* The number of a QP that dies with its program is the CM's to wait for: not used again in this world. */
	if (!died && p->qpn[side] != 0)
		w->hosts[p->host[side]].qpn_used[p->qpn[side] - 16] = false;
	p->conn[side] = NULL;
	p->over[side] = true;
	cm_destroy(c, w->now);
}

static void
on_request(struct host *h, const struct cm_event *ev)
{
	struct world *w = h->w;
	struct pair *p;
	uint32_t idx, serial;

	memcpy(&idx, ev->msg->req.private_data, sizeof(idx));
	memcpy(&serial, ev->msg->req.private_data + sizeof(idx), sizeof(serial));
	p = &w->pairs[idx];
	/* A late copy of a REQ of a connection that is over: the owner can't tell; here it is refused. */
	if (p->serial != serial || p->over[PASSIVE]) {
		w->nb_ghosts++;
		cm_destroy(ev->conn, w->now);
		return;
	}
	if (p->asked)
		failed(w, "pair %u: a second REQUEST for one connection", idx);
	p->asked = true;
	p->conn[PASSIVE] = ev->conn;
	cm_conn_set_owner(ev->conn, owner_of(idx, PASSIVE));
	if (rng_one_in(&w->rng, 8))
		cm_mra(ev->conn, (uint8_t)rng_between(&w->rng, 14, MAX_MRA), no_data, w->now);
	plan_for(w, 200 * MS, rng_one_in(&w->rng, 10) ? REJECT : ACCEPT, idx, PASSIVE);
}

/* An event of a connection that the owner has. */
static void
on_pair_event(struct world *w, struct pair *p, uint32_t idx, unsigned int side, const struct cm_event *ev)
{
	switch (ev->type) {
	case CM_EV_RESPONSE:
		if (rng_one_in(&w->rng, 10))
			cm_mra(ev->conn, (uint8_t)rng_between(&w->rng, 14, MAX_MRA), no_data, w->now);
		plan_for(w, 100 * MS, rng_one_in(&w->rng, 15) ? REJECT : RTU, idx, ACTIVE);
		break;
	case CM_EV_ESTABLISHED:
		if (p->established[side])
			failed(w, "pair %u: established twice", idx);
		p->established[side] = true;
		w->nb_established++;
		break;
	case CM_EV_MRA:
		break;
	case CM_EV_DISCONNECT:
		p->over[side] = true;
		cm_disconnect(ev->conn, no_data, w->now);
		break;
	case CM_EV_REJECTED:
		p->over[side] = true;
		w->nb_rejected++;
		w->nb_stale += ev->reason == CM_REJ_STALE_CONN;
		if (ev->state == CM_IDLE)
			let_go(w, p, side, false);
		break;
	case CM_EV_UNREACHABLE:
		if (!p->cut && !p->torn)
			failed(w, "pair %u side %u: unreachable over a link that works", idx, side);
		p->over[side] = true;
		w->nb_unreachable++;
		if (ev->state == CM_IDLE)
			let_go(w, p, side, false);
		break;
	case CM_EV_DISCONNECTED:
		if (ev->timed_out && !p->cut && !p->torn)
			failed(w, "pair %u side %u: no DREP over a link that works", idx, side);
		p->over[side] = true;
		break;
	case CM_EV_TIMEWAIT_EXIT:
		if (!p->over[side])
			failed(w, "pair %u side %u: TimeWait without an end", idx, side);
		let_go(w, p, side, false);
		break;
	default:
		failed(w, "event %s out of place", cm_event_name(ev->type));
	}
}

static void
on_event(void *arg, const struct cm_event *ev)
{
	struct host *h = arg;
	struct world *w = h->w;
	unsigned int side;
	struct pair *p;
	uint32_t idx;

	if (ev->type == CM_EV_REQUEST) {
		on_request(h, ev);
		return;
	}
	if (ev->owner == NULL)
		failed(w, "%s without an owner", cm_event_name(ev->type));
	idx = (uint32_t)((uintptr_t)ev->owner - 1) / 2;
	side = ((uintptr_t)ev->owner - 1) & 1;
	p = &w->pairs[idx];
	if (p->conn[side] != ev->conn)
		failed(w, "%s for a connection that its owner doesn't have", cm_event_name(ev->type));
	if (p->over[side] && ev->type != CM_EV_TIMEWAIT_EXIT)
		failed(w, "pair %u side %u: %s after the end", idx, side, cm_event_name(ev->type));
	on_pair_event(w, p, idx, side, ev);
}

static void
host_start(struct world *w, unsigned int number)
{
	struct cm_listen_param lp = { .service_id = SERVICE, .scope = CM_LISTEN_ANY };
	struct host *h = &w->hosts[number];
	struct cm_config cfg = {
		.max_conns = 4 * PAIRS,
		.max_kept = 32,
		.secret.key[0] = rng_next(&w->rng),
		.ops = { on_send, on_event },
		.arg = h,
	};

	h->w = w;
	h->number = number;
	h->cm = cm_open(&cfg, w->now);
	if (h->cm == NULL || cm_listen(h->cm, &lp) == NULL)
		failed(w, "host %u can't start", number);
}

/* All its connections are gone without a word, and its QPs get the same numbers again. */
static void
host_reboot(struct world *w, unsigned int number)
{
	struct host *h = &w->hosts[number];

	cm_close(h->cm);
	memset(h->qpn_used, 0, sizeof(h->qpn_used));
	h->next_qpn = 0;
	for (unsigned int i = 0; i < PAIRS; i++) {
		struct pair *p = &w->pairs[i];

		for (unsigned int side = 0; side < 2; side++)
			if (p->serial != 0 && p->host[side] == number) {
				p->conn[side] = NULL;
				p->over[side] = p->torn = true;
			}
	}
	host_start(w, number);
}

/* Nothing gets through. The ends may come to disagree: who gave up can't tell the other. */
static void
blackout(struct world *w)
{
	w->dark_until = w->now + BLACKOUT_NS;
	for (unsigned int i = 0; i < PAIRS; i++)
		w->pairs[i].cut = true;
}

/* ---- What happens ---- */
static void
do_connect(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];
	struct host *h = &w->hosts[p->host[ACTIVE]];
	uint32_t tag[2] = { idx, p->serial };
	struct cm_connect_param cp = {
		.av = host_av(h->number),
		.service_id = SERVICE,
		.ca_guid = host_guid(h->number),
		.qpn = qpn_take(h),
		.path_mtu = 3,
		.packet_life = PACKET_LIFE,
		.remote_response_timeout = RESPONSE_TIMEOUT,
		.local_response_timeout = RESPONSE_TIMEOUT,
		.max_cm_retries = 15,
		.private_data = { tag, sizeof(tag) },
		.owner = owner_of(idx, ACTIVE),
	};

	p->qpn[ACTIVE] = cp.qpn;
	p->conn[ACTIVE] = cm_connect(h->cm, &cp, w->now);
	if (p->conn[ACTIVE] == NULL)
		failed(w, "pair %u: connect failed", idx);
	if (rng_one_in(&w->rng, 12))
		plan_for(w, 400 * MS, DIE, idx, (unsigned int)rng_below(&w->rng, 2));
}

static void
do_accept(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];
	struct host *h = &w->hosts[p->host[PASSIVE]];
	struct cm_accept_param ap = { .ca_guid = host_guid(h->number), .qpn = qpn_take(h) };

	p->qpn[PASSIVE] = ap.qpn;
	if (cm_accept(p->conn[PASSIVE], &ap, w->now) != 0)
		failed(w, "pair %u: accept in %s", idx, cm_state_name(cm_conn_state(p->conn[PASSIVE])));
}

static void
do_rtu(struct world *w, uint32_t idx)
{
	struct pair *p = &w->pairs[idx];

	if (cm_rtu(p->conn[ACTIVE], no_data, w->now) != 0)
		failed(w, "pair %u: RTU in %s", idx, cm_state_name(cm_conn_state(p->conn[ACTIVE])));
	p->established[ACTIVE] = true;
	/* Data may get there before the RTU does. */
	if (rng_one_in(&w->rng, 3))
		plan_for(w, 20 * MS, COMM_EST, idx, PASSIVE);
}

static void
happen(struct world *w, struct item *it)
{
	struct pair *p = &w->pairs[it->pair];
	struct cm_conn *c;

	if (it->what == MAD) {
		cm_rx(w->hosts[it->host].cm, &it->av, it->mad, sizeof(it->mad), w->now);
		return;
	}
	if (it->what == REBOOT) {
		host_reboot(w, it->host);
		return;
	}
	if (it->what == BLACKOUT) {
		blackout(w);
		return;
	}
	c = p->conn[it->side];
	if (it->serial != p->serial || (it->what != CONNECT && c == NULL))
		return;
	switch (it->what) {
	case CONNECT:
		if (!p->torn)
			do_connect(w, it->pair);
		break;
	case ACCEPT:
		if (!p->over[PASSIVE])
			do_accept(w, it->pair);
		break;
	case RTU:
		if (!p->over[ACTIVE])
			do_rtu(w, it->pair);
		break;
	case REJECT:
		if (!p->over[it->side]) {
			p->over[it->side] = true;
			cm_reject(c, CM_REJ_CONSUMER_DEFINED, no_data, no_data, w->now);
		}
		break;
	case COMM_EST:
		if (!p->over[PASSIVE] && cm_establish(c, w->now) == 0)
			w->nb_comm_est++;
		break;
	case DISCONNECT:
		cm_disconnect(c, no_data, w->now);
		break;
	default: /* DIE */
		w->nb_died++;
		let_go(w, p, it->side, true);
	}
}

static uint64_t
next_timer(const struct world *w)
{
	uint64_t a = cm_next_timeout(w->hosts[0].cm), b = cm_next_timeout(w->hosts[1].cm);

	return a < b ? a : b;
}

static void
run_until(struct world *w, uint64_t end)
{
	for (;;) {
		uint64_t at = next_timer(w);
		bool timer = w->nb_queue == 0 || at < w->queue[0]->at;
		struct item *it;

		if (!timer)
			at = w->queue[0]->at;
		if (at > end)
			break;
		if (at > w->now)
			w->now = at;
		if (timer) {
			cm_run(w->hosts[0].cm, w->now);
			cm_run(w->hosts[1].cm, w->now);
			continue;
		}
		it = next_item(w);
		happen(w, it);
		free(it);
	}
	w->now = end;
}

/* ---- What must hold ---- */
static bool
is_established(const struct pair *p, unsigned int side)
{
	return p->conn[side] != NULL && cm_conn_state(p->conn[side]) == CM_ESTABLISHED;
}

static void
check_agreement(struct world *w)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		struct pair *p = &w->pairs[i];

		for (unsigned int side = 0; side < 2; side++) {
			if (p->conn[side] == NULL || is_established(p, side))
				continue;
			failed(w, "pair %u side %u: still in %s", i, side, cm_state_name(cm_conn_state(p->conn[side])));
		}
		if (p->torn || p->cut)
			continue;
		if (is_established(p, ACTIVE) != is_established(p, PASSIVE))
			failed(w, "pair %u: only side %u is established", i, is_established(p, PASSIVE));
		if (is_established(p, ACTIVE) &&
		    (cm_conn_local_id(p->conn[ACTIVE]) != cm_conn_remote_id(p->conn[PASSIVE]) ||
		     cm_conn_local_id(p->conn[PASSIVE]) != cm_conn_remote_id(p->conn[ACTIVE])))
			failed(w, "pair %u: the ends disagree about their IDs", i);
	}
}

static void
check_empty(struct world *w)
{
	for (unsigned int i = 0; i < PAIRS; i++)
		for (unsigned int side = 0; side < 2; side++)
			if (w->pairs[i].conn[side] != NULL)
				failed(w, "pair %u side %u: still in %s", i, side,
				       cm_state_name(cm_conn_state(w->pairs[i].conn[side])));
	for (unsigned int i = 0; i < 2; i++) {
		struct cm_usage u;

		cm_usage(w->hosts[i].cm, &u);
		if (u.conns != 0 || u.half_open != 0 || u.kept != 0 || u.peers != 0 || u.timers != 0)
			failed(w, "host %u: left are %u connections, %u half open, %u kept, %u peers, %u timers", i,
			       u.conns, u.half_open, u.kept, u.peers, u.timers);
	}
}

/* ---- A round ---- */
static void
open_all(struct world *w)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct pair *p = &w->pairs[i];

		memset(p, 0, sizeof(*p));
		p->serial = ++w->serial;
		p->host[ACTIVE] = (unsigned int)rng_below(&w->rng, 2);
		p->host[PASSIVE] = !p->host[ACTIVE];
		plan_for(w, ROUND_NS, CONNECT, i, ACTIVE);
	}
}

static void
end_all(struct world *w)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		uint64_t how = rng_below(&w->rng, 5);

		/* Whose peer is gone, or out of reach, has to end it on its own. */
		if (w->pairs[i].torn || w->pairs[i].cut)
			how = 2;
		if (how == 0 || how == 2)
			plan_for(w, 30 * MS, DISCONNECT, i, ACTIVE);
		if (how == 1 || how == 2)
			plan_for(w, 30 * MS, DISCONNECT, i, PASSIVE);
		w->nb_both += how == 2;
		if (how == 3)
			plan_for(w, 30 * MS, DIE, i, ACTIVE);
		if (how == 4)
			plan_for(w, 30 * MS, DIE, i, PASSIVE);
	}
}

static void
run_seed(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->rng = rng_stream(seed, 1);
	w->loss_ppm = (uint32_t)rng_below(&w->rng, MAX_LOSS_PPM);
	w->dup_ppm = (uint32_t)rng_below(&w->rng, MAX_DUP_PPM);
	host_start(w, 0);
	host_start(w, 1);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		open_all(w);
		if (rng_one_in(&w->rng, 6))
			plan(w, rng_below(&w->rng, ROUND_NS), REBOOT)->host = (unsigned int)rng_below(&w->rng, 2);
		if (rng_one_in(&w->rng, 8))
			plan(w, rng_below(&w->rng, ROUND_NS), BLACKOUT);
		run_until(w, w->now + SETTLE_NS);
		check_agreement(w);
		if (rng_one_in(&w->rng, 8))
			blackout(w);
		end_all(w);
		run_until(w, w->now + SETTLE_NS);
		check_empty(w);
	}
	cm_close(w->hosts[0].cm);
	cm_close(w->hosts[1].cm);
}

int
main(int argc, char **argv)
{
	static struct world w;
	uint64_t first = 1, last = DEFAULT_SEEDS, established = 0, rejected = 0, died = 0, unreachable = 0, stale = 0;
	uint64_t both = 0, comm_est = 0, ghosts = 0;

	if (argc > 1)
		first = last = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		last = strtoull(argv[2], NULL, 0);
	for (uint64_t seed = first; seed <= last; seed++) {
		run_seed(&w, seed);
		established += w.nb_established;
		rejected += w.nb_rejected;
		died += w.nb_died;
		unreachable += w.nb_unreachable;
		stale += w.nb_stale;
		both += w.nb_both;
		comm_est += w.nb_comm_est;
		ghosts += w.nb_ghosts;
	}
	printf("%" PRIu64 " connections: %" PRIu64 " established (%" PRIu64 " by COMM_EST), ",
	       (last - first + 1) * ROUNDS * PAIRS, established, comm_est);
	printf("%" PRIu64 " rejected (%" PRIu64 " stale), %" PRIu64 " unreachable, %" PRIu64 " late requests, ",
	       rejected, stale, unreachable, ghosts);
	printf("%" PRIu64 " programs died, %" PRIu64 " ended from both sides\n", died, both);
	if (first != last)
		marks_print(false);
	if (first != last && (established == 0 || rejected == 0 || died == 0 || both == 0 || comm_est == 0 ||
			      unreachable == 0 || stale == 0)) {
		fprintf(stderr, "the seeds don't cover what they should\n");
		return 1;
	}
	return 0;
}
