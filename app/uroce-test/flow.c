/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of a lane: polls completions, begins operations, stops after a failure. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>

#include "workload.h"

enum {
	POLL_BATCH = 32,
	POST_BATCH = 16,  /* operations of one endpoint in one step */
	EPS_PER_STEP = 64, /* endpoints that are checked for room in one step */
	GRH_BYTES = 40,
};

/*
 * wr_id consists of the workload's tag, the endpoint's index in its lane, a bit that is set for receives, and the slot.
 * The CQs of the user's QPs may contain completions of other work requests.
 */
#define WR_RECV (UINT64_C(1) << 31)
#define WR_INDEX_SHIFT 32
#define WR_TAG_SHIFT 48
static inline uint64_t
wr_id(const struct endpoint *ep, uint32_t slot)
{
	return (uint64_t)ep->lane->w->tag << WR_TAG_SHIFT | (uint64_t)ep->wr_index << WR_INDEX_SHIFT | slot;
}

static inline void
count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static uint64_t
tsc_to_ns(uint64_t cycles)
{
	static double ns_per_cycle;

	if (ns_per_cycle == 0)
		ns_per_cycle = 1e9 / (double)rte_get_tsc_hz();
	return (uint64_t)((double)cycles * ns_per_cycle);
}

void
workload_fail(struct workload *w, const char *fmt, ...)
{
	va_list ap;

	if (atomic_flag_test_and_set(&w->failing))
		return;
	va_start(ap, fmt);
	vsnprintf(w->error, sizeof(w->error), fmt, ap);
	va_end(ap);
	atomic_store_explicit(&w->state, WORKLOAD_FAILED, memory_order_release);
}

/* ---- Receives ---- */
static int
post_recv(struct endpoint *ep, uint32_t slot)
{
	uint32_t extra = ep->qp->qp_type == IBV_QPT_UD ? GRH_BYTES : 0;
	size_t stride = flow_stride(ep->lane->w) + (extra > 0 ? 64 : 0);
	struct ibv_sge sge = {
		.addr = (uintptr_t)(ep->recv_mem + slot * stride),
		.length = ep->lane->w->o.size + extra,
		.lkey = ep->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = wr_id(ep, slot) | WR_RECV, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(ep->qp, &wr, &bad);
}

int
flow_prepare(struct endpoint *ep)
{
	int rc = 0;

	for (uint32_t slot = 0; rc == 0 && slot < ep->recv_depth; slot++)
		rc = post_recv(ep, slot);
	return rc;
}

/* ---- Operations ---- */
void
flow_post(struct endpoint *ep, uint32_t slot)
{
	struct workload *w = ep->lane->w;
	struct ibv_sge sge = { .addr = (uintptr_t)flow_slot(ep, 0, slot), .length = w->o.size, .lkey = ep->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id(ep, slot), .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
				  .opcode = w->ops->opcode }, *bad;
	int rc;

	if (w->ops->reaches_memory) {
		wr.wr.rdma.remote_addr = flow_remote(ep, slot);
		wr.wr.rdma.rkey = ep->rkey;
	}
	if (w->ops->make != NULL)
		w->ops->make(ep, slot, &wr);
	rc = ibv_post_send(ep->qp, &wr, &bad);
	if (rc != 0)
		workload_fail(w, "%s QPN 0x%x: ibv_post_send: %s", ep->lane->host->name, ep->qp->qp_num, strerror(rc));
}

void
flow_done(struct endpoint *ep, uint32_t slot, uint64_t bytes)
{
	struct lane *l = ep->lane;

	hist_add(&l->hist, tsc_to_ns(rte_rdtsc() - ep->stamps[slot]));
	count(&ep->ops, 1);
	count(&ep->bytes, bytes);
	ep->free_slots[ep->nb_free++] = slot;
	ep->done++;
	if (ep->done == ep->quota)
		l->nb_finished++;
}

static void
begin(struct endpoint *ep, uint64_t now)
{
	uint32_t slot = ep->free_slots[--ep->nb_free];

	ep->stamps[slot] = now;
	ep->phases[slot] = 0;
	ep->numbers[slot] = ep->begun++;
	flow_post(ep, slot);
}

/** @return number of operations begun. */
static uint32_t
begin_some(struct endpoint *ep, uint64_t now)
{
	const struct workload *w = ep->lane->w;
	uint32_t n;

	for (n = 0; n < POST_BATCH && ep->nb_free > 0 && ep->begun < ep->quota; n++) {
		if (w->tsc_per_op > 0) {
			if (now < ep->next_tsc)
				break;
			ep->next_tsc += (uint64_t)w->tsc_per_op;
			/* After a stall the workload continues at its rate; it doesn't catch up. */
			if (ep->next_tsc + (uint64_t)(w->tsc_per_op * POST_BATCH) < now)
				ep->next_tsc = now;
		}
		begin(ep, now);
		now = rte_rdtsc();
	}
	return n;
}

/* ---- Completions ---- */
static struct endpoint *
endpoint_of(struct lane *l, const struct ibv_wc *wc)
{
	uint16_t i = (uint16_t)(wc->wr_id >> WR_INDEX_SHIFT);

	if (wc->wr_id >> WR_TAG_SHIFT != l->w->tag || i >= l->nb_eps || l->eps[i].qp->qp_num != wc->qp_num)
		return NULL;
	return &l->eps[i];
}

static void
complete(struct lane *l, const struct ibv_wc *wc)
{
	const struct workload_ops *ops = l->w->ops;
	struct endpoint *ep = endpoint_of(l, wc);
	uint32_t slot = (uint32_t)(wc->wr_id & (WR_RECV - 1));
	int rc;

	if (ep == NULL)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		workload_fail(l->w, "%s QPN 0x%x: %s, vendor error %u", l->host->name, wc->qp_num, ibv_wc_status_str(wc->status),
			      wc->vendor_err);
		return;
	}
	if ((wc->wr_id & WR_RECV) != 0) {
		count(&ep->received, 1);
		if (ops->received != NULL)
			ops->received(ep, slot, wc);
		rc = post_recv(ep, slot);
		if (rc != 0)
			workload_fail(l->w, "%s QPN 0x%x: ibv_post_recv: %s", l->host->name, wc->qp_num, strerror(rc));
	} else if (ops->sent != NULL) {
		ops->sent(ep, slot, wc);
	} else {
		flow_done(ep, slot, l->w->o.size);
	}
}

