/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts, thousands of connections, a link that loses, repeats and reorders MADs, programs that reject,
 * dawdle and die, hosts that are started anew, a link that is down for a while; a virtual clock, and everything
 * from one seed.
 *
 * Each round opens connections both ways, waits until nothing moves, and checks that the two ends of each
 * agree: both established, knowing each other's IDs, or neither. Then all are ended, from one side, from the
 * other, from both at once or by a death, and both CMs must be empty after TimeWait. All the while an observer (sim_watch.c)
 * checks each MAD, each timer, each event and what is counted. A failure prints the seed: test_cm_sim SEED repeats it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../sim/marks.h"
#include "sim.h"

enum {
	ROUNDS = 4,
	DEFAULT_SEEDS = 60,
	DEFAULT_KEPT = 64,
	MAX_LOSS_PPM = 150000, /* 16 transmissions with 15 % lost each way: all lost once in 10^9 */
	MAX_DUP_PPM = 100000,
};
#define ROUND_NS (500 * MS)
#define SETTLE_NS (60000 * MS)
#define BLACKOUT_NS (8000 * MS) /* 16 transmissions take 5.4 s */

void
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

/* ---- Hosts ---- */
struct gid
host_gid(const struct world *w, unsigned int number)
{
	if (w->ipv6)
		return (struct gid){ { 0x20, 0x01, 0x0d, 0xb8, [15] = (uint8_t)(1 + number) } };
	return (struct gid){ { [10] = 0xff, [11] = 0xff, 198, 18, 0, (uint8_t)(1 + number) } };
}

uint64_t
host_guid(unsigned int number)
{
	return UINT64_C(0x0123456789abcdef) * (number + 1);
}

struct cm_av
host_av(const struct world *w, unsigned int number)
{
	return (struct cm_av){
		.local_gid = host_gid(w, number), .remote_gid = host_gid(w, !number), .pkey = 0xffff, .hop_limit = 64
	};
}

void
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

	watch_send(arg, av, mad);
	if (w->now < w->dark_until || (h->doing->what == ARRIVAL && h->doing->bad))
		return;
	if (!rng_chance(&w->rng, w->loss_ppm))
		carry(w, !h->number, av, mad);
	if (rng_chance(&w->rng, w->dup_ppm))
		carry(w, !h->number, av, mad);
}

static bool
qp_gone(void *arg, void *owner)
{
	const struct host *h = arg;

	return h->gone == owner;
}

uint32_t
max_kept(const struct world *w)
{
	return w->limits.kept != 0 ? w->limits.kept : DEFAULT_KEPT;
}

static void
host_listens(struct host *h, enum cm_listen_scope scope, uint64_t service)
{
	struct cm_listen_param lp = {
		.service_id = service, .backlog = h->w->limits.backlog, .scope = scope, .gid = host_gid(h->w, h->number), .owner = &h->listeners[scope]
	};
	struct cm_listener **at = &h->listeners[scope];

	if (service == TCP_SERVICE) {
		at = &h->tcp;
		lp.owner = at;
	}
	*at = cm_listen(h->cm, &lp);
	if (*at == NULL)
		failed(h->w, "host %u can't listen", h->number);
}

void
host_start(struct world *w, unsigned int number)
{
	struct host *h = &w->hosts[number];
	struct cm_config cfg = {
		.max_conns = MAX_CONNS,
		.max_kept = max_kept(w),
		.max_half_open = w->limits.half_open,
		.max_per_peer = w->limits.per_peer,
		.secret.key[0] = rng_next(&w->rng),
		.ops = { on_send, owner_event, qp_gone },
		.arg = h,
	};

	memset(h, 0, sizeof(*h));
	h->w = w;
	h->number = number;
	h->next_qpn = QPNS - 1; /* the first is the least that there is */
	h->cm = cm_open(&cfg, w->now);
	if (h->cm == NULL)
		failed(w, "host %u can't start", number);
	/* The most general one always; which of the others serve it depends on the seed (check_listener()). */
	host_listens(h, CM_LISTEN_ANY, SERVICE);
	host_listens(h, w->ipv6 ? CM_LISTEN_ANY_IPV4 : CM_LISTEN_ANY_IPV6, SERVICE);
	host_listens(h, w->ipv6 ? CM_LISTEN_ANY_IPV6 : CM_LISTEN_ANY_IPV4, w->seed % 2 != 0 ? SERVICE : SERVICE - 1);
	host_listens(h, CM_LISTEN_ANY, TCP_SERVICE);
	host_listens(h, CM_LISTEN_GID, w->seed % 3 == 0 ? SERVICE : SERVICE - 1);
}

