/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Multicast groups: those that a port has joined (group.c), and the bytes of IGMP (RFC 2236, 3376) and MLD (RFC 2710, 3810)
 * (group_pkt.c). Thread: control; group_pkt.c any.
 */
#ifndef UROCE_GROUP_PRIV_H
#define UROCE_GROUP_PRIV_H

#include <sys/queue.h>

#include "net/pkt_priv.h"

/* ---- group_pkt.c ---- */
enum {
	IPPROTO_NUM_IGMP = 2,
	IGMP_QUERY = 0x11,
	IGMP_V2_REPORT = 0x16,
	IGMP_V2_LEAVE = 0x17,
	IGMP_V3_REPORT = 0x22,
	IGMP_BYTES = 8,          /**< of an IGMPv2 message, and of the head of the others */
	IGMP_V3_QUERY_BYTES = 12,
	MLD_QUERY = 130,
	MLD_V1_REPORT = 131,
	MLD_V1_DONE = 132,
	MLD_V2_REPORT = 143,
	MLD_V1_BYTES = 24,
	MLD_V2_QUERY_BYTES = 28,
	GROUP_FRAME_MAX_BYTES = NET_ETH_VLAN_BYTES + WIRE_IPV6_BYTES + 8 + 28,
};
/** What is said of a group. In the old versions there is a report for the first two, and a leave. */
enum group_record {
	GROUP_IS_MEMBER = 2, /**< MODE_IS_EXCLUDE nothing: an answer to a query */
	GROUP_JOINED = 4,    /**< CHANGE_TO_EXCLUDE_MODE nothing */
	GROUP_LEFT = 3,      /**< CHANGE_TO_INCLUDE_MODE nothing */
};
/** Build a report about one group. @return bytes of @p frame. */
unsigned int group_build(const struct net_port *p, const struct gid *mgid, enum group_record record, bool old,
			 uint8_t frame[GROUP_FRAME_MAX_BYTES]);
/** Read a query: @p igmp or @p icmp of @p len bytes, checksum verified. @return false: it isn't a good one. */
bool group_parse_igmp(const uint8_t *igmp, uint32_t len, struct net_learned *l);
bool group_parse_mld(const uint8_t *icmp, uint32_t len, struct net_learned *l);

/* ---- group.c ---- */
enum {
	GROUP_REPORTS = 2,             /**< RFC 3376, 8.1 and 3810, 9.1: robustness variable */
	GROUP_REPORT_INTERVAL_MS = 1000, /**< RFC 3376, 8.11 and 3810, 9.11 */
	GROUP_OLD_QUERIER_MS = 260000, /**< RFC 3376, 8.12: robustness * query interval + response interval, by default */
	GROUP_MIN_DELAY_MS = 100,      /**< between a query and all its answers, whatever the query says */
};
struct group {
	LIST_ENTRY(group) next;
	struct gid mgid;
	uint32_t joins;      /**< 0: left, and the reports of that aren't done */
	int fd;              /**< shared ports: the kernel's membership; else -1 */
	uint32_t reports;    /**< of joining or leaving, still to be sent */
	uint64_t change_ns;  /**< when the next of these is due */
	uint64_t answer_ns;  /**< when a query is to be answered; 0: none */
};
struct groups {
	LIST_HEAD(, group) list;
	uint32_t nb;         /**< joined */
	uint64_t old_until_ns[2]; /**< by IPv4 and IPv6: until then there is a router that knows the old version only */
};
/** Free them; nothing is sent. */
void groups_clear(struct net_port *p);
void groups_query(struct net_port *p, const struct net_learned *l, uint64_t now_ns);
/** Send what is due. @return when to call again at the latest. */
uint64_t groups_poll(struct net_port *p, uint64_t now_ns);
/** Own ports: let the NIC's filter through what the port needs. @return 0, or -1: it takes neither list nor mode. */
int groups_program_nic(struct net_port *p);

#endif /* UROCE_GROUP_PRIV_H */
