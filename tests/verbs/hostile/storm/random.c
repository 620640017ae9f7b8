/* SPDX-License-Identifier: BSD-3-Clause */
#include "storm/random.h"

#include <fcntl.h>
#include <string.h>

enum {
	PAGE = 4096,
	QUEUE_MAX = 64,
	PORTS = 16,        /* of rdma_cm */
	FIRST_PORT = 7000,
	MUTATED_PART = 4,  /* one of so many requests is a valid one with a few bytes changed */
	RANDOM_PART = 8,   /* one of so many has random fields */
	GARBAGE_PART = 16, /* one of so many is only bytes */
	REG_PART = 8,      /* one of so many valid ones registers memory */
	OTHER_PART = 32,   /* one of so many is for a session of the other kind */
	DESTROY_PART = 4,  /* so many times fewer requests destroy objects */
	TRIES = 8,
	ANY_HANDLE = 32,   /* one of so many handles is none that was made */
};

uint64_t
storm_random(struct storm_random *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * UINT64_C(0x2545f4914f6cdd1d);
}

uint32_t
storm_below(struct storm_random *r, uint32_t n)
{
	return (uint32_t)(storm_random(r) >> 32) % n;
}

static void
random_bytes(struct storm_random *r, void *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)out)[i] = (uint8_t)(storm_random(r) >> 56);
}

static void
put_gid(uint8_t gid[16], const uint8_t ip[4])
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, ip, 4);
}

static void
fill_ah(struct storm_random *r, const struct storm_world *w, struct uroce_ah_attr *a)
{
	*a = (struct uroce_ah_attr){ .sgid_index = (uint8_t)storm_below(r, 3), .hop_limit = 64, .is_global = 1, .port_num = 1,
				     .sl = (uint8_t)storm_below(r, 8), .flow_label = storm_below(r, 1 << 20) };
	put_gid(a->dgid, storm_below(r, 4) == 0 ? w->local : w->peer);
}

static void
fill_addr(struct storm_random *r, const uint8_t ip[4], struct ctl_cm_addr *a)
{
	*a = (struct ctl_cm_addr){ .family = 4, .port = (uint16_t)(FIRST_PORT + storm_below(r, PORTS)) };
	put_gid(a->gid, ip);
}

/* A QP's way to RTS, and sometimes elsewhere. */
static void
fill_modify(struct storm_random *r, const struct storm_world *w, struct ctl_qp_modify_req *m)
{
	struct uroce_qp_attr *a = &m->attr;

	memset(a, 0, sizeof(*a));
	a->port_num = 1;
	a->qkey = 0x1234;
	a->qp_access_flags = storm_below(r, 16);
	switch (storm_below(r, 6)) {
	case 0:
		a->qp_state = UROCE_QPS_INIT;
		m->mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT |
			  (storm_below(r, 4) == 0 ? UROCE_QP_QKEY : UROCE_QP_ACCESS_FLAGS);
		break;
	case 1:
	case 2:
		a->qp_state = UROCE_QPS_RTR;
		a->path_mtu = 1 + storm_below(r, 5);
		a->dest_qp_num = storm_below(r, 512);
		a->rq_psn = storm_below(r, 1 << 24);
		a->max_dest_rd_atomic = (uint8_t)storm_below(r, 17);
		a->min_rnr_timer = (uint8_t)storm_below(r, 32);
		fill_ah(r, w, &a->ah);
		m->mask = UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN;
		if (storm_below(r, 4) != 0)
			m->mask |= UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
		break;
	case 3:
	case 4:
		a->qp_state = UROCE_QPS_RTS;
		a->sq_psn = storm_below(r, 1 << 24);
		a->timeout = (uint8_t)storm_below(r, 16);
		a->retry_cnt = (uint8_t)storm_below(r, 8);
		a->rnr_retry = (uint8_t)storm_below(r, 8);
		a->max_rd_atomic = (uint8_t)storm_below(r, 17);
		m->mask = UROCE_QP_STATE | UROCE_QP_SQ_PSN;
		if (storm_below(r, 4) != 0)
			m->mask |= UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC;
		break;
	default:
		a->qp_state = storm_below(r, UROCE_QPS_STATES);
		m->mask = UROCE_QP_STATE;
	}
}

