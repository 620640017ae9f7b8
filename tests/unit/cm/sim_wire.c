/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_wire.h"

#include <string.h>

enum { DATA = 24 }; /* the MAD header's bytes */

uint64_t
wire_bits(const uint8_t *mad, unsigned int byte, unsigned int bit, unsigned int bits)
{
	uint64_t v = 0;

	for (unsigned int i = byte * 8 + bit; bits-- > 0; i++)
		v = v << 1 | (mad[i / 8] >> (7 - i % 8) & 1);
	return v;
}

void
wire_set_bits(uint8_t *mad, unsigned int byte, unsigned int bit, unsigned int bits, uint64_t value)
{
	for (unsigned int i = byte * 8 + bit; bits-- > 0; i++) {
		uint8_t one = (uint8_t)(0x80 >> i % 8);

		mad[i / 8] = (uint8_t)(value >> bits & 1 ? mad[i / 8] | one : mad[i / 8] & ~one);
	}
}

static void
put(uint8_t *mad, unsigned int byte, unsigned int bit, unsigned int bits, uint64_t value)
{
	wire_set_bits(mad, DATA + byte, bit, bits, value);
}

static void
number(uint8_t *mad, unsigned int byte, unsigned int bytes, uint64_t value)
{
	put(mad, byte, 0, bytes * 8, value);
}

static void
string(uint8_t *mad, unsigned int byte, const void *from, unsigned int bytes)
{
	memcpy(mad + DATA + byte, from, bytes);
}

static void
ids(uint8_t *mad, uint32_t local, uint32_t remote)
{
	number(mad, 0, 4, local);
	number(mad, 4, 4, remote);
}

/* What the paths of a REQ (table 99) and a LAP (table 115) have at the same places. */
static void
path(uint8_t *mad, unsigned int at, const struct cm_path *p)
{
	number(mad, at, 2, p->local_lid);
	number(mad, at + 2, 2, p->remote_lid);
	string(mad, at + 4, &p->local_gid, 16);
	string(mad, at + 20, &p->remote_gid, 16);
	put(mad, at + 36, 0, 20, p->flow_label);
	put(mad, at + 42, 0, 4, p->sl);
	put(mad, at + 42, 4, 1, p->subnet_local);
	put(mad, at + 43, 0, 5, p->ack_timeout);
}

static void
req_path(uint8_t *mad, unsigned int at, const struct cm_path *p)
{
	path(mad, at, p);
	put(mad, at + 39, 2, 6, p->packet_rate);
	number(mad, at + 40, 1, p->traffic_class);
	number(mad, at + 41, 1, p->hop_limit);
}

static void
req(uint8_t *mad, const struct cm_req *r)
{
	number(mad, 0, 4, r->local_comm_id);
	number(mad, 8, 8, r->service_id);
	number(mad, 16, 8, r->ca_guid);
	number(mad, 28, 4, r->qkey);
	number(mad, 32, 3, r->qpn);
	number(mad, 35, 1, r->responder_resources);
	number(mad, 36, 3, r->local_eecn);
	number(mad, 39, 1, r->initiator_depth);
	number(mad, 40, 3, r->remote_eecn);
	put(mad, 43, 0, 5, r->remote_response_timeout);
	put(mad, 43, 5, 2, r->transport);
	put(mad, 43, 7, 1, r->flow_control);
	number(mad, 44, 3, r->starting_psn);
	put(mad, 47, 0, 5, r->local_response_timeout);
	put(mad, 47, 5, 3, r->retry_count);
	number(mad, 48, 2, r->pkey);
	put(mad, 50, 0, 4, r->path_mtu);
	put(mad, 50, 4, 1, r->rdc_exists);
	put(mad, 50, 5, 3, r->rnr_retry_count);
	put(mad, 51, 0, 4, r->max_cm_retries);
	put(mad, 51, 4, 1, r->srq);
	put(mad, 51, 5, 3, r->ext_transport);
	req_path(mad, 52, &r->primary);
	req_path(mad, 96, &r->alternate);
	put(mad, 139, 5, 1, r->sap_supported);
	string(mad, 140, r->private_data, 92);
}

static void
rep(uint8_t *mad, const struct cm_rep *r)
{
	ids(mad, r->local_comm_id, r->remote_comm_id);
	number(mad, 8, 4, r->qkey);
	number(mad, 12, 3, r->qpn);
	number(mad, 16, 3, r->local_eecn);
	number(mad, 20, 3, r->starting_psn);
	number(mad, 24, 1, r->responder_resources);
	number(mad, 25, 1, r->initiator_depth);
	put(mad, 26, 0, 5, r->target_ack_delay);
	put(mad, 26, 5, 2, r->failover);
	put(mad, 26, 7, 1, r->flow_control);
	put(mad, 27, 0, 3, r->rnr_retry_count);
	put(mad, 27, 3, 1, r->srq);
	number(mad, 28, 8, r->ca_guid);
	string(mad, 36, r->private_data, 196);
}

