/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. segments.h and convert.h describe how the daemon accesses the memory. */
#include "verbs/client_priv.h"

#include <sys/mman.h>

#include "verbs/segments.h"

/* The flags that are sent to the daemon. Optional flags are hints that may be ignored (man ibv_reg_mr). */
#define MR_ACCESS_SERVED \
	(UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC | \
	 UROCE_ACCESS_MW_BIND | UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_ON_DEMAND)
#define MR_ACCESS_IGNORED (UROCE_ACCESS_HUGETLB | UROCE_ACCESS_ZERO_BASED | UROCE_ACCESS_OPTIONAL_RANGE)
#define MR_ACCESS_WRITES \
	(UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_MW_BIND)

/* A requested registration. */
struct mr_want {
	struct ibv_pd *pd;
	uint64_t addr, length, iova;
	unsigned int access;
	uint64_t sp;
	const struct client_mr *replaces; /* may be NULL */
};

static int
check_access(unsigned int access)
{
	if (access & ~(MR_ACCESS_SERVED | MR_ACCESS_IGNORED))
		/* The error that Linux returns for a device without the capability: ib_check_mr_access(). */
		return access & UROCE_ACCESS_FLUSH_PERSISTENT ? EOPNOTSUPP : EINVAL;
	/* Remote write requires local write, as in Linux (ib_check_mr_access()). */
	if ((access & (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC)) && !(access & UROCE_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

/* Send the segments: all but the last part before the request itself. The lock keeps out other threads' requests. */
static int
send_registration(struct client_ctx *ctx, const struct mr_want *w, const struct segments *segs, struct client_call *c)
{
	size_t sent = 0;
	int err = 0;

	if (ctx->foreign)
		return EIO;
	pthread_mutex_lock(&ctx->ctl_lock);
	while (!err && segs->n - sent > CTL_SEGS_PER_MSG) {
		client_call_init(c, CTL_MR_SEGS);
		c->req.mr_segs.nb_in_msg = CTL_SEGS_PER_MSG;
		c->segs = segs->s + sent;
		c->nb_segs = CTL_SEGS_PER_MSG;
		err = client_call_locked(ctx, c);
		client_call_close_fds(c, 0);
		sent += CTL_SEGS_PER_MSG;
	}
	if (!err) {
		client_call_init(c, CTL_MR_REG);
		c->req.mr_reg = (struct ctl_mr_reg_req){
			.pd = w->pd->handle,
			.access = w->access & MR_ACCESS_SERVED,
			.addr = w->addr,
			.length = w->length,
			.iova = w->iova,
			.nb_segs = segs->n,
			.nb_in_msg = segs->n - sent,
			.replace = w->replaces != NULL,
			.old = w->replaces ? w->replaces->mr.handle : 0,
		};
		c->segs = segs->s + sent;
		c->nb_segs = segs->n - sent;
		c->quiet = segs->any_shared;
		err = client_call_locked(ctx, c);
		client_call_close_fds(c, 0);
	}
	pthread_mutex_unlock(&ctx->ctl_lock);
	return err;
}

static int
register_once(struct client_ctx *ctx, const struct mr_want *w, bool shared, bool *had_shared, struct bounce_reach *reach,
	      struct client_call *c)
{
	struct segments segs;
	struct segments_want want = {
		.addr = w->addr,
		.length = w->length,
		.prot = w->access & MR_ACCESS_WRITES ? PROT_READ | PROT_WRITE : PROT_READ,
		.convert = ctx->can_convert,
		.shared = shared,
		.own = ctx->wait != NULL,
		.remote = w->access & UROCE_ACCESS_ON_DEMAND,
		.sp = w->sp,
	};
	int err = segments_find(&segs, &ctx->mem, &want);

	if (err)
		return err;
	*had_shared = segs.any_shared;
	reach->needed = !segments_mapped(&segs, w->addr, w->length, &reach->lo, &reach->hi);
	reach->lo += w->iova - w->addr;
	reach->hi += w->iova - w->addr;
	err = send_registration(ctx, w, &segs, c);
	segments_free(&segs);
	return err;
}

/* @return 0 or an errno value. */
static int
register_region(const struct mr_want *w, struct ctl_mr_reg_rsp *out, struct bounce_reach *reach)
{
	struct client_ctx *ctx = to_ctx(w->pd->context);
	bool had_shared = false;
	struct client_call c;
	int err = check_access(w->access);

	if (err)
		return err;
	/* Of a daemon in the same process, engines use the memory by its address, and it has to be there. */
	if ((w->access & UROCE_ACCESS_ON_DEMAND) && ctx->wait)
		return EOPNOTSUPP;
	if (w->addr + w->length < w->addr || w->iova + w->length < w->iova)
		return EINVAL;
	err = register_once(ctx, w, ctx->privileged, &had_shared, reach, &c);
	/*
	 * Not every shared mapping can be mapped by others (devices), and a mapping may have been split or merged
	 * meanwhile.
	 */
	if (had_shared && (err == EOPNOTSUPP || err == ENOENT || err == EPERM || err == EACCES))
		err = register_once(ctx, w, false, &had_shared, reach, &c);
	if (err)
		return err;
	*out = c.rsp.mr_reg;
	if (mem_file_is_due(&ctx->mem))
		mem_file_collect(&ctx->mem);
	return 0;
}

/* For bounce buffers. */
static int
register_own(struct ibv_pd *pd, void *addr, size_t bytes, uint32_t *handle, uint32_t *lkey)
{
	struct mr_want w = {
		.pd = pd,
		.addr = (uintptr_t)addr,
		.length = bytes,
		.iova = (uintptr_t)addr,
		.access = UROCE_ACCESS_LOCAL_WRITE,
		.sp = (uintptr_t)__builtin_frame_address(0),
	};
	struct bounce_reach reach;
	struct ctl_mr_reg_rsp r;
	int err = register_region(&w, &r, &reach);

	if (err)
		return err;
	*handle = r.handle;
	*lkey = r.lkey;
	return 0;
}

/* Where nothing protects conversions, they must know what copiers may write to. */
static void
note_copied(struct client_mr *m, const struct bounce_reach *reach)
{
	uint64_t addr = (uintptr_t)m->mr.addr, shift = m->iova - addr;

	if (reach->needed && (m->access & MR_ACCESS_WRITES) && !convert_is_protected())
		copied_note(&m->copied, addr, m->mr.length, reach->lo - shift, reach->hi - shift);
}

static struct ibv_mr *
mr_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access, uint64_t sp)
{
	struct client_mr *m = calloc(1, sizeof(*m));
	struct mr_want w = {
		.pd = pd,
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = access & UROCE_ACCESS_ZERO_BASED ? 0 : iova,
		.access = access,
		.sp = sp,
	};
	struct bounce_reach reach;
	struct ctl_mr_reg_rsp r;
	int err = m && !(to_ctx(pd->context)->faults && client_faults_reg()) ? register_region(&w, &r, &reach) : ENOMEM;

	if (err) {
		free(m);
		return client_null(err);
	}
	m->access = access;
	m->iova = w.iova;
	m->mr = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
		.handle = r.handle,
		.lkey = r.lkey,
		.rkey = r.lkey,
	};
	client_odp_note(m);
	note_copied(m, &reach);
	client_bounce_note(m, &reach, register_own);
	return &m->mr;
}

CLIENT_EXPORT struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return mr_new(pd, addr, length, (uintptr_t)addr, access, (uintptr_t)__builtin_frame_address(0));
}

