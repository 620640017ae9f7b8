/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time wait: acknowledging duplicates on behalf of destroyed QPs.
 *
 * A program that has received the last message of its peer may destroy its QP at once. If the ACK was lost, the peer
 * resends that message, nobody answers, and a message that was delivered completes with RETRY_EXC_ERR. So for a while
 * duplicates of requests that a destroyed QP had executed are acknowledged in its place. Requests that it never
 * received stay unanswered. This is not done for a QP in ERR or RESET: it may be connected anew under the same number,
 * and then the same PSNs belong to other messages.
 */
#include <rte_spinlock.h>

#include "base/mark.h"
#include "transport/core/checks_priv.h"
#include "transport/core/time_wait_priv.h"
#include "transport/core/tx_priv.h"

enum {
	TIME_WAIT_MAX = 1024,        /* how many destroyed QPs are remembered; a power of two */
	TIME_WAIT_PSNS = 4096,       /* how many PSNs behind the expected one a duplicate may be */
};
static_assert((TIME_WAIT_MAX & (TIME_WAIT_MAX - 1)) == 0, "QP numbers are masked by it");
/*
 * Two ACK timeouts with timeout 19, which QPs of rdma_cm have in uroce and Linux. A NIC may wait up to four times its
 * own (9.7.6.1.3).
 */
#define TIME_WAIT_NS UINT64_C(5000000000)

struct time_wait {
	uint32_t dest_qpn;
	uint32_t epsn, msn;
	uint32_t res_psn;         /* PSN of the last READ or atomic, */
	bool res;                 /* if there was one */
	bool loopback, migreq;
	uint8_t prefix;
	uint16_t port, pkey;
	uint64_t until_ns;
	struct wire_tmpl tmpl;
};

struct time_wait_table {
	rte_spinlock_t lock;
	_Atomic uint32_t qpn[TIME_WAIT_MAX]; /* 0: empty; read before the lock is taken */
	struct time_wait of[TIME_WAIT_MAX];
};

struct time_wait_table *
time_wait_create(void)
{
	struct time_wait_table *t = calloc(1, sizeof(*t));

	if (t != NULL)
		rte_spinlock_init(&t->lock);
	return t;
}

/* @return the last READ or atomic, or NULL. */
static const struct tp_res *
last_res(const struct qp *qp)
{
	const struct tp_res *r = qp->resp.res_max != 0 ? &qp->resp.res[(qp->resp.res_head == 0 ? qp->resp.res_max : qp->resp.res_head) - 1] : NULL;

	return r != NULL && r->used ? r : NULL;
}

void
time_wait_add(struct time_wait_table *t, struct transport *tp, const struct qp *qp)
{
	uint32_t slot = qp->qpn & (TIME_WAIT_MAX - 1);
	struct time_wait *d = &t->of[slot];
	bool connected = qp->service == WIRE_RC && qp_does(qp, QP_CONNECTED);
	const struct tp_res *last = last_res(qp);

	if (!connected || qp->path.tmpl.bth_off == 0 || qp->rcv.epsn == qp->attr.rq_psn)
		return;
	UROCE_ASSERT(slot < TIME_WAIT_MAX);
	rte_spinlock_lock(&t->lock);
	d->dest_qpn = qp->path.dest_qpn;
	d->epsn = qp->rcv.epsn;
	d->msn = qp->rcv.msn;
	d->res = last != NULL;
	d->res_psn = last != NULL ? last->psn : 0;
	d->loopback = qp->path.loopback;
	d->migreq = qp->path.mig == TP_MIG_MIGRATED;
	d->prefix = qp->prefix;
	d->port = qp->path.port;
	d->pkey = qp->path.pkey;
	d->tmpl = qp->path.tmpl;
	d->until_ns = tp->now_ns + TIME_WAIT_NS;
	atomic_store_explicit(&t->qpn[slot], qp->qpn, memory_order_relaxed);
	rte_spinlock_unlock(&t->lock);
}

/* @return whether @p p is a duplicate of a request that the QP of @p d had executed. */
static bool
executed(const struct time_wait *d, const struct transport *tp, uint16_t port, const struct wire_pkt *p)
{
	int32_t behind = -wire_psn_diff(p->bth.psn, d->epsn);

	return tp->now_ns < d->until_ns && port == d->port && behind > 0 && behind <= TIME_WAIT_PSNS &&
	       WIRE_OPCODE_SERVICE(p->bth.opcode) == d->prefix && (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) != 0 &&
	       (p->op->flags & WIRE_F_RESPONSE) == 0 && pkey_match(p->bth.pkey, d->pkey) && address_match(&d->tmpl, p) &&
	       vlan_match_tmpl(tp, port, &d->tmpl, p);
}

bool
time_wait_rx(struct time_wait_table *t, struct transport *tp, uint16_t port, const struct wire_pkt *p)
{
	uint32_t slot = p->bth.dqpn & (TIME_WAIT_MAX - 1);
	struct time_wait d;
	struct wire_bth b;
	struct tp_out o;
	bool same;

	if (p->bth.dqpn == 0 || atomic_load_explicit(&t->qpn[slot], memory_order_relaxed) != p->bth.dqpn)
		return false;
	rte_spinlock_lock(&t->lock);
	same = atomic_load_explicit(&t->qpn[slot], memory_order_relaxed) == p->bth.dqpn;
	d = t->of[slot];
	rte_spinlock_unlock(&t->lock);
	if (!same || !executed(&d, tp, port, p))
		return false;
	MARK("a duplicate arrives for a destroyed QP");
	MARK_IF(d.res && wire_psn_diff(p->bth.psn, d.res_psn) < 0, "the duplicate for a destroyed QP comes before a READ");
	tp->counters.duplicate_request++;
	/* The peer waits for an answer only to packets that ask for an ACK. */
	if (!p->bth.ackreq)
		return true;
	b = (struct wire_bth){ .opcode = WIRE_OP_ACK | d.prefix, .dqpn = d.dest_qpn, .pkey = d.pkey, .migreq = d.migreq };
	/*
	 * Don't acknowledge a READ or atomic whose response the peer may lack: nobody can send that response any more.
	 */
	b.psn = d.res && wire_psn_diff(p->bth.psn, d.res_psn) < 0 ? p->bth.psn : wire_psn_add(d.epsn, WIRE_PSN_MASK);
	if (!tp_begin_at(tp, d.loopback ? &tp->loop : &tp->tx[d.port], &d.tmpl, b.opcode, &o))
		return true;
	wire_put_aeth(o.bth + o.op->off_aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, d.msn);
	tp_finish_at(tp, &d.tmpl, d.port, d.loopback, &o, b, 0);
	tp->counters.acks_sent++;
	tp->counters.time_wait_acks_sent++;
	return true;
}