static void
mra(uint8_t *mad, const struct cm_mra *m)
{
	ids(mad, m->local_comm_id, m->remote_comm_id);
	put(mad, 8, 0, 2, m->msg_mraed);
	put(mad, 9, 0, 5, m->service_timeout);
	string(mad, 10, m->private_data, 222);
}

static void
rej(uint8_t *mad, const struct cm_rej *r)
{
	ids(mad, r->local_comm_id, r->remote_comm_id);
	put(mad, 8, 0, 2, r->msg_rejected);
	put(mad, 9, 0, 7, r->ari_bytes);
	number(mad, 10, 2, r->reason);
	string(mad, 12, r->ari, 72);
	string(mad, 84, r->private_data, 148);
}

static void
lap(uint8_t *mad, const struct cm_lap *l)
{
	ids(mad, l->local_comm_id, l->remote_comm_id);
	number(mad, 12, 3, l->remote_qpn);
	put(mad, 15, 0, 5, l->remote_response_timeout);
	path(mad, 20, &l->alternate);
	number(mad, 59, 1, l->alternate.traffic_class);
	number(mad, 60, 1, l->alternate.hop_limit);
	put(mad, 61, 2, 6, l->alternate.packet_rate);
	string(mad, 64, l->private_data, 168);
}

static void
apr(uint8_t *mad, const struct cm_apr *a)
{
	ids(mad, a->local_comm_id, a->remote_comm_id);
	number(mad, 8, 1, a->info_bytes);
	number(mad, 9, 1, a->status);
	string(mad, 12, a->info, 72);
	string(mad, 84, a->private_data, 148);
}

static void
sidr_rep(uint8_t *mad, const struct cm_sidr_rep *r)
{
	number(mad, 0, 4, r->request_id);
	number(mad, 4, 1, r->status);
	number(mad, 5, 1, r->info_bytes);
	number(mad, 8, 3, r->qpn);
	number(mad, 12, 8, r->service_id);
	number(mad, 20, 4, r->qkey);
	string(mad, 24, r->info, 72);
	string(mad, 96, r->private_data, 136);
}

void
wire_build(const struct cm_msg *m, uint8_t mad[CM_MAD_BYTES])
{
	memset(mad, 0, CM_MAD_BYTES);
	mad[0] = 1;    /* base version */
	mad[1] = 0x07; /* class: communication management */
	mad[2] = 2;    /* class version */
	mad[3] = 0x03; /* Send */
	wire_set_bits(mad, WIRE_TID, 0, 64, m->hdr.tid);
	wire_set_bits(mad, WIRE_ATTR, 0, 16, m->hdr.attr_id);
	switch (m->hdr.attr_id) {
	case CM_ATTR_REQ:
		req(mad, &m->req);
		break;
	case CM_ATTR_MRA:
		mra(mad, &m->mra);
		break;
	case CM_ATTR_REJ:
		rej(mad, &m->rej);
		break;
	case CM_ATTR_REP:
		rep(mad, &m->rep);
		break;
	case CM_ATTR_RTU:
		ids(mad, m->rtu.local_comm_id, m->rtu.remote_comm_id);
		string(mad, 8, m->rtu.private_data, 224);
		break;
	case CM_ATTR_DREQ:
		ids(mad, m->dreq.local_comm_id, m->dreq.remote_comm_id);
		number(mad, 8, 3, m->dreq.remote_qpn);
		string(mad, 12, m->dreq.private_data, 220);
		break;
	case CM_ATTR_DREP:
		ids(mad, m->drep.local_comm_id, m->drep.remote_comm_id);
		string(mad, 8, m->drep.private_data, 224);
		break;
	case CM_ATTR_SIDR_REQ:
		number(mad, 0, 4, m->sidr_req.request_id);
		number(mad, 4, 2, m->sidr_req.pkey);
		number(mad, 8, 8, m->sidr_req.service_id);
		string(mad, 16, m->sidr_req.private_data, 216);
		break;
	case CM_ATTR_SIDR_REP:
		sidr_rep(mad, &m->sidr_rep);
		break;
	case CM_ATTR_LAP:
		lap(mad, &m->lap);
		break;
	default:
		apr(mad, &m->apr);
	}
}
