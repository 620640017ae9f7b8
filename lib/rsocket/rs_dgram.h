/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Datagram rsockets: what rs_dgram.c (the program's side), rs_dqp.c (QPs) and rs_udp.c (finding peers) share.
 *
 * A datagram rsocket has a UDP socket of the kernel's, whose address is its own, and a UD QP for every local
 * address that it has sent from. The first datagram to a peer goes by UDP and tells our QP; the peer's answer tells
 * its QP, and from then on datagrams go from QP to QP. What doesn't fit a QP's MTU always goes by UDP.
 *
 * Everything is under the rsocket's lock; slock only keeps senders apart while one waits.
 */
#ifndef UROCE_RS_DGRAM_H
#define UROCE_RS_DGRAM_H

#include "rsocket/rs_priv.h"

enum {
	RS_DGRAM_BYTES = 2048,      /**< the largest datagram with its header */
	RS_DGRAM_STRIDE = 2112,     /**< of a receive: a GRH, then the datagram; whole cache lines */
	RS_GRH_BYTES = 40,
	RS_DESTS = 256,             /**< lists that destinations are found by */
	RS_DESTS_MAX = 4096,        /**< peers of one rsocket */
	RS_UDP_QUEUED_MAX = 512,    /**< datagrams that came by UDP and weren't read */
	RS_UDP_BURST = 64,          /**< packets of one rsocket that are looked at in a row */
	RS_RESOLVE_DEST_MS = 2000,
};

struct rs_dgram;

/** A datagram that came. */
struct rs_dmsg {
	struct rs_dmsg *next;
	struct rs_dqp *qp;          /**< whose receive it is; NULL: it came by UDP */
	uint32_t slot;
	uint32_t bytes;
	const uint8_t *data;
	struct sockaddr_storage from;
};

/** A QP, of one local address. */
struct rs_dqp {
	struct rs_dqp *next;
	struct rs_dgram *d;
	struct rs_cm_user cm;
	struct rdma_cm_id *id;
	struct sockaddr_storage local;
	struct rs_dgram_hdr hdr;
	struct rs_cq cq;
	uint32_t mtu;
	uint32_t nb_sends, nb_recvs;
	uint32_t posted, done;      /**< sends: slot n % nb_sends */
	uint8_t *memory, *sends;
	size_t memory_bytes;
	struct ibv_mr *mr;
	struct rs_dmsg *msgs;       /**< of the receives */
};

/** A peer. */
struct rs_dest {
	struct rs_dest *next;
	struct rs_dgram *d;
	struct rs_cm_user cm;
	struct sockaddr_storage addr;
	struct rs_dqp *qp;          /**< that we send from */
	struct rdma_cm_id *id;      /**< by which the route to it is resolved */
	bool resolving;
	struct ibv_ah *ah;          /**< NULL: not known yet */
	uint32_t qpn;               /**< 0: not known yet */
};

struct rs_dgram {
	struct rsocket rs;
	struct rdma_event_channel *cm_channel;
	int udp;
	struct rs_watch watch;
	bool watched;
	bool wr_shut, rd_shut;
	pthread_mutex_t slock;
	struct rs_dqp *qps, *send_qp;
	struct rs_dest *dests[RS_DESTS];
	uint32_t nb_dests;
	struct rs_dest *connected;
	struct rs_dmsg *first, **end;
	uint32_t nb_by_udp;
};

static inline struct rs_dgram *
to_dgram(struct rsocket *rs)
{
	return container_of(rs, struct rs_dgram, rs);
}

static inline socklen_t
rs_addr_len(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/** Whether address and port are the same. */
static inline bool
rs_same_addr(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a6->sin6_port == b6->sin6_port && !memcmp(&a6->sin6_addr, &b6->sin6_addr, 16);
}

/** Queue a datagram that arrived. @return false: the rsocket takes none from that peer */
static inline bool
rs_dgram_queue(struct rs_dgram *d, struct rs_dmsg *m)
{
	if (d->rd_shut || (d->connected && !rs_same_addr(&m->from, &d->connected->addr)))
		return false;
	m->next = NULL;
	*d->end = m;
	d->end = &m->next;
	return true;
}

/* ---- rs_dqp.c ---- */
/** The QP of local address @p local, made if there is none. */
int rs_dqp_get(struct rs_dgram *d, const struct sockaddr_storage *local, struct rs_dqp **out);
void rs_dqp_free(struct rs_dqp *qp);
/** @return RS_EV_* */
int rs_dqp_progress(struct rs_dqp *qp);
/** Give a receive back that was read. */
void rs_dqp_recv(struct rs_dqp *qp, uint32_t slot);
/** A datagram of the vector's, which fits, to @p to. Only if rs_dqp_room(). */
int rs_dqp_send(struct rs_dqp *qp, const struct rs_dest *to, const struct iovec *iov, int n, uint32_t bytes);
static inline bool
rs_dqp_room(const struct rs_dqp *qp)
{
	return qp->posted - qp->done < qp->nb_sends;
}

/* ---- rs_udp.c ---- */
/** The peer with that address, entered if it is new; with a QP to send from. */
int rs_dest_get(struct rs_dgram *d, const struct sockaddr_storage *addr, struct rs_dest **out);
void rs_dest_free(struct rs_dest *dest);
/** Send by UDP: a datagram, or (RS_OP_CTRL, no vector) only the number of our QP. */
int rs_udp_send(struct rs_dgram *d, const struct rs_dest *to, enum rs_op op, const struct iovec *iov, int n, int flags);
/** The service: the UDP socket is readable. */
void rs_udp_readable(struct rs_watch *w);

#endif /* UROCE_RS_DGRAM_H */
