/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "replay.h"

bool
flow_has(const struct flow *f, const struct record *r)
{
	if (WIRE_OPCODE_SERVICE(r->p.bth.opcode) != f->service)
		return false;
	if (f->service != WIRE_UD)
		return r->p.sport == f->sport;
	return f->qpn[f->side] == (r->side == f->side ? record_src_qpn(r) : r->p.bth.dqpn);
}

static struct flow *
add_flow(struct capture *c)
{
	if (c->nb_flows == FLOWS_MAX)
		fail_msg("%s: more than %d flows", c->name, FLOWS_MAX);
	return &c->flows[c->nb_flows++];
}

static void
note_connection(struct capture *c, const struct record *r)
{
	struct flow *f = NULL;

	for (uint32_t i = 0; i < c->nb_flows && f == NULL; i++)
		if (flow_has(&c->flows[i], r))
			f = &c->flows[i];
	if (f == NULL) {
		f = add_flow(c);
		*f = (struct flow){ .service = WIRE_OPCODE_SERVICE(r->p.bth.opcode), .sport = r->p.sport,
				    .qpn = { SOME_QPN, SOME_QPN } };
	}
	if (f->qpn[!r->side] != SOME_QPN && f->qpn[!r->side] != r->p.bth.dqpn)
		fail_msg("%s: two connections with source port %u", c->name, f->sport);
	f->qpn[!r->side] = r->p.bth.dqpn;
}

static void
note_datagram_qp(struct capture *c, unsigned int side, uint32_t qpn)
{
	struct flow *f;

	if (qpn == WIRE_QPN_MULTICAST)
		return;
	for (uint32_t i = 0; i < c->nb_flows; i++)
		if (c->flows[i].service == WIRE_UD && c->flows[i].side == side && c->flows[i].qpn[side] == qpn)
			return;
	f = add_flow(c);
	*f = (struct flow){ .service = WIRE_UD, .side = side };
	f->qpn[side] = qpn;
}

void
capture_open(struct capture *c, const char *name)
{
	const uint8_t *frame, *first = NULL;
	char path[1024];
	uint32_t len;

	c->name = name;
	c->nb_records = c->nb_flows = 0;
	snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, name);
	if (!pcap_open(&c->file, path))
		fail_msg("%s: not a pcap file of Ethernet frames", path);
	while ((frame = pcap_next(&c->file, &len)) != NULL) {
		struct record *r = &c->records[c->nb_records];

		if (wire_parse(frame, len, true, &r->p) != WIRE_OK || r->p.bth.dqpn == GSI_QPN)
			continue;
		if (first == NULL)
			first = r->p.l2 + 6;
		r->frame_bytes = len;
		r->side = memcmp(first, r->p.l2 + 6, 6) != 0;
		if (WIRE_OPCODE_SERVICE(r->p.bth.opcode) != WIRE_UD) {
			note_connection(c, r);
		} else {
			note_datagram_qp(c, r->side, record_src_qpn(r));
			note_datagram_qp(c, !r->side, r->p.bth.dqpn);
		}
		if (++c->nb_records == RECORDS_MAX)
			fail_msg("%s: more than %d packets", name, RECORDS_MAX);
	}
}

void
capture_close(struct capture *c)
{
	pcap_close(&c->file);
}
