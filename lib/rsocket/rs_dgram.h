/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Datagram rsockets: declarations shared by rs_dgram.c (the program's side), rs_dqp.c (QPs) and rs_udp.c (finding
 * peers).
 *
 * A datagram rsocket has a UDP socket of the kernel, whose address is the rsocket's, and a UD QP for every local
 * address that it has sent from. The first datagram to a peer is sent by UDP, with our QP number; the peer's answer has
 * its QP number, and from then on datagrams go from QP to QP. A datagram longer than the QP's MTU is always sent by
 * UDP.
 *
 * Everything is protected by the rsocket's lock; slock only excludes other senders while one waits.
 */
#ifndef UROCE_RS_DGRAM_H
#define UROCE_RS_DGRAM_H

#include "rsocket/rs_priv.h"

enum {
	RS_DGRAM_BYTES = 2048,      /**< the largest datagram with its header */
	RS_DGRAM_STRIDE = 2112,     /**< size of a receive buffer: a GRH, then the datagram; whole cache lines */
	RS_GRH_BYTES = 40,
	RS_DESTS = 256,             /**< hash lists of destinations */
	RS_DESTS_MAX = 4096,        /**< peers of one rsocket */
	RS_UDP_QUEUED_MAX = 512,    /**< datagrams that came by UDP and aren't read yet */
	RS_UDP_BURST = 64,          /**< packets read from one rsocket's UDP socket in a row */
	RS_RESOLVE_DEST_MS = 2000,
};

struct rs_dgram;

/** A received datagram. */
struct rs_dmsg {
	struct rs_dmsg *next;
	struct rs_dqp *qp;          /**< the QP whose receive buffer it is in; NULL: it came by UDP */
	uint32_t slot;
	uint32_t bytes;
	const uint8_t *data;
	struct sockaddr_storage from;
};

/** A QP for one local address. */
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
	uint32_t posted, done;      /**< sends; send n uses slot n % nb_sends */
	uint8_t *memory, *sends;
	size_t memory_bytes;
	struct ibv_mr *mr;
	struct rs_dmsg *msgs;       /**< one for each receive */
};

/** A peer. */
struct rs_dest {
	struct rs_dest *next;
	struct rs_dgram *d;
	struct rs_cm_user cm;
	struct sockaddr_storage addr;
	struct rs_dqp *qp;          /**< the QP that sends to this peer */
	struct rdma_cm_id *id;      /**< id that resolves the route to the peer */
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

/** @return true if address and port are the same. */
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

/**
 * Queue a datagram that arrived.
 * @return false: the rsocket accepts none from that peer
 */
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
/** Find the QP of local address @p local, or make one. */
int rs_dqp_get(struct rs_dgram *d, const struct sockaddr_storage *local, struct rs_dqp **out);
void rs_dqp_free(struct rs_dqp *qp);
/** @return RS_EV_* */
int rs_dqp_progress(struct rs_dqp *qp);
/** Post a receive again whose datagram was read. */
void rs_dqp_recv(struct rs_dqp *qp, uint32_t slot);
/** Send a datagram with @p bytes of the vector, which must fit, to @p to. Call only if rs_dqp_room(). */
int rs_dqp_send(struct rs_dqp *qp, const struct rs_dest *to, const struct iovec *iov, int n, uint32_t bytes);
static inline bool
rs_dqp_room(const struct rs_dqp *qp)
{
	return qp->posted - qp->done < qp->nb_sends;
}

/* ---- rs_udp.c ---- */
/** Find the peer with that address, or add it; it has a QP to send from. */
int rs_dest_get(struct rs_dgram *d, const struct sockaddr_storage *addr, struct rs_dest **out);
void rs_dest_free(struct rs_dest *dest);
/** Send by UDP a datagram, or only our QP number (RS_OP_CTRL, no vector). */
int rs_udp_send(struct rs_dgram *d, const struct rs_dest *to, enum rs_op op, const struct iovec *iov, int n, int flags);
/** Called by the service: the UDP socket is readable. */
void rs_udp_readable(struct rs_watch *w);

#endif /* UROCE_RS_DGRAM_H */
