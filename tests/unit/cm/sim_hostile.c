/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MADs that are not what they should be: before one arrives, a copy of it with one fault. Each raises the one counter for it, nobody is told, and no
 * connection changes by it.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "sim.h"

enum { ONE_IN = 24, NO_QPN = 0xf00000 };

/* The position of a counter. */
#define COUNTER(name) (offsetof(struct cm_counters, name) / sizeof(uint64_t))

struct fault {
	uint8_t mad[CM_MAD_BYTES];
	struct cm_av av;
	size_t len, counter;
	uint16_t reason;   /* of the REJ that answers it */
	bool answered;
};

static uint64_t
count(const struct host *h, size_t counter)
{
	return ((const uint64_t *)cm_counters(h->cm))[counter];
}

/* ---- Faults of the header and of lengths ---- */
static void
spoil_header(struct rng *r, struct fault *f)
{
	switch (rng_below(r, 6)) {
	case 0:
		f->len = rng_one_in(r, 2) ? CM_MAD_BYTES - 1 : 0;
		f->counter = COUNTER(rx_bad_length);
		break;
	case 1:
		f->mad[0] = rng_one_in(r, 2) ? 0 : 2;
		f->counter = COUNTER(rx_bad_version);
		break;
	case 2:
		f->mad[1] = (uint8_t)(f->mad[1] + rng_between(r, 1, 255));
		f->counter = COUNTER(rx_other_class);
		break;
	case 3:
		f->mad[2] = rng_one_in(r, 2) ? 1 : 3;
		f->counter = COUNTER(rx_bad_version);
		break;
	case 4:
		f->mad[3] = (uint8_t)(f->mad[3] + rng_between(r, 1, 255));
		f->counter = COUNTER(rx_bad_method);
		break;
	default:
		wire_set_bits(f->mad, WIRE_ATTR, 0, 16, rng_one_in(r, 2) ? CM_ATTR_FIRST - 1 : CM_ATTR_APR + 1);
		f->counter = COUNTER(rx_bad_attribute);
	}
}

static bool
spoil_length(struct rng *r, struct fault *f)
{
	f->counter = COUNTER(rx_bad_field);
	switch (wire_bits(f->mad, WIRE_ATTR, 0, 16)) {
	case CM_ATTR_REJ:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 9, 0, 7, rng_between(r, CM_ARI_BYTES + 1, 127));
		return true;
	case CM_ATTR_APR:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 8, rng_between(r, CM_ARI_BYTES + 1, 255));
		return true;
	case CM_ATTR_SIDR_REP:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 5, 0, 8, rng_between(r, CM_ARI_BYTES + 1, 255));
		return true;
	default:
		return false;
	}
}

/* ---- Strangers who know everything but have another address ---- */
static bool
spoil_sender(struct rng *r, struct fault *f)
{
	switch (rng_below(r, 3)) {
	case 0:
		f->av.port++;
		break;
	case 1:
		f->av.remote_gid.raw[15] ^= 0x80;
		break;
	default:
		f->av.local_gid.raw[15] ^= 0x80;
	}
	f->answered = true;
	switch (wire_bits(f->mad, WIRE_ATTR, 0, 16)) {
	case CM_ATTR_REP:
		f->counter = COUNTER(rej_unknown_id);
		return true;
	case CM_ATTR_DREQ:
		f->counter = COUNTER(drep_unknown_id);
		return true;
	case CM_ATTR_LAP:
		f->counter = COUNTER(apr_refused);
		return true;
	case CM_ATTR_REQ:
	case CM_ATTR_SIDR_REQ:
		return false;
	default:
		f->answered = false;
		f->counter = COUNTER(rx_unknown_id);
		return true;
	}
}