static void
fill_connect(struct storm_random *r, struct ctl_cm_connect_req *c)
{
	c->param = (struct ctl_cm_conn_param){ .qp_num = storm_below(r, 256), .responder_resources = (uint8_t)storm_below(r, 17),
					       .initiator_depth = (uint8_t)storm_below(r, 17), .retry_count = 7,
					       .rnr_retry_count = 7, .qp_type = UROCE_QPT_RC,
					       .private_len = (uint8_t)storm_below(r, 57) };
	random_bytes(r, c->private_data, c->param.private_len);
}

/** Fields with values that the daemon accepts in the right state. Fields that are handles hold the number of one. */
static void
fill(struct storm_random *r, const struct storm_world *w, struct ctl_req *q)
{
	static const uint8_t types[] = { UROCE_QPT_RC, UROCE_QPT_RC, UROCE_QPT_UC, UROCE_QPT_UD, UROCE_QPT_XRC_SEND,
					 UROCE_QPT_XRC_RECV };

	switch (q->op) {
	case CTL_HELLO:
		q->hello.abi_version = UROCE_ABI_VERSION;
		strcpy(q->hello.program, "storm");
		break;
	case CTL_CQ_CREATE:
		q->cq_create.cqe = 1 + storm_below(r, QUEUE_MAX);
		q->cq_create.has_channel = storm_below(r, 4) == 0;
		q->cq_create.stamps = storm_below(r, 2);
		break;
	case CTL_CQ_RESIZE:
		q->cq_resize.cqe = 1 + storm_below(r, 4 * QUEUE_MAX);
		break;
	case CTL_CQ_MODIFY:
		q->cq_modify.count = (uint16_t)storm_below(r, 16);
		q->cq_modify.period_us = (uint16_t)storm_below(r, 100);
		break;
	case CTL_SRQ_CREATE:
		q->srq_create.max_wr = 1 + storm_below(r, QUEUE_MAX);
		q->srq_create.max_sge = 1 + storm_below(r, 4);
		q->srq_create.is_xrc = storm_below(r, 2);
		break;
	case CTL_SRQ_MODIFY:
		q->srq_modify.mask = 1 + storm_below(r, 3);
		q->srq_modify.max_wr = 1 + storm_below(r, QUEUE_MAX);
		q->srq_modify.limit = storm_below(r, QUEUE_MAX);
		break;
	case CTL_QP_CREATE:
		q->qp_create.type = types[storm_below(r, sizeof(types))];
		q->qp_create.srq = storm_below(r, 4) == 0 ? storm_below(r, 4) : UINT32_MAX;
		q->qp_create.sq_sig_all = storm_below(r, 2);
		q->qp_create.cap = (struct uroce_qp_cap){ 1 + storm_below(r, QUEUE_MAX), 1 + storm_below(r, QUEUE_MAX),
							  1 + storm_below(r, 4), 1 + storm_below(r, 4), storm_below(r, 128) };
		break;
	case CTL_QP_MODIFY:
		fill_modify(r, w, &q->qp_modify);
		break;
	case CTL_AH_CREATE:
		fill_ah(r, w, &q->ah_create.attr);
		break;
	case CTL_MW_ALLOC:
		q->mw_alloc.type = 1 + storm_below(r, 2);
		break;
	case CTL_DM_ALLOC:
		q->dm_alloc.length = 1 + storm_below(r, UROCE_MAX_DM_BYTES / 4);
		q->dm_alloc.log_align = storm_below(r, UROCE_MAX_DM_LOG_ALIGN + 1);
		break;
	case CTL_DM_REG:
		q->dm_reg.offset = storm_below(r, 4096);
		q->dm_reg.length = storm_below(r, UROCE_MAX_DM_BYTES / 8);
		q->dm_reg.access = UROCE_ACCESS_ZERO_BASED | UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE;
		break;
	case CTL_XRCD_OPEN:
		q->xrcd_open.oflags = O_CREAT;
		break;
	case CTL_MCAST_ATTACH:
	case CTL_MCAST_DETACH:
		put_gid(q->mcast.mgid, (const uint8_t[4]){ 239, 1, 1, (uint8_t)storm_below(r, 8) });
		break;
	case CTL_CM_CREATE_ID:
		q->cm_create = (struct ctl_cm_create_req){ storm_below(r, 4) == 0 ? CTL_CM_PS_UDP : CTL_CM_PS_TCP, UROCE_QPT_RC };
		break;
	case CTL_CM_BIND:
		fill_addr(r, w->local, &q->cm_bind.addr);
		break;
	case CTL_CM_RESOLVE_ADDR:
		q->cm_resolve_addr.timeout_ms = 1 + storm_below(r, 1000);
		fill_addr(r, storm_below(r, 2) == 0 ? w->local : w->peer, &q->cm_resolve_addr.dst);
		break;
	case CTL_CM_RESOLVE_ROUTE:
		q->cm_resolve_route.timeout_ms = 1 + storm_below(r, 1000);
		break;
	case CTL_CM_LISTEN:
		q->cm_listen.backlog = storm_below(r, 16);
		break;
	case CTL_CM_CONNECT:
	case CTL_CM_ACCEPT:
		fill_connect(r, &q->cm_connect);
		break;
	case CTL_CM_JOIN:
		fill_addr(r, (const uint8_t[4]){ 239, 1, 1, (uint8_t)storm_below(r, 8) }, &q->cm_join.addr);
		q->cm_join.join_flags = 1 + storm_below(r, 2);
		break;
	default:
		break;
	}
}

