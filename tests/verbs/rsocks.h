/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the rsockets test program shares: addresses, pairs of connected rsockets, a peer that is none (rsocks_raw.c),
 * threads that wait (rsocks_wake.c), datagrams (rsocks_dgram.c), and options (rsocks_opt.c).
 *
 * The program is at both ends: its peers are its own rsockets, reached by an address of its host's.
 */
#ifndef RSOCKS_H
#define RSOCKS_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "vt.h"

enum { RT_MS = 20000 /**< to wait for what must come */ };

/** An address of the device's. @param family  AF_INET or AF_INET6 */
void rt_addr(struct vt *t, int family, struct sockaddr_storage *out, socklen_t *len);
/** A listener. @p addr gets its port. */
int rt_listen(struct vt *t, int family, struct sockaddr_storage *addr, socklen_t *len);
/** Two ends of a connection. @p set: called for each rsocket before it connects or listens, or NULL */
void rt_pair(struct vt *t, int family, int s[2], void (*set)(int s));
void rt_close(const int s[2]);
/** @return the events that came */
int rt_poll(int s, int events, int ms);
/** Whether datagram rsockets can meet there, by UDP. */
bool rt_kernel_has(const struct sockaddr_storage *addr, socklen_t len);

/** The byte at @p i of a stream that nobody mistakes for another place's. */
static inline uint8_t
rt_byte(uint64_t i)
{
	return (uint8_t)(i * 2654435761u >> 13);
}

extern const struct vt_case rt_raw_cases[];
extern const unsigned int rt_nb_raw_cases;
extern const struct vt_case rt_wake_cases[];
extern const unsigned int rt_nb_wake_cases;
extern const struct vt_case rt_dgram_cases[];
extern const unsigned int rt_nb_dgram_cases;
extern const struct vt_case rt_option_cases[];
extern const unsigned int rt_nb_option_cases;

#endif /* RSOCKS_H */
