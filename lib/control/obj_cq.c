/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "control_priv.h"

static int
check(struct request *r)
{
	const struct ctl_cq_create_req *q = &r->req->cq_create;

	if (q->cqe == 0 || q->cqe > UROCE_MAX_CQE)
		return req_fail(r, EINVAL, "CQ with %u entries: must be 1 to %u", q->cqe, UROCE_MAX_CQE);
	if (q->comp_vector >= SESSION_COMP_VECTORS)
		return req_fail(r, EINVAL, "completion vector %u: must be below %u", q->comp_vector,
				SESSION_COMP_VECTORS);
	if (q->has_channel > 1 || r->nb_fds != q->has_channel)
		return req_fail(r, EINVAL, "%u descriptors for %u channels", r->nb_fds, q->has_channel);
	return 0;
}

int
op_cq_create(struct session *s, struct request *r)
{
	const struct ctl_cq_create_req *q = &r->req->cq_create;
	uint32_t order = order_of(q->cqe);
	uint64_t bytes = sizeof(struct ring_cqe) << order;
	struct cq_params p;
	struct obj_cq *cq;
	int rc, channel_fd = -1;

	rc = check(r);
	if (rc == 0 && q->has_channel) {
		rc = take_event_pipe(r, &channel_fd);
		if (rc != 0)
			req_fail(r, rc,
				 "a channel needs the write end of its pipe, O_NONBLOCK, that uroced may open: %s",
				 strerror(rc));
	}
	if (rc != 0)
		return rc;
	cq = obj_new(s, OBJ_CQ, sizeof(*cq), r, &rc);
	if (cq == NULL)
		goto fail_channel;
	if (shm_alloc(s->shm, sizeof(struct ring_cq_shared) + bytes, &cq->block) != 0) {
		rc = req_fail(r, ENOMEM, "no memory for a CQ of %u entries (daemon.ring_memory is %u MiB per session)",
			      1u << order, s->control->s.conf->ring_memory);
		goto fail_obj;
	}
	cq->channel_fd = channel_fd;
	p = (struct cq_params){
		.ring = { .base = cq->block.addr + sizeof(struct ring_cq_shared), .order = order, .shift = 5 },
		.shared = (void *)cq->block.addr,
		.channel_fd = cq->channel_fd,
		.cookie = q->cookie,
		.owner = session_owner(s),
		.multi = s->control->s.nb_engines > 1,
	};
	rc = cq_create(&p, &cq->cq);
	if (rc != 0) {
		req_fail(r, rc, "no memory for the CQ");
		goto fail_block;
	}
	announce(s, r, &cq->block, &r->rsp.cq_create.seg);
	r->rsp.cq_create.handle = cq->obj.handle;
	r->rsp.cq_create.order = order;
	r->rsp.cq_create.shared = area_of(&cq->block, 0, sizeof(struct ring_cq_shared));
	r->rsp.cq_create.ring = area_of(&cq->block, sizeof(struct ring_cq_shared), bytes);
	return 0;
fail_block:
	shm_free(s->shm, &cq->block);
fail_obj:
	obj_free(s, OBJ_CQ, &cq->obj);
fail_channel:
	if (channel_fd >= 0)
		close(channel_fd);
	return rc;
}

/** Destroy a CQ of which no engine knows any more. */
void
obj_cq_destroy(struct session *s, struct obj_cq *cq)
{
	cq_destroy(cq->cq);
	if (cq->channel_fd >= 0)
		close(cq->channel_fd);
	shm_free(s->shm, &cq->block);
	obj_free(s, OBJ_CQ, &cq->obj);
}

int
op_cq_destroy(struct session *s, struct request *r)
{
	struct obj_cq *cq = obj_get(s, OBJ_CQ, r->req->handle.handle, r);

	if (cq == NULL)
		return EINVAL;
	if (cq->obj.users > 0)
		return req_fail(r, EBUSY, "%u QPs and SRQs use the CQ; destroy them first", cq->obj.users);
	mem_rcu_wait(s->control->s.qsbr);
	obj_cq_destroy(s, cq);
	return 0;
}