/* An ID alone isn't enough either, nor another QP's number. */
static bool
spoil_ids(struct world *w, const struct item *it, struct rng *r, struct fault *f)
{
	enum cm_state s = watch_state(w, it->host, (uint32_t)wire_bits(f->mad, WIRE_REMOTE_ID, 0, 32));

	switch (wire_bits(f->mad, WIRE_ATTR, 0, 16)) {
	case CM_ATTR_RTU:
	case CM_ATTR_DREP:
		wire_set_bits(f->mad, WIRE_LOCAL_ID, 0, 32, wire_bits(f->mad, WIRE_LOCAL_ID, 0, 32) ^ rng_between(r, 1, UINT32_MAX));
		f->counter = COUNTER(rx_unknown_id);
		return true;
	case CM_ATTR_DREQ:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 24, wire_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 24) ^ rng_between(r, 1, 0xffffff));
		f->counter = COUNTER(rx_wrong_qpn);
		return s != CM_IDLE;
	case CM_ATTR_LAP:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 12, 0, 24, wire_bits(f->mad, WIRE_LOCAL_ID + 12, 0, 24) ^ rng_between(r, 1, 0xffffff));
		f->counter = COUNTER(apr_refused);
		f->answered = true;
		return s == CM_ESTABLISHED;
	case CM_ATTR_REP:
		if (rng_one_in(r, 3))
			wire_set_bits(f->mad, WIRE_LOCAL_ID, 0, 32, 0);
		else /* the QP's number, which XRC has in another place */
			for (unsigned int at = WIRE_LOCAL_ID + 12, qpn = (unsigned int)(rng_below(r, 3) + 0xffffff) & 0xffffff; at <= WIRE_LOCAL_ID + 16; at += 4)
				wire_set_bits(f->mad, at, 0, 24, qpn);
		f->counter = COUNTER(rx_bad_field);
		return s == CM_REQ_SENT || s == CM_MRA_REQ_RCVD;
	default:
		return false;
	}
}

/* ---- REQs that can't be served ---- */
static void
spoil_path(struct rng *r, struct fault *f)
{
	unsigned int at = WIRE_LOCAL_ID + (rng_one_in(r, 2) ? 56 : 72); /* the sender's GID, or ours */

	f->mad[at + rng_below(r, 16)] ^= (uint8_t)rng_between(r, 1, 255);
	f->reason = CM_REJ_INVALID_GID;
}

static void
spoil_request(struct rng *r, struct fault *f)
{
	f->answered = true;
	f->counter = COUNTER(rej_bad_request);
	/* None that is known. */
	wire_set_bits(f->mad, WIRE_LOCAL_ID, 0, 32, wire_bits(f->mad, WIRE_LOCAL_ID, 0, 32) ^ rng_between(r, 1, UINT32_MAX - 1));
	wire_set_bits(f->mad, WIRE_LOCAL_ID + 32, 0, 24, NO_QPN + rng_below(r, 1 << 16));
	switch (rng_below(r, 8)) {
	case 0:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 43, 5, 2, CM_TRANSPORT_RD);
		f->reason = CM_REJ_INVALID_TRANSPORT_TYPE;
		break;
	case 1:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 43, 5, 2, CM_TRANSPORT_EXTENDED);
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 51, 5, 3, rng_one_in(r, 2) ? 0 : 2);
		f->reason = CM_REJ_INVALID_TRANSPORT_TYPE;
		break;
	case 2:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 50, 0, 4, rng_one_in(r, 2) ? 0 : 6);
		f->reason = CM_REJ_INVALID_MTU;
		break;
	case 3:
		spoil_path(r, f);
		break;
	case 4: /* a service of the RDMA CM's, whose private data begin with an IP header of version 0 */
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 64, (rng_one_in(r, 2) ? 0x1060000u : 0x1110000u) + 4791);
		f->mad[WIRE_LOCAL_ID + 140] = 1;
		f->reason = CM_REJ_CONSUMER_DEFINED;
		break;
	case 5:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 64, NO_SERVICE);
		f->counter = COUNTER(rej_no_listener);
		f->reason = CM_REJ_INVALID_SERVICE_ID;
		break;
	case 6:
		wire_set_bits(f->mad, WIRE_LOCAL_ID, 0, 32, 0);
		f->counter = COUNTER(rx_bad_field);
		f->answered = false;
		break;
	default:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 32, 0, 24, (rng_below(r, 3) + 0xffffff) & 0xffffff); /* the SMI's, the GSI's, multicast */
		f->counter = COUNTER(rx_bad_field);
		f->answered = false;
	}
}

