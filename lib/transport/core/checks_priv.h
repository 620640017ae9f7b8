/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Checks made on every packet: addresses, VLANs and P_Keys, and the QP's state (qp_states_priv.h). Owns nothing. Called
 * on the QP's engine.
 */
#ifndef UROCE_TP_CHECKS_H
#define UROCE_TP_CHECKS_H

#include "transport/core/qp_states_priv.h"

/**
 * @return whether @p p came from the peer's address to ours (9.6.1.1.1). @p t is the template of packets to the peer.
 */
static inline bool
address_match(const struct wire_tmpl *t, const struct wire_pkt *p)
{
	const uint8_t *ours = t->hdr + t->l3_off;

	if (p->ip_version != t->ip_version)
		return false;
	if (p->ip_version == 4)
		return memcmp(p->l3 + 12, ours + 16, 4) == 0 && memcmp(p->l3 + 16, ours + 12, 4) == 0;
	return memcmp(p->l3 + 8, ours + 24, 16) == 0 && memcmp(p->l3 + 24, ours + 8, 16) == 0;
}

static inline bool
qp_address_match(const struct qp *qp, const struct wire_pkt *p)
{
	return address_match(&qp->path.tmpl, p);
}

/** @return whether @p p came in the VLAN of the address that it was sent to; to a group: in one of the port's. */
static inline bool
vlan_match(const struct transport *tp, uint16_t port, const struct wire_pkt *p)
{
	struct gid dgid;

	if (tp->c.takes == NULL || p->inside)
		return true;
	dgid = p->ip_version == 4 ? gid_from_v4(p->l3 + 16) : *gid_at(p->l3 + 24);
	return tp->c.takes(tp->c.arg, port, &dgid, p->vlan_tci & WIRE_VID);
}

/** The same for a packet to the address from which we send in VLAN @p vlan. */
static inline bool
vlan_match_at(const struct transport *tp, uint16_t port, uint16_t vlan, const struct wire_pkt *p)
{
	/* A tag that has a priority only is like none. On a shared port even another may be right. */
	return likely(((p->vlan_tci ^ vlan) & WIRE_VID) == 0) || vlan_match(tp, port, p);
}

/** The same. @p t is the template of packets from that address. */
static inline bool
vlan_match_tmpl(const struct transport *tp, uint16_t port, const struct wire_tmpl *t, const struct wire_pkt *p)
{
	bool untagged = likely(t->l3_off == WIRE_ETH_BYTES);

	return vlan_match_at(tp, port, untagged ? 0 : wire_get16(t->hdr + WIRE_ETH_BYTES) & WIRE_VID, p);
}

/** @return whether @p p, which came to the QP's port, came on the path of its connection. */
static inline bool
qp_path_match(const struct transport *tp, const struct qp *qp, const struct wire_pkt *p)
{
	return qp_address_match(qp, p) && vlan_match_at(tp, qp->path.port, qp->path.vlan, p);
}

/** 10.9.3: two P_Keys match if they are equal without the membership bit, valid, and not both limited members. */
static inline bool
pkey_match(uint16_t a, uint16_t b)
{
	/* Mostly both are full members of the same partition. */
	if (likely(a == b && a > 0x8000))
		return true;
	return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

static inline void
count_bad_pkey(struct transport *tp, uint16_t port)
{
	tp->counters.rx_bad_pkey++;
	tp->violations[port].bad_pkey++;
}

static inline void
count_bad_qkey(struct transport *tp, uint16_t port)
{
	tp->counters.rx_bad_qkey++;
	tp->violations[port].bad_qkey++;
}

/** @return the counter of packets that wire_parse() refused. */
static inline uint64_t *
verdict_counter(struct tp_counters *c, enum wire_verdict v)
{
	switch (v) {
	case WIRE_TRUNCATED:
		return &c->rx_truncated;
	case WIRE_BAD_IP:
		return &c->rx_bad_ip;
	case WIRE_BAD_UDP_SUM:
		return &c->rx_bad_udp_sum;
	case WIRE_BAD_OPCODE:
		return &c->rx_bad_opcode;
	case WIRE_BAD_TVER:
		return &c->rx_bad_tver;
	case WIRE_BAD_ICRC:
		return &c->rx_icrc_encapsulated;
	default:
		return &c->rx_bad_length;
	}
}

#endif /* UROCE_TP_CHECKS_H */
