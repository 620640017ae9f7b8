/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong values of what registers memory and makes memory windows. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bad_args.h"

struct mr_args {
	void *addr;
	size_t length;
	uint64_t iova;
	int access;
};

static int
reg_mr(struct vt *t, void *args)
{
	const struct mr_args *a = args;
	struct ibv_mr *mr = ibv_reg_mr(t->pd, a->addr, a->length, a->access);

	if (mr == NULL)
		return errno;
	VT_OK(ibv_dereg_mr(mr));
	return 0;
}

static int
reg_mr_iova(struct vt *t, void *args)
{
	const struct mr_args *a = args;
	struct ibv_mr *mr = ibv_reg_mr_iova(t->pd, a->addr, a->length, a->iova, a->access);

	if (mr == NULL)
		return errno;
	VT_OK(ibv_dereg_mr(mr));
	return 0;
}

void
memory_regions(struct vt *t)
{
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct mr_args, addr, 0, EFAULT),
		BAD(struct mr_args, addr, 0x1000, EFAULT),
		BAD(struct mr_args, addr, UINT64_MAX - 10, EINVAL),
		BAD(struct mr_args, addr, UINT64_C(1) << 63, EFAULT),
		BAD(struct mr_args, length, SIZE_MAX, EINVAL),
		BAD(struct mr_args, length, UINT64_C(1) << 46, EFAULT),
		BAD(struct mr_args, access, IBV_ACCESS_REMOTE_WRITE, EINVAL),
		BAD(struct mr_args, access, IBV_ACCESS_REMOTE_ATOMIC, EINVAL),
		BAD(struct mr_args, access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND, 0),
		/* Bits 8 and 9 are later headers' FLUSH_GLOBAL, which works, and FLUSH_PERSISTENT: there is no such memory. */
		BAD(struct mr_args, access, IBV_ACCESS_LOCAL_WRITE | 1 << 9, EOPNOTSUPP),
		BAD(struct mr_args, access, IBV_ACCESS_LOCAL_WRITE | 1 << 10, EINVAL),
		BAD(struct mr_args, access, 1u << 31, EINVAL),
		/* Hints may be ignored. */
		BAD(struct mr_args, access, IBV_ACCESS_RELAXED_ORDERING, 0),
		BAD(struct mr_args, access, IBV_ACCESS_HUGETLB, 0),
	};
	static const struct bad iova[] = {
		NOTHING,
		BAD(struct mr_args, iova, UINT64_MAX - 10, EINVAL),
		BAD(struct mr_args, iova, 0, 0),
	};
	struct mr_args args = { .addr = t->buf, .length = 4096, .iova = 12345, .access = IBV_ACCESS_LOCAL_WRITE };
	struct mr_args read_only = args;

	WALK(t, reg_mr, args, rows);
	WALK(t, reg_mr_iova, args, iova);
	for (int bit = 0; bit < 10; bit++) {
		args.access = IBV_ACCESS_LOCAL_WRITE | (IBV_ACCESS_OPTIONAL_FIRST << bit);
		VT_CHECK(reg_mr(t, &args) == 0, "the optional flag 0x%x isn't ignored", args.access);
	}
	read_only.addr = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	VT_CHECK(reg_mr(t, &read_only) == EFAULT, "local write to memory that the program can't write");
	read_only.access = 0;
	VT_CHECK(reg_mr(t, &read_only) == 0, "%s", strerror(errno));
	munmap(read_only.addr, 4096);
	VT_CHECK(reg_mr(t, &read_only) == EFAULT, "memory that is gone");
}

struct rereg_args {
	int flags;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	int access;
};
static struct ibv_mr *the_mr;

static int
rereg_mr(struct vt *t, void *args)
{
	const struct rereg_args *a = args;
	struct ibv_mr before = *the_mr;
	int rc = ibv_rereg_mr(the_mr, a->flags, a->pd, a->addr, a->length, a->access);

	/* Old MR is valid (man ibv_rereg_mr). */
	if (rc == IBV_REREG_MR_ERR_INPUT)
		VT_CHECK(memcmp(&before, the_mr, sizeof(before)) == 0, "a call that failed changed something");
	else
		VT_CHECK(rc == 0, "%d", rc);
	return rc == 0 ? 0 : errno;
}

void
reregistration(struct vt *t)
{
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct rereg_args, flags, 0, EINVAL),
		BAD(struct rereg_args, flags, 8, EINVAL),
		BAD(struct rereg_args, flags, -1, EINVAL),
		BAD(struct rereg_args, pd, 0, EINVAL),
		BAD(struct rereg_args, addr, 0, EINVAL),
		BAD(struct rereg_args, addr, 0x1000, EFAULT),
		BAD(struct rereg_args, length, 0, EINVAL),
		BAD(struct rereg_args, length, SIZE_MAX, EINVAL),
		BAD(struct rereg_args, access, IBV_ACCESS_REMOTE_WRITE, EINVAL),
		BAD(struct rereg_args, access, 1u << 31, EINVAL),
	};
	struct rereg_args args = {
		.flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
		.pd = t->pd, .addr = t->buf, .length = 4096, .access = IBV_ACCESS_LOCAL_WRITE,
	};

	the_mr = ibv_reg_mr(t->pd, t->buf, 8192, IBV_ACCESS_LOCAL_WRITE);
	if (the_mr == NULL)
		vt_die("ibv_reg_mr");
	WALK(t, rereg_mr, args, rows);
	VT_OK(ibv_dereg_mr(the_mr));
}