static bool
spoil_question(struct rng *r, struct fault *f)
{
	f->counter = COUNTER(sidr_refused);
	f->answered = true;
	wire_set_bits(f->mad, WIRE_LOCAL_ID, 0, 32, wire_bits(f->mad, WIRE_LOCAL_ID, 0, 32) ^ rng_between(r, 1, UINT32_MAX - 1));
	switch (rng_below(r, 3)) {
	case 0:
		wire_set_bits(f->mad, WIRE_LOCAL_ID, 0, 32, 0);
		f->counter = COUNTER(rx_bad_field);
		f->answered = false;
		return true;
	case 1:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 64, NO_SERVICE);
		return true;
	default:
		wire_set_bits(f->mad, WIRE_LOCAL_ID + 8, 0, 64, TCP_SERVICE);
		f->mad[WIRE_LOCAL_ID + 16] = 1; /* no IP header: its version is 0 */
		return true;
	}
}

/* @return whether there is such a fault of this MAD. */
static bool
spoil(struct world *w, const struct item *it, struct fault *f)
{
	struct rng *r = &w->bad_rng;

	switch (rng_below(r, 4)) {
	case 0:
		spoil_header(r, f);
		return true;
	case 1:
		return spoil_length(r, f);
	case 2:
		return spoil_sender(r, f);
	default:
		if (wire_bits(f->mad, WIRE_ATTR, 0, 16) == CM_ATTR_SIDR_REQ)
			return spoil_question(r, f);
		if (wire_bits(f->mad, WIRE_ATTR, 0, 16) != CM_ATTR_REQ)
			return spoil_ids(w, it, r, f);
		spoil_request(r, f);
		return true;
	}
}

void
hostile_maybe(struct world *w, const struct item *it)
{
	struct host *h = &w->hosts[it->host];
	struct fault f = { .av = it->av, .len = CM_MAD_BYTES };
	uint64_t was, sent = h->nb_sent;

	memcpy(f.mad, it->mad, CM_MAD_BYTES);
	if (!rng_one_in(&w->bad_rng, ONE_IN) || !spoil(w, it, &f))
		return;
	was = count(h, f.counter);
	watch_arrival(w, it->host, &f.av, f.mad, f.len, true, f.reason);
	if (count(h, f.counter) != was + 1)
		failed(w, "a bad %s doesn't raise counter %zu", cm_attr_name((uint16_t)wire_bits(it->mad, WIRE_ATTR, 0, 16)), f.counter);
	if (h->nb_sent - sent != f.answered)
		failed(w, "a bad %s causes %" PRIu64 " MADs", cm_attr_name((uint16_t)wire_bits(it->mad, WIRE_ATTR, 0, 16)), h->nb_sent - sent);
	w->nb_bad++;
}

/* ---- REQs that name a connected QP ---- */
void
forge_maybe(struct world *w)
{
	struct rng *r = &w->bad_rng;
	struct pair *p = &w->pairs[rng_below(r, PAIRS)];
	unsigned int side = (unsigned int)rng_below(r, 2);
	struct host *h = &w->hosts[p->host[side]];
	uint8_t mad[CM_MAD_BYTES];
	struct cm_msg m;

	if (p->serial == 0 || p->torn || p->conn[side] == NULL || cm_conn_state(p->conn[side]) != CM_ESTABLISHED || !rng_one_in(r, 40))
		return;
	m = watch_msg(h, p, !side, CM_ATTR_REQ, rng_next(r));
	m.req.local_comm_id ^= (uint32_t)rng_between(r, 1, UINT32_MAX - 1);
	m.req.service_id = SERVICE;
	m.req.ca_guid = host_guid(!h->number);
	m.req.qpn = p->qpn[!side];
	m.req.path_mtu = 3;
	m.req.primary.local_gid = host_gid(w, !h->number);
	m.req.primary.remote_gid = host_gid(w, h->number);
	wire_build(&m, mad);
	/* Of every second one the owner has lost its QP. */
	h->gone = rng_one_in(r, 2) ? owner_of_pair((uint32_t)(p - w->pairs), side) : NULL;
	p->cut = true; /* questions and answers may be lost, all of them */
	watch_forged(w, p, side, mad);
	h->gone = NULL;
	w->nb_forged++;
}
