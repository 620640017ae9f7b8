/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On-demand paging. The daemon reaches such memory as the program itself does, so the kernel provides the pages that are used,
 * and nothing has to be prepared. Advice is followed here, by the program's own page tables.
 */
#include "verbs/client_priv.h"

#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.14; not in the headers of older C libraries. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

void
client_odp_note(struct client_mr *mr)
{
	struct client_ctx *ctx = to_ctx(mr->mr.context);

	if (!(mr->access & UROCE_ACCESS_ON_DEMAND))
		return;
	pthread_mutex_lock(&ctx->ctl_lock);
	mr->next = ctx->odp_mrs;
	ctx->odp_mrs = mr;
	pthread_mutex_unlock(&ctx->ctl_lock);
}

void
client_odp_forget(struct client_mr *mr)
{
	struct client_ctx *ctx = to_ctx(mr->mr.context);
	struct client_mr **p;

	if (!(mr->access & UROCE_ACCESS_ON_DEMAND))
		return;
	pthread_mutex_lock(&ctx->ctl_lock);
	for (p = &ctx->odp_mrs; *p; p = &(*p)->next) {
		if (*p == mr) {
			*p = mr->next;
			break;
		}
	}
	pthread_mutex_unlock(&ctx->ctl_lock);
}

/* Find the program's address of what an SGE names. ctl_lock held. @return 0 or an errno value of man ibv_advise_mr. */
static int
locate(const struct client_ctx *ctx, const struct ibv_pd *pd, const struct ibv_sge *sge, bool write, uint64_t *addr)
{
	const struct client_mr *mr = ctx->odp_mrs;
	uint64_t off;

	while (mr && mr->mr.lkey != sge->lkey)
		mr = mr->next;
	if (!mr)
		return ENOENT;
	if (mr->mr.pd->handle != pd->handle || (write && !(mr->access & UROCE_ACCESS_LOCAL_WRITE)))
		return EPERM;
	off = sge->addr - mr->iova;
	if (off > mr->mr.length || sge->length > mr->mr.length - off)
		return EFAULT;
	*addr = (uintptr_t)mr->mr.addr + off;
	return 0;
}

/* @return 0; EFAULT: there is no such memory, or not with that access. */
static int
populate(uint64_t addr, uint64_t length, bool write)
{
	uint64_t page = sysconf(_SC_PAGESIZE), start = addr & ~(page - 1);
	int before = errno, err = 0;

	if (length && madvise((void *)start, addr + length - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		err = errno;
	errno = before;
	/* EINVAL: a kernel or a mapping that can't do it, and advice needn't be followed. */
	return err && err != EINVAL ? EFAULT : 0;
}

int
client_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sges, uint32_t nb)
{
	struct client_ctx *ctx = to_ctx(pd->context);
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint64_t addr = 0;
	int err = 0;

	if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT && !write)
		return EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !nb)
		return EINVAL;
	/* All are checked before any is followed. */
	for (int follow = 0; follow < 2; follow++) {
		for (uint32_t i = 0; i < nb && !err; i++) {
			pthread_mutex_lock(&ctx->ctl_lock);
			err = locate(ctx, pd, &sges[i], write, &addr);
			pthread_mutex_unlock(&ctx->ctl_lock);
			/* Pages that are there can be used already. Without FLUSH nobody waits for those that aren't. */
			if (!err && follow && flags && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
				err = populate(addr, sges[i].length, write);
		}
	}
	return err;
}
