/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Owners that call at the wrong time or with wrong arguments. Each call is refused, sends nothing, and leaves everything as it was.
 */
#include <errno.h>
#include <string.h>

#include "sim.h"

enum { ONE_IN = 6, TOO_LONG = 256 };
static const uint8_t bytes[TOO_LONG];

/* Private data of one byte more than there is room, or of which there is none. */
static struct cm_private
too_much(struct rng *r, uint32_t room)
{
	return rng_one_in(r, 2) ? (struct cm_private){ bytes, room + 1 } : (struct cm_private){ NULL, 1 };
}

static uint32_t
no_qpn(struct rng *r)
{
	return (uint32_t)(rng_below(r, 3) + 0xffffff) & 0xffffff; /* multicast, the SMI's, the GSI's */
}

/* ---- Requests ---- */
static int
connect_badly(struct world *w, struct pair *p)
{
	struct cm_connect_param cp = p->cp;
	struct rng *r = &w->bad_rng;

	switch (rng_below(r, 12)) {
	case 0:
		cp.private_data = too_much(r, CM_REQ_PRIVATE_BYTES);
		break;
	case 1:
		cp.qpn = no_qpn(r);
		break;
	case 2:
		cp.transport = CM_TRANSPORT_RD;
		break;
	case 3:
		cp.path_mtu = rng_one_in(r, 2) ? 0 : 6;
		break;
	case 4:
		cp.retry_count = 8;
		break;
	case 5:
		cp.rnr_retry_count = 8;
		break;
	case 6:
		cp.max_cm_retries = 16;
		break;
	case 7:
		cp.packet_life = 21;
		break;
	case 8:
		cp.ack_timeout = 32;
		break;
	case 9:
		cp.remote_response_timeout = CM_MAX_RESPONSE_TIMEOUT + 1;
		break;
	case 10:
		cp.local_response_timeout = CM_MAX_RESPONSE_TIMEOUT + 1;
		break;
	default:
		cp.private_data = (struct cm_private){ NULL, CM_REQ_PRIVATE_BYTES };
	}
	errno = 0;
	return cm_connect(w->hosts[p->host[ACTIVE]].cm, &cp, w->now) == NULL ? errno : 0;
}

static int
ask_badly(struct world *w, struct host *h)
{
	struct cm_sidr_param sp = { .av = host_av(w, h->number), .service_id = SERVICE, .timeout_ns = 100 * MS };

	switch (rng_below(&w->bad_rng, 3)) {
	case 0:
		sp.private_data = too_much(&w->bad_rng, CM_SIDR_REQ_PRIVATE_BYTES);
		break;
	case 1:
		sp.timeout_ns = MS - 1;
		break;
	default:
		sp.timeout_ns = (UINT64_C(4096) << CM_MAX_SERVICE_TIMEOUT) + 1;
	}
	errno = 0;
	return cm_sidr_request(h->cm, &sp, w->now) == NULL ? errno : 0;
}

static int
listen_badly(struct host *h, int *expected)
{
	struct cm_listen_param lp = { .service_id = SERVICE, .scope = CM_LISTEN_ANY };

	*expected = EADDRINUSE;
	if (rng_one_in(&h->w->bad_rng, 2)) {
		lp.scope = (enum cm_listen_scope)(CM_LISTEN_ANY + 1);
		*expected = EINVAL;
	}
	errno = 0;
	return cm_listen(h->cm, &lp) == NULL ? errno : 0;
}

/* ---- Calls for a connection ---- */
static int
accept_badly(struct world *w, struct cm_conn *c, bool in_time)
{
	struct cm_accept_param ap = { .qpn = 77 };

	if (in_time && rng_one_in(&w->bad_rng, 2))
		ap.qpn = no_qpn(&w->bad_rng);
	else if (in_time)
		ap.private_data = too_much(&w->bad_rng, CM_REP_PRIVATE_BYTES);
	return cm_accept(c, &ap, w->now);
}

