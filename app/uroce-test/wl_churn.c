/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are set up and torn down: one operation creates two QPs, connects them, sends a message and destroys
 * them. The workload has its own thread, because creating and destroying QPs waits for the control.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "workload.h"

enum { SIDES = 2, SPINS = 1000, TIMEOUT_MS = 5000 };

/** Objects that all connections use. */
struct side {
	struct host *host;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory;
	struct ibv_qp *qp;
};

static int
side_open(struct workload *w, struct side *s, struct host *h)
{
	s->host = h;
	s->memory = calloc(1, w->o.size);
	s->pd = s->memory != NULL ? ibv_alloc_pd(h->ctx) : NULL;
	s->cq = s->pd != NULL ? ibv_create_cq(h->ctx, 4, NULL, NULL, 0) : NULL;
	s->mr = s->cq != NULL ? ibv_reg_mr(s->pd, s->memory, w->o.size, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (s->mr != NULL)
		return 0;
	workload_fail(w, "%s: PD, CQ and MR: %s", h->name, strerror(errno));
	return -1;
}

static void
side_close(struct side *s)
{
	if (s->mr != NULL)
		ibv_dereg_mr(s->mr);
	if (s->cq != NULL)
		ibv_destroy_cq(s->cq);
	if (s->pd != NULL)
		ibv_dealloc_pd(s->pd);
	free(s->memory);
}

static int
make_qp(struct workload *w, struct side *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	s->qp = ibv_create_qp(s->pd, &init);
	if (s->qp != NULL)
		return 0;
	workload_fail(w, "%s: ibv_create_qp: %s", s->host->name, strerror(errno));
	return -1;
}

static int
connect_to(struct workload *w, struct side *s, const struct side *other)
{
	struct object_peer peer = { .known = true, .qpn = other->qp->qp_num, .psn = other->qp->qp_num & PSN_MASK };
	struct connect_attr a = w->o.connect;
	const char *step;
	int rc;

	peer.gid = *host_gid(other->host, host_sgid_index(other->host, w->o.ipv6));
	a.sgid_index = host_sgid_index(s->host, w->o.ipv6);
	rc = connect_qp(s->qp, &a, s->qp->qp_num & PSN_MASK, &peer, &step);
	if (rc != 0)
		workload_fail(w, "%s: %s: %s", s->host->name, step, strerror(rc));
	return rc;
}

/** Wait for one completion. */
static int
wait_for(struct workload *w, struct side *s)
{
	const uint64_t until = rte_rdtsc() + rte_get_tsc_hz() / 1000 * TIMEOUT_MS;
	struct ibv_wc wc;

	for (unsigned int i = 0; ibv_poll_cq(s->cq, 1, &wc) == 0; i++) {
		if (i < SPINS)
			continue;
		if (rte_rdtsc() > until) {
			workload_fail(w, "%s: no completion within %d s", s->host->name, TIMEOUT_MS / 1000);
			return -1;
		}
		usleep(1);
	}
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	workload_fail(w, "%s: %s", s->host->name, ibv_wc_status_str(wc.status));
	return -1;
}

static int
send_one(struct workload *w, struct side *from, struct side *to)
{
	struct ibv_sge sge[SIDES] = { { (uintptr_t)from->memory, w->o.size, from->mr->lkey },
				      { (uintptr_t)to->memory, w->o.size, to->mr->lkey } };
	struct ibv_recv_wr recv = { .sg_list = &sge[1], .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .sg_list = &sge[0], .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED },
			   *bad_send;

	if (ibv_post_recv(to->qp, &recv, &bad_recv) != 0 || ibv_post_send(from->qp, &send, &bad_send) != 0) {
		workload_fail(w, "a WR can't be posted");
		return -1;
	}
	return wait_for(w, to) != 0 || wait_for(w, from) != 0 ? -1 : 0;
}

static int
cycle(struct workload *w, struct side sides[SIDES])
{
	int rc;

	rc = make_qp(w, &sides[0]) != 0 || make_qp(w, &sides[1]) != 0 || connect_to(w, &sides[0], &sides[1]) != 0 ||
	     connect_to(w, &sides[1], &sides[0]) != 0 || send_one(w, &sides[0], &sides[1]) != 0;
	for (unsigned int i = 0; i < SIDES; i++) {
		if (sides[i].qp != NULL && ibv_destroy_qp(sides[i].qp) != 0)
			workload_fail(w, "%s: a QP can't be destroyed", sides[i].host->name);
		sides[i].qp = NULL;
	}
	return rc;
}

static void
run(struct workload *w)
{
	struct side sides[SIDES] = { 0 };
	uint64_t n = 0, now = rte_rdtsc(), next = now;

	if (side_open(w, &sides[0], w->from) == 0 && side_open(w, &sides[1], w->to) == 0) {
		while (!atomic_load(&w->stop) && (w->o.count == 0 || n < w->o.count) && (w->deadline_tsc == 0 || now < w->deadline_tsc)) {
			now = rte_rdtsc();
			if (w->tsc_per_op > 0 && now < next) {
				usleep(100);
				continue;
			}
			next += (uint64_t)w->tsc_per_op;
			if (cycle(w, sides) != 0)
				break;
			hist_add(&w->own_hist, (uint64_t)((double)(rte_rdtsc() - now) * 1e9 / (double)rte_get_tsc_hz()));
			atomic_store(&w->own_ops, ++n);
			atomic_store(&w->own_bytes, n * w->o.size);
		}
	}
	side_close(&sides[0]);
	side_close(&sides[1]);
}

static int
setup(struct workload *w, const struct call *c)
{
	if (call_has(c, "on") || w->o.qps != 1) {
		workload_fail(w, "it makes and destroys QPs of its own, one pair at a time: leave out on and qps");
		return -1;
	}
	return 0;
}

static const struct workload_ops churn_ops = {
	.name = "churn",
	.help = "make two QPs, connect them, SEND, destroy them; latencies are of all that",
	.qp_type = IBV_QPT_RC,
	.size = 64,
	.setup = setup,
	.run = run,
};
WORKLOAD(churn_ops)