static uint32_t
poll_all(struct lane *l)
{
	struct ibv_wc wc[POLL_BATCH];
	uint32_t work = 0;

	for (unsigned int i = 0; i < l->nb_cqs; i++) {
		int n = ibv_poll_cq(l->cqs[i], POLL_BATCH, wc);

		for (int k = 0; k < n; k++)
			complete(l, &wc[k]);
		if (n < 0)
			workload_fail(l->w, "%s: ibv_poll_cq fails", l->host->name);
		work += n > 0 ? (uint32_t)n : 0;
	}
	return work;
}

/** Begin no more operations: an endpoint is finished when the operations that it has begun are. */
static void
close_quotas(struct lane *l)
{
	l->nb_finished = 0;
	for (uint32_t i = 0; i < l->nb_eps; i++) {
		struct endpoint *ep = &l->eps[i];

		if (!ep->active)
			continue;
		ep->quota = ep->begun;
		if (ep->done == ep->quota)
			l->nb_finished++;
	}
}

static uint32_t
begin_all(struct lane *l, uint64_t now)
{
	uint32_t work = 0;

	for (uint32_t k = 0; k < l->nb_eps && k < EPS_PER_STEP; k++) {
		struct endpoint *ep = &l->eps[l->next_ep];

		if (++l->next_ep == l->nb_eps)
			l->next_ep = 0;
		if (ep->active)
			work += begin_some(ep, now);
	}
	return work;
}

/** Mark the lane as done. Its end is this moment, not the one at which somebody looks. */
static void
finish(struct lane *l)
{
	if (atomic_load_explicit(&l->done, memory_order_relaxed))
		return;
	atomic_store_explicit(&l->end_tsc, rte_rdtsc(), memory_order_relaxed);
	atomic_store_explicit(&l->done, true, memory_order_release);
}

uint32_t
flow_step(struct job *job)
{
	struct lane *l = (struct lane *)job;
	struct workload *w = l->w;
	uint64_t now;
	uint32_t work;

	if (workload_failing(w)) {
		finish(l);
		return 0;
	}
	work = poll_all(l);
	if (l->nb_active == 0 || atomic_load_explicit(&l->done, memory_order_relaxed))
		return work;
	now = rte_rdtsc();
	if (w->deadline_tsc != 0 && now >= w->deadline_tsc)
		atomic_store_explicit(&w->stop, true, memory_order_relaxed);
	if (atomic_load_explicit(&w->stop, memory_order_relaxed))
		close_quotas(l);
	else
		work += begin_all(l, now);
	if (l->nb_finished == l->nb_active)
		finish(l);
	return work;
}
