/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A capture as a list of RoCE packets, and who talks to whom in it.
 */
#ifndef UROCE_TEST_REPLAY_H
#define UROCE_TEST_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "pcap.h"
#include "wire/wire.h"

enum { RECORDS_MAX = 4096, FLOWS_MAX = 16, GSI_QPN = 1, SOME_QPN = 0x123 };

/** A packet of a capture. */
struct record {
	uint32_t frame_bytes;
	unsigned int side; /**< 0: whoever sent the first one */
	struct wire_pkt p; /**< its pointers lead into the file's bytes */
};

/** An RC or UC connection, or a UD QP (qpn[side], by whatever peer). */
struct flow {
	uint8_t service;
	uint16_t sport;     /**< RC and UC: both directions have it */
	unsigned int side;  /**< UD: whose QP it is */
	uint32_t qpn[2];
};

struct capture {
	const char *name;
	struct pcap file;
	uint32_t nb_records, nb_flows;
	struct record records[RECORDS_MAX];
	struct flow flows[FLOWS_MAX];
};

/** Read a capture of tests/golden and find its flows; those of QP 1 are left out. */
void capture_open(struct capture *c, const char *name);
void capture_close(struct capture *c);
/** @return whether the packet belongs to the flow. */
bool flow_has(const struct flow *f, const struct record *r);

static inline uint32_t
record_qkey(const struct record *r)
{
	return wire_get32(r->p.bthp + r->p.op->off_deth);
}
static inline uint32_t
record_src_qpn(const struct record *r)
{
	return wire_get24(r->p.bthp + r->p.op->off_deth + 5);
}

#endif /* UROCE_TEST_REPLAY_H */