static int
reject_badly(struct world *w, struct cm_conn *c, bool in_time)
{
	static const struct cm_private none;
	struct cm_private ari = none, data = none;

	if (in_time && rng_one_in(&w->bad_rng, 2))
		ari = too_much(&w->bad_rng, CM_ARI_BYTES);
	else if (in_time)
		data = too_much(&w->bad_rng, CM_REJ_PRIVATE_BYTES);
	return cm_reject(c, CM_REJ_CONSUMER_DEFINED, ari, data, w->now);
}

static int
mra_badly(struct world *w, struct cm_conn *c, bool in_time)
{
	static const struct cm_private none;
	uint8_t code = 20;
	struct cm_private data = none;

	if (in_time && rng_one_in(&w->bad_rng, 2))
		code = 32;
	else if (in_time)
		data = too_much(&w->bad_rng, CM_MRA_PRIVATE_BYTES);
	return cm_mra(c, code, data, w->now);
}

static int
apr_badly(struct world *w, struct cm_conn *c, bool in_time)
{
	static const struct cm_private none;
	struct cm_private info = none, data = none;

	if (in_time && rng_one_in(&w->bad_rng, 2))
		info = too_much(&w->bad_rng, CM_ARI_BYTES);
	else if (in_time)
		data = too_much(&w->bad_rng, CM_APR_PRIVATE_BYTES);
	return cm_apr(c, CM_APR_SUCCESS, info, data);
}

static int
call_badly(struct world *w, struct pair *p, unsigned int side, enum cm_state s)
{
	bool of_req = s == CM_REQ_RCVD || s == CM_MRA_REQ_SENT, of_rep = s == CM_REP_RCVD || s == CM_MRA_REP_SENT;
	bool rep_sent = s == CM_REP_SENT || s == CM_MRA_REP_RCVD;
	static const struct cm_sidr_reply_param reply;
	struct cm_conn *c = p->conn[side];
	struct rng *r = &w->bad_rng;

	switch (rng_below(r, 7)) {
	case 0:
		return accept_badly(w, c, of_req);
	case 1:
		return cm_rtu(c, too_much(r, CM_RTU_PRIVATE_BYTES), w->now);
	case 2:
		return reject_badly(w, c, of_req || of_rep || rep_sent);
	case 3:
		return mra_badly(w, c, of_req || of_rep);
	case 4:
		return cm_disconnect(c, too_much(r, s == CM_DREQ_RCVD ? CM_DREP_PRIVATE_BYTES : CM_DREQ_PRIVATE_BYTES), w->now);
	case 5:
		return apr_badly(w, c, p->lap && s == CM_ESTABLISHED);
	default:
		return cm_sidr_reply(c, &reply, w->now);
	}
}

void
misuse_maybe(struct world *w, struct pair *p, unsigned int side)
{
	struct host *h = &w->hosts[p->host[side]];
	struct cm_usage before, after;
	enum cm_state s = CM_IDLE;
	int rc, expected = EINVAL;
	struct doing d;

	if (!rng_one_in(&w->bad_rng, ONE_IN))
		return;
	cm_usage(h->cm, &before);
	watch_call(&d, w, p, side);
	if (p->conn[side] != NULL && !rng_one_in(&w->bad_rng, 8)) {
		s = cm_conn_state(p->conn[side]);
		rc = call_badly(w, p, side, s);
	} else if (side == ACTIVE && p->cp.qpn != 0) {
		rc = connect_badly(w, p);
	} else if (rng_one_in(&w->bad_rng, 2)) {
		rc = ask_badly(w, h);
	} else {
		rc = listen_badly(h, &expected);
	}
	watch_end(h, &d);
	cm_usage(h->cm, &after);
	if (rc != expected || memcmp(&before, &after, sizeof(before)) != 0 || (s != CM_IDLE && cm_conn_state(p->conn[side]) != s) || d.nb_events != 0)
		failed(w, "a call that is wrong in %s ends with %d", cm_state_name(s), rc);
	w->nb_bad++;
}
