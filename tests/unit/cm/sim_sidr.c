/* SPDX-License-Identifier: BSD-3-Clause */
/* Service ID resolution: programs that ask for a service's QP, and those that answer. */
#include <string.h>

#include "sim.h"

void *
owner_of_asker(uint32_t asker, unsigned int side)
{
	return (void *)(uintptr_t)(2 * PAIRS + 2 * asker + side + 1);
}

void
sidr_plan(struct world *w)
{
	for (uint32_t i = 0; i < ASKERS; i++) {
		struct item *it = plan(w, rng_below(&w->data_rng, 1000 * MS), ASK);

		memset(&w->askers[i], 0, sizeof(w->askers[i]));
		w->askers[i].serial = it->serial = ++w->serial;
		w->askers[i].host = (unsigned int)rng_below(&w->data_rng, 2);
		it->pair = i;
	}
}

static void
ask(struct world *w, struct asker *a, uint32_t idx)
{
	struct host *h = &w->hosts[a->host];
	uint32_t tag[2] = { idx, a->serial }, n = some_data(w, a->req_data, sizeof(a->req_data)).len_bytes;
	struct doing d = { .what = CALL, .av = &a->sp.av };
	struct cm_msg m;

	memcpy(a->req_data, tag, sizeof(tag));
	a->sp = (struct cm_sidr_param){
		.av = host_av(w, a->host), .service_id = rng_one_in(&w->data_rng, 6) ? NO_SERVICE : SERVICE,
		.timeout_ns = rng_between(&w->data_rng, 100 * MS, 300 * MS), .max_retries = 15,
		.private_data = { a->req_data, n < sizeof(tag) ? sizeof(tag) : n }, .owner = owner_of_asker(idx, ACTIVE),
	};
	a->sp.av.pkey = (uint16_t)rng_next(&w->data_rng);
	memset(&m, 0, sizeof(m));
	m.hdr.attr_id = CM_ATTR_SIDR_REQ;
	m.sidr_req.pkey = a->sp.av.pkey;
	m.sidr_req.service_id = a->sp.service_id;
	memcpy(m.sidr_req.private_data, a->req_data, a->sp.private_data.len_bytes);
	watch_begin(h, &d);
	watch_expect(&d, &m);
	a->conn[ACTIVE] = cm_sidr_request(h->cm, &a->sp, w->now);
	if (a->conn[ACTIVE] == NULL)
		failed(w, "SIDR_REQ failed");
	watch_end(h, &d);
	memcpy(a->req, d.expect[0], CM_MAD_BYTES);
	a->due_ns = w->now + a->sp.timeout_ns;
	a->left = a->sp.max_retries;
}

/* Answer, or leave without an answer, which is one too. */
static void
reply(struct world *w, struct asker *a)
{
	struct host *h = &w->hosts[!a->host];
	struct doing d = { .what = CALL };
	struct cm_msg m;

	memset(&m, 0, sizeof(m));
	m.hdr.attr_id = CM_ATTR_SIDR_REP;
	m.hdr.tid = wire_bits(a->req, WIRE_TID, 0, 64);
	m.sidr_rep.request_id = (uint32_t)wire_bits(a->req, WIRE_LOCAL_ID, 0, 32);
	m.sidr_rep.service_id = a->sp.service_id;
	m.sidr_rep.status = CM_SIDR_REJECT;
	watch_begin(h, &d);
	if (!rng_one_in(&w->data_rng, 6)) {
		m.sidr_rep.status = (uint8_t)rng_below(&w->data_rng, 6);
		m.sidr_rep.qpn = (uint32_t)rng_below(&w->data_rng, 1 << 24);
		m.sidr_rep.qkey = (uint32_t)rng_next(&w->data_rng);
		a->rp = (struct cm_sidr_reply_param){
			.status = (enum cm_sidr_status)m.sidr_rep.status, .qpn = m.sidr_rep.qpn, .qkey = m.sidr_rep.qkey,
			.info = some_data(w, a->info, sizeof(a->info)), .private_data = some_data(w, a->rep_data, sizeof(a->rep_data)),
		};
		m.sidr_rep.info_bytes = (uint8_t)a->rp.info.len_bytes;
		memcpy(m.sidr_rep.info, a->info, sizeof(a->info));
		memcpy(m.sidr_rep.private_data, a->rep_data, sizeof(a->rep_data));
		watch_expect(&d, &m);
		if (cm_sidr_reply(a->conn[PASSIVE], &a->rp, w->now) != 0)
			failed(w, "a SIDR_REQUEST can't be answered");
	} else {
		watch_expect(&d, &m);
	}
	wire_build(&m, a->rep);
	cm_destroy(a->conn[PASSIVE], w->now);
	a->conn[PASSIVE] = NULL;
	watch_end(h, &d);
	a->asked &= w->limits.kept == 0; /* else it may have been dropped, and the request comes as a new one */
	w->nb_sidr++;
}

void
sidr_acts(struct world *w, const struct item *it)
{
	struct asker *a = &w->askers[it->pair];

	if (a->serial != it->serial)
		return;
	if (it->what == ASK)
		ask(w, a, it->pair);
	else if (a->conn[PASSIVE] != NULL)
		reply(w, a);
}

static void
on_request(struct host *h, const struct cm_event *ev)
{
	struct world *w = h->w;
	struct asker *a;
	struct item *it;
	uint32_t tag[2];

	check_listener(h, ev);
	memcpy(tag, ev->msg->sidr_req.private_data, sizeof(tag));
	a = &w->askers[tag[0] % ASKERS];
	if (a->serial != tag[1] || a->asked || a->host == h->number)
		failed(w, "a SIDR_REQUEST that nobody sent, or again");
	a->asked = true;
	a->conn[PASSIVE] = ev->conn;
	cm_conn_set_owner(ev->conn, owner_of_asker(tag[0], PASSIVE));
	it = plan(w, rng_below(&w->data_rng, 200 * MS), REPLY);
	it->pair = tag[0];
	it->serial = tag[1];
}

bool
sidr_event(struct host *h, const struct cm_event *ev)
{
	uintptr_t n = (uintptr_t)ev->owner - 1;
	struct world *w = h->w;
	struct doing d = { .what = CALL };
	struct asker *a;

	if (ev->type == CM_EV_SIDR_REQUEST) {
		watch_event(h, ev, NULL, 0);
		on_request(h, ev);
		return true;
	}
	if (n < 2 * PAIRS)
		return false;
	watch_event(h, ev, NULL, 0);
	a = &w->askers[(n - 2 * PAIRS) / 2 % ASKERS];
	if (a->conn[ACTIVE] != ev->conn || ev->state != CM_IDLE)
		failed(w, "%s for an asker that doesn't ask, in %s", cm_event_name(ev->type), cm_state_name(ev->state));
	if (ev->type == CM_EV_UNREACHABLE) {
		watch_due(w, a->due_ns, "UNREACHABLE");
		if (ev->failed_attr != CM_ATTR_SIDR_REQ || a->left != 0 || !a->cut)
			failed(w, "a SIDR_REQ is given up with %u repetitions left, or over a link that works", a->left);
	} else if (ev->type != CM_EV_SIDR_RESPONSE) {
		failed(w, "event %s out of place", cm_event_name(ev->type));
	}
	watch_begin(h, &d);
	cm_destroy(ev->conn, w->now);
	a->conn[ACTIVE] = NULL;
	watch_end(h, &d);
	return true;
}
