/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Descriptors that wake engines when packets arrive. Thread: control.
 */
#ifndef UROCE_WAKE_PRIV_H
#define UROCE_WAKE_PRIV_H

#include <stdbool.h>

#include "ring/abi.h"

struct net_port;

enum { WAKE_SOCKETS_MAX = 256 }; /**< packet or XDP sockets of this process that are looked at */

/** XDP sockets that other ports have; they don't tell their interface. */
struct wake_seen {
	unsigned int n;
	int fds[WAKE_SOCKETS_MAX];
};
/** net_port.wake */
struct net_wake {
	bool arms;                  /**< RX interrupts must be enabled before each sleep */
	int fds[UROCE_MAX_ENGINES]; /**< for each queue; -1: none */
};

/** Before the queues are set up. */
void wake_begin(const struct net_port *p, struct wake_seen *seen);
/** When the port has started: find the descriptors of its queues. @return 0, or ENOMEM. */
int wake_find(struct net_port *p, const struct wake_seen *seen);
/** The port has started again, no engine uses it: find the descriptors of its new queues. */
void wake_again(struct net_port *p);
/** net_af_packet: have the port's sockets send what they kept while the interface was down, if it is up. */
void wake_sending(const struct net_port *p);
/** Find this process's sockets of a domain (AF_PACKET, AF_XDP), in ascending order. @return their number. */
unsigned int wake_sockets(int domain, int *fds, unsigned int max);

#endif /* UROCE_WAKE_PRIV_H */