/** Segments that cover a part of an area. @return the bytes of the request. */
static size_t
registration(struct storm_random *r, const struct storm_world *w, const struct request_handles *h, uint8_t *out)
{
	struct ctl_req q = { .magic = CTL_MAGIC, .op = storm_below(r, 16) == 0 ? CTL_MR_SEGS : CTL_MR_REG };
	struct ctl_seg segs[STORM_SEGS_MAX] = { 0 };
	uint32_t n = 1 + storm_below(r, STORM_SEGS_MAX), odd = storm_below(r, 8);
	uint64_t start = (uintptr_t)(odd < 4 ? w->shared : w->private), va = start;

	for (uint32_t i = 0; i < n; i++) {
		segs[i] = (struct ctl_seg){ .va = va, .length = (uint64_t)PAGE * (1 + storm_below(r, 2)),
					    .kind = odd < 4 ? CTL_SEG_SHARED : 1 + storm_below(r, 2) * 2,
					    .map_start = (uintptr_t)w->shared,
					    .map_end = (uintptr_t)w->shared + STORM_AREA_BYTES };
		segs[i].offset = segs[i].kind == CTL_SEG_SHARED ? va - segs[i].map_start : (uint64_t)storm_below(r, 16) * PAGE;
		va += segs[i].length;
	}
	if (odd == 7)
		random_bytes(r, &segs[storm_below(r, n)], storm_below(r, sizeof(segs[0]) + 1));
	if (q.op == CTL_MR_SEGS)
		q.mr_segs.nb_in_msg = n;
	else {
		q.mr_reg = (struct ctl_mr_reg_req){ .pd = storm_below(r, REQUEST_HANDLES), .access = storm_below(r, 32), .addr = start,
						    .iova = start, .length = va - start, .nb_segs = n, .nb_in_msg = n,
						    .replace = storm_below(r, 8) == 0, .old = storm_below(r, REQUEST_HANDLES) };
		if (storm_below(r, 16) == 0)
			q.mr_reg.nb_segs += storm_below(r, 4);
		request_put_handle(h, &q, offsetof(struct ctl_req, mr_reg.pd), H_PD);
		request_put_handle(h, &q, offsetof(struct ctl_req, mr_reg.old), H_MR);
	}
	memcpy(out, &q, sizeof(q));
	memcpy(out + sizeof(q), segs, n * sizeof(segs[0]));
	return sizeof(q) + n * sizeof(segs[0]);
}

