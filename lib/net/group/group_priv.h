/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Multicast groups: those that a port has joined (group.c), and the formats of IGMP (RFC 2236, 3376) and MLD (RFC 2710,
 * 3810) (group_pkt.c). Thread: control; group_pkt.c any.
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
	IGMP_BYTES = 8,          /**< size of an IGMPv2 message, and of the header of the others */
	IGMP_V3_QUERY_BYTES = 12,
	MLD_QUERY = 130,
	MLD_V1_REPORT = 131,
	MLD_V1_DONE = 132,
	MLD_V2_REPORT = 143,
	MLD_V1_BYTES = 24,
	MLD_V2_QUERY_BYTES = 28,
	GROUP_FRAME_MAX_BYTES = NET_ETH_VLAN_BYTES + WIRE_IPV6_BYTES + 8 + 28,
};
/** Kinds of reports about a group. The old versions use one report for the first two, and a leave message. */
enum group_record {
	GROUP_IS_MEMBER = 2, /**< MODE_IS_EXCLUDE with no sources: an answer to a query */
	GROUP_JOINED = 4,    /**< CHANGE_TO_EXCLUDE_MODE with no sources */
	GROUP_LEFT = 3,      /**< CHANGE_TO_INCLUDE_MODE with no sources */
};
/** Build a report about one group, for those in VLAN @p vlan. @return size of @p frame in bytes. */
unsigned int group_build(const struct net_port *p, uint16_t vlan, const struct gid *mgid, enum group_record record,
			 bool old, uint8_t frame[GROUP_FRAME_MAX_BYTES]);
/** Parse a query at @p igmp or @p icmp, @p len bytes with a verified checksum. @return false: it is not a valid one. */
bool group_parse_igmp(const uint8_t *igmp, uint32_t len, struct net_learned *l);
bool group_parse_mld(const uint8_t *icmp, uint32_t len, struct net_learned *l);

/* ---- group.c ---- */
enum {
	GROUP_REPORTS = 2,             /**< RFC 3376, 8.1 and 3810, 9.1: robustness variable */
	GROUP_REPORT_INTERVAL_MS = 1000, /**< RFC 3376, 8.11 and 3810, 9.11 */
	GROUP_OLD_QUERIER_MS = 260000, /**< RFC 3376, 8.12: robustness * query interval + response interval, by default */
	GROUP_MIN_DELAY_MS = 100,      /**< between a query and all our answers, whatever the query says */
};
struct group {
	LIST_ENTRY(group) next;
	struct gid mgid;
	uint32_t joins;      /**< 0: left, but the reports about that are not all sent */
	int fd;              /**< shared ports: socket with the kernel's membership; else -1 */
	uint32_t reports;    /**< reports about joining or leaving that still have to be sent */
	uint64_t change_ns;  /**< when the next of them is due */
	uint64_t answer_ns;  /**< when a query has to be answered; 0: none */
};
struct groups {
	LIST_HEAD(, group) list;
	uint32_t nb;         /**< number of joined groups */
	uint64_t old_until_ns[2]; /**< for IPv4 and IPv6: until then an older router is present */
};
/** The port has another device: join the groups that it was in. */
void groups_rejoin(struct net_port *p);
/** Free all groups without sending anything. */
void groups_clear(struct net_port *p);
void groups_query(struct net_port *p, const struct net_learned *l, uint64_t now_ns);
/** Send due reports. @return when to call again at the latest. */
uint64_t groups_poll(struct net_port *p, uint64_t now_ns);
/**
 * Own ports: program the NIC's filter to let through what the port needs.
 * @return 0, or -1: neither list nor mode works.
 */
int groups_program_nic(struct net_port *p);

#endif /* UROCE_GROUP_PRIV_H */