/* All its connections are gone without a word, and its QPs get the same numbers again. */
static void
host_reboot(struct world *w, unsigned int number)
{
	struct host *h = &w->hosts[number];

	cm_close(h->cm);
	w->rebooted = true;
	for (unsigned int i = 0; i < PAIRS; i++) {
		struct pair *p = &w->pairs[i];

		for (unsigned int side = 0; side < 2; side++)
			if (p->serial != 0 && p->host[side] == number) {
				p->conn[side] = NULL;
				p->over[side] = p->torn = true;
			}
	}
	for (struct asker *a = w->askers; a < w->askers + ASKERS; a++) {
		a->conn[a->host == number ? ACTIVE : PASSIVE] = NULL;
		a->asked &= a->host == number;
		a->cut = true;
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
	for (unsigned int i = 0; i < ASKERS; i++)
		w->askers[i].cut = true;
}

/* ---- What happens ---- */
static void
happen(struct world *w, const struct item *it)
{
	switch (it->what) {
	case MAD:
		hostile_maybe(w, it);
		watch_arrival(w, it->host, &it->av, it->mad, sizeof(it->mad), false, 0);
		break;
	case REBOOT:
		host_reboot(w, it->host);
		break;
	case REPLACE:
		host_replace(w, it->host);
		break;
	case BLACKOUT:
		blackout(w);
		break;
	case ASK:
	case REPLY:
		sidr_acts(w, it);
		break;
	default:
		owner_acts(w, it);
	}
}

static void
run_timers(struct world *w)
{
	for (struct host *h = w->hosts; h < w->hosts + 2; h++) {
		struct doing d = { .what = TIMER };

		watch_begin(h, &d);
		cm_run(h->cm, w->now);
		watch_end(h, &d);
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
			run_timers(w);
			continue;
		}
		it = next_item(w);
		forge_maybe(w);
		happen(w, it);
		free(it);
	}
	w->now = end;
}