static bool
destroys(uint32_t op)
{
	switch (op) {
	case CTL_PD_FREE:
	case CTL_MR_DEREG:
	case CTL_CQ_DESTROY:
	case CTL_SRQ_DESTROY:
	case CTL_QP_DESTROY:
	case CTL_AH_DESTROY:
	case CTL_MW_FREE:
	case CTL_DM_FREE:
	case CTL_XRCD_CLOSE:
	case CTL_CHANNEL_DESTROY:
	case CTL_CM_DESTROY_ID:
		return true;
	default:
		return false;
	}
}

/** Mostly what the session can do: its device is open, or its event channel, and there is an object of the first kind that it names. */
static const struct request_shape *
choose(struct storm_random *r, const struct storm_world *w, const struct request_handles *h)
{
	const struct request_shape *s = request_shapes;

	for (unsigned int i = 0; i < TRIES; i++) {
		s = &request_shapes[storm_below(r, REQUEST_SHAPES)];
		if (storm_below(r, OTHER_PART) == 0)
			break;
		if (s->op <= CTL_DEVICE_OPEN || s->op == CTL_CM_OPEN || (s->op > CTL_CM_OPEN) != w->cm)
			continue;
		if ((s->n == 0 || h->nb[s->ref[0].kind] > 0 || s->op == CTL_CQ_CREATE) &&
		    (!destroys(s->op) || storm_below(r, DESTROY_PART) == 0))
			break;
	}
	return s;
}

static size_t
shaped(struct storm_random *r, const struct storm_world *w, const struct request_handles *h, uint8_t *out, bool random)
{
	const struct request_shape *shape = choose(r, w, h);
	struct ctl_req q = { .magic = CTL_MAGIC, .op = shape->op };
	uint32_t any;

	if (random)
		random_bytes(r, q.space, sizeof(q.space));
	else
		fill(r, w, &q);
	for (unsigned int i = 0; i < shape->n; i++) {
		any = storm_below(r, ANY_HANDLE) == 0 ? (uint32_t)storm_random(r) : storm_below(r, REQUEST_HANDLES);
		memcpy((uint8_t *)&q + shape->ref[i].at, &any, sizeof(any));
		request_put_handle(h, &q, shape->ref[i].at, shape->ref[i].kind);
	}
	if (q.op == CTL_QP_CREATE && q.qp_create.srq != UINT32_MAX)
		request_put_handle(h, &q, offsetof(struct ctl_req, qp_create.srq), H_SRQ);
	memcpy(out, &q, sizeof(q));
	return sizeof(q);
}

size_t
storm_request(struct storm_random *r, const struct storm_world *w, const struct request_handles *h, uint8_t out[STORM_BYTES_MAX],
	      enum storm_kind *kind)
{
	size_t n;

	if (storm_below(r, GARBAGE_PART) == 0) {
		*kind = STORM_GARBAGE;
		n = 1 + storm_below(r, STORM_BYTES_MAX);
		random_bytes(r, out, n);
		if (storm_below(r, 2) == 0 && n >= sizeof(uint32_t))
			memcpy(out, &(uint32_t){ CTL_MAGIC }, sizeof(uint32_t));
		return n;
	}
	*kind = storm_below(r, RANDOM_PART) == 0 ? STORM_RANDOM : STORM_VALID;
	if (*kind == STORM_VALID && !w->cm && storm_below(r, REG_PART) == 0)
		n = registration(r, w, h, out);
	else
		n = shaped(r, w, h, out, *kind == STORM_RANDOM);
	if (*kind == STORM_VALID && storm_below(r, MUTATED_PART) == 0) {
		*kind = STORM_MUTATED;
		for (uint32_t i = 0, changes = 1 + storm_below(r, 4); i < changes; i++)
			out[storm_below(r, (uint32_t)n)] = (uint8_t)(storm_random(r) >> 56);
	}
	return n;
}