void
memory_windows(struct vt *t)
{
	struct ibv_pd *other = ibv_alloc_pd(t->ctx);
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, cq);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = t->mr, .addr = (uintptr_t)t->buf, .length = 100, .mw_access_flags = IBV_ACCESS_REMOTE_READ },
	};
	struct ibv_mw *mw;

	vt_connect(t, qp, qp);
	errno = 0;
	VT_CHECK(ibv_alloc_mw(t->pd, 0) == NULL && errno == EINVAL, "type 0: %s", strerror(errno));
	errno = 0;
	VT_CHECK(ibv_alloc_mw(t->pd, 3) == NULL && errno == EINVAL, "type 3: %s", strerror(errno));
	mw = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	if (mw == NULL)
		vt_die("ibv_alloc_mw");
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EPERM || ibv_bind_mw(qp, mw, &bind) == EINVAL, "a window of another PD");
	VT_CHECK(ibv_dealloc_pd(other) == EBUSY, "a PD with a window");
	VT_OK(ibv_dealloc_mw(mw));
	mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_1);
	if (mw == NULL)
		vt_die("ibv_alloc_mw");
	bind.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EINVAL, "an access that windows don't have");
	bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ;
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EINVAL, "zero based, type 1");
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	bind.bind_info.mr = NULL;
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EINVAL, "no MR");
	bind.bind_info.mr = t->mr;
	VT_OK(ibv_bind_mw(qp, mw, &bind));
	vt_expect(cq, 0, IBV_WC_SUCCESS);
	VT_CHECK(ibv_rereg_mr(t->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_INPUT &&
		 errno == EBUSY, "an MR with a window: %s", strerror(errno));
	/* As programs do, although it says nothing. */
	bind.bind_info.mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
	VT_OK(ibv_bind_mw(qp, mw, &bind));
	vt_expect(cq, 0, IBV_WC_SUCCESS);
	VT_OK(ibv_dealloc_mw(mw));
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
	VT_OK(ibv_dealloc_pd(other));
}

static int
alloc_dm(struct vt *t, void *args)
{
	struct ibv_dm *dm = ibv_alloc_dm(t->ctx, args);

	if (dm == NULL)
		return errno;
	VT_OK(ibv_free_dm(dm));
	return 0;
}

struct dm_args {
	uint64_t offset;
	size_t length;
	unsigned int access;
};
static struct ibv_dm *the_dm;

static int
copy_dm(struct vt *t, void *args)
{
	const struct dm_args *a = args;
	int err = ibv_memcpy_from_dm(t->buf, the_dm, a->offset, a->length);

	VT_CHECK(ibv_memcpy_to_dm(the_dm, a->offset, t->buf, a->length) == err, "not what reading gives, %d", err);
	return err;
}

static int
reg_dm(struct vt *t, void *args)
{
	const struct dm_args *a = args;
	struct ibv_mr *mr = ibv_reg_dm_mr(t->pd, the_dm, a->offset, a->length, a->access);

	if (mr == NULL)
		return errno;
	VT_OK(ibv_dereg_mr(mr));
	return 0;
}

void
device_memory(struct vt *t)
{
	static const struct bad alloc[] = {
		NOTHING,
		BAD(struct ibv_alloc_dm_attr, length, 0, EINVAL),
		BAD(struct ibv_alloc_dm_attr, length, (1 << 20) + 1, EINVAL),
		BAD(struct ibv_alloc_dm_attr, length, SIZE_MAX, EINVAL),
		BAD(struct ibv_alloc_dm_attr, log_align_req, 7, EINVAL),
		BAD(struct ibv_alloc_dm_attr, log_align_req, UINT32_MAX, EINVAL),
		BAD(struct ibv_alloc_dm_attr, comp_mask, 1, EINVAL),
	};
	/* Words are copied, as NICs do. */
	static const struct bad copy[] = {
		NOTHING,
		BAD(struct dm_args, offset, 3, EINVAL),
		BAD(struct dm_args, offset, 4, EINVAL),
		BAD(struct dm_args, offset, UINT64_MAX - 3, EINVAL),
		BAD(struct dm_args, length, 3, EINVAL),
		BAD(struct dm_args, length, 104, EINVAL),
		BAD(struct dm_args, length, SIZE_MAX - 3, EINVAL),
	};
	static const struct bad reg[] = {
		NOTHING,
		BAD(struct dm_args, offset, 1, EINVAL),
		BAD(struct dm_args, offset, UINT64_MAX, EINVAL),
		BAD(struct dm_args, length, 101, EINVAL),
		BAD(struct dm_args, length, SIZE_MAX, EINVAL),
		BAD(struct dm_args, length, 0, 0),
		BAD(struct dm_args, access, IBV_ACCESS_LOCAL_WRITE, EINVAL),
		BAD(struct dm_args, access, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND, EINVAL),
		BAD(struct dm_args, access, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE, EINVAL),
		BAD(struct dm_args, access, 1u << 31, EINVAL),
	};
	const struct ibv_alloc_dm_attr attr = { .length = 100 };
	const struct dm_args whole = { .length = 100, .access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE };

	WALK(t, alloc_dm, attr, alloc);
	the_dm = ibv_alloc_dm(t->ctx, (struct ibv_alloc_dm_attr *)&attr);
	if (the_dm == NULL)
		vt_die("ibv_alloc_dm");
	WALK(t, copy_dm, whole, copy);
	WALK(t, reg_dm, whole, reg);
	VT_OK(ibv_free_dm(the_dm));
}