/* ---- What must hold ---- */
static void
check_agreement(struct world *w)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		struct pair *p = &w->pairs[i];

		for (unsigned int side = 0; side < 2; side++) {
			if (p->conn[side] == NULL || watch_established(p, side))
				continue;
			failed(w, "pair %u side %u: still in %s", i, side, cm_state_name(cm_conn_state(p->conn[side])));
		}
		if (p->torn || p->cut)
			continue;
		if (watch_established(p, ACTIVE) != watch_established(p, PASSIVE))
			failed(w, "pair %u: only side %u is established", i, watch_established(p, PASSIVE));
		if (watch_established(p, ACTIVE) &&
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
	sidr_plan(w);
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

/* Whose peer couldn't tell it that it is over ends on its own. */
static bool
end_left(struct world *w)
{
	bool some = false;

	for (uint32_t i = 0; i < PAIRS; i++)
		for (unsigned int side = 0; side < 2; side++)
			if (w->pairs[i].cut && watch_established(&w->pairs[i], side)) {
				plan_for(w, 30 * MS, DISCONNECT, i, side);
				some = true;
			}
	return some;
}

static void
run_seed(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->rng = rng_stream(seed, 1);
	w->bad_rng = rng_stream(seed, 2);
	w->data_rng = rng_stream(seed, 3);
	w->ipv6 = seed % 5 == 0;
	w->loss_ppm = (uint32_t)rng_below(&w->rng, MAX_LOSS_PPM);
	w->dup_ppm = (uint32_t)rng_below(&w->rng, MAX_DUP_PPM);
	/* Half of the seeds have a limit that some reach. */
	switch (seed % 8) {
	case 0:
		w->limits.half_open = (uint32_t)rng_between(&w->data_rng, 2, 12);
		break;
	case 2:
		w->limits.backlog = (uint32_t)rng_between(&w->data_rng, 1, 8);
		break;
	case 4:
		w->limits.per_peer = (uint32_t)rng_between(&w->data_rng, 3, 40);
		break;
	case 6:
		w->limits.kept = (uint32_t)rng_between(&w->data_rng, 1, 4);
		break;
	default:
		break;
	}
	host_start(w, 0);
	host_start(w, 1);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		open_all(w);
		if (rng_one_in(&w->rng, 6))
			plan(w, rng_below(&w->rng, ROUND_NS), REBOOT)->host = (unsigned int)rng_below(&w->rng, 2);
		if (rng_one_in(&w->rng, 8))
			plan(w, rng_below(&w->rng, ROUND_NS), BLACKOUT);
		if (rng_one_in(&w->data_rng, 4))
			plan(w, rng_below(&w->data_rng, 2 * ROUND_NS), REPLACE)->host = (unsigned int)rng_below(&w->data_rng, 2);
		run_until(w, w->now + SETTLE_NS);
		check_agreement(w);
		if (rng_one_in(&w->rng, 8))
			blackout(w);
		end_all(w);
		if (rng_one_in(&w->data_rng, 4))
			plan(w, rng_below(&w->data_rng, 200 * MS), REPLACE)->host = (unsigned int)rng_below(&w->data_rng, 2);
		run_until(w, w->now + SETTLE_NS);
		if (end_left(w))
			run_until(w, w->now + SETTLE_NS);
		check_empty(w);
		watch_counted(w);
		w->rebooted = false;
	}
	cm_close(w->hosts[0].cm);
	cm_close(w->hosts[1].cm);
}

int
main(int argc, char **argv)
{
	static struct world w;
	uint64_t first = 1, last = DEFAULT_SEEDS, established = 0, rejected = 0, died = 0, unreachable = 0, stale = 0;
	uint64_t both = 0, comm_est = 0, ghosts = 0, bad = 0, laps = 0, sidr = 0, replaced = 0, forged = 0;

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
		bad += w.nb_bad;
		laps += w.nb_laps;
		sidr += w.nb_sidr;
		replaced += w.nb_replaced;
		forged += w.nb_forged;
	}
	printf("%" PRIu64 " connections: %" PRIu64 " established (%" PRIu64 " by COMM_EST), ",
	       (last - first + 1) * ROUNDS * PAIRS, established, comm_est);
	printf("%" PRIu64 " rejected (%" PRIu64 " stale), %" PRIu64 " unreachable, %" PRIu64 " late requests, ",
	       rejected, stale, unreachable, ghosts);
	printf("%" PRIu64 " programs died, %" PRIu64 " ended from both sides, ", died, both);
	printf("%" PRIu64 " bad MADs and calls, %" PRIu64 " LAPs, %" PRIu64 " SIDR_REQs answered, %" PRIu64 " CMs replaced, %" PRIu64
	       " connections that look stale\n", bad, laps, sidr, replaced, forged);
	if (first != last)
		marks_print(false);
	if (first != last && (established == 0 || rejected == 0 || died == 0 || both == 0 || comm_est == 0 ||
			      unreachable == 0 || forged == 0 || replaced == 0 || bad == 0 || laps == 0 || sidr == 0)) {
		fprintf(stderr, "the seeds don't cover what they should\n");
		return 1;
	}
	return 0;
}