CLIENT_EXPORT struct ibv_mr *
ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return mr_new(pd, addr, length, iova, access, (uintptr_t)__builtin_frame_address(0));
}

CLIENT_EXPORT struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	return mr_new(pd, addr, length, iova, access, (uintptr_t)__builtin_frame_address(0));
}

/*
 * A new registration that replaces the old one, with the same keys. Whatever can fail, fails before the old one is
 * changed.
 */
CLIENT_EXPORT int
ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct client_mr *m = (struct client_mr *)mr;
	struct mr_want w = {
		.pd = mr->pd,
		.addr = (uintptr_t)mr->addr,
		.length = mr->length,
		.iova = m->iova,
		.access = m->access,
		.sp = (uintptr_t)__builtin_frame_address(0),
		.replaces = m,
	};
	struct bounce_reach reach;
	struct ctl_mr_reg_rsp r;
	int err;

	if (m->fixed || !flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!length || !addr)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->context))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		w.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		w.access = access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		w.addr = (uintptr_t)addr;
		w.length = length;
		w.iova = w.access & UROCE_ACCESS_ZERO_BASED ? 0 : w.addr;
	}
	err = register_region(&w, &r, &reach);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	client_odp_forget(m);
	client_bounce_forget(m);
	copied_forget(&m->copied);
	mr->pd = w.pd;
	mr->addr = (void *)w.addr;
	mr->length = w.length;
	mr->handle = r.handle;
	mr->lkey = mr->rkey = r.lkey;
	m->access = w.access;
	m->iova = w.iova;
	client_odp_note(m);
	note_copied(m, &reach);
	client_bounce_note(m, &reach, register_own);
	return 0;
}

CLIENT_EXPORT int
ibv_dereg_mr(struct ibv_mr *mr)
{
	/* The handle of an imported MR is another session's. */
	int err = ((struct client_mr *)mr)->imported ? EINVAL : client_destroy_handle(to_ctx(mr->context), CTL_MR_DEREG, mr->handle);

	if (err)
		return err;
	client_odp_forget((struct client_mr *)mr);
	client_bounce_forget((struct client_mr *)mr);
	copied_forget(&((struct client_mr *)mr)->copied);
	free(mr);
	return 0;
}
