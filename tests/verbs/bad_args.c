/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every attribute of every call that creates, modifies or queries something, through wrong values: a row of a table is a
 * member of what the call takes, what it is set to, and what the call must say. Everything else of the call is right, and
 * each table begins with the row in which nothing is wrong.
 */
#include <fcntl.h>
#include <unistd.h>

#include "bad_args.h"

static void
spoil(void *args, const struct bad *b)
{
	/* Little endian: the low bytes of the value are the member's. */
	memcpy((uint8_t *)args + b->offset, &b->value, b->bytes);
}

void
walk(struct vt *t, const char *call, call_fn fn, const void *good, size_t bytes, const struct bad *rows, size_t n)
{
	uint8_t args[1024] __attribute__((aligned(16)));
	int err;

	for (size_t i = 0; i < n; i++) {
		memcpy(args, good, bytes);
		spoil(args, &rows[i]);
		errno = 0;
		err = fn(t, args);
		VT_CHECK(err == rows[i].err, "%s, %s: %s, not %s", call, rows[i].what, strerror(err),
			 strerror(rows[i].err));
	}
}

/* ---- CQs ---- */
struct cq_args {
	int cqe, vector;
};

static int
create_cq(struct vt *t, void *args)
{
	const struct cq_args *a = args;
	struct ibv_cq *cq = ibv_create_cq(t->ctx, a->cqe, NULL, NULL, a->vector);

	if (cq == NULL)
		return errno;
	VT_CHECK(cq->cqe >= a->cqe, "%d", cq->cqe);
	vt_destroy_cq(cq);
	return 0;
}

static int
resize_cq(struct vt *t, void *args)
{
	const struct cq_args *a = args;
	struct ibv_cq *cq = vt_cq(t, 16, NULL);
	int err = ibv_resize_cq(cq, a->cqe);

	VT_CHECK(cq->cqe >= (err == 0 ? a->cqe : 16), "%d", cq->cqe);
	vt_destroy_cq(cq);
	return err;
}

static int
create_cq_ex(struct vt *t, void *args)
{
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t->ctx, args);

	if (cq == NULL)
		return errno;
	vt_destroy_cq(ibv_cq_ex_to_cq(cq));
	return 0;
}

static int
modify_cq(struct vt *t, void *args)
{
	struct ibv_cq *cq = vt_cq(t, 16, NULL);
	int err = ibv_modify_cq(cq, args);

	vt_destroy_cq(cq);
	return err;
}

static void
completion_queues(struct vt *t)
{
	static const struct bad create[] = {
		NOTHING,
		BAD(struct cq_args, cqe, 0, EINVAL),
		BAD(struct cq_args, cqe, -1, EINVAL),
		BAD(struct cq_args, cqe, 1 << 30, EINVAL),
		BAD(struct cq_args, vector, -1, EINVAL),
		BAD(struct cq_args, vector, 100000, EINVAL),
	};
	static const struct bad resize[] = {
		NOTHING,
		BAD(struct cq_args, cqe, 0, EINVAL),
		BAD(struct cq_args, cqe, -1, EINVAL),
		BAD(struct cq_args, cqe, 1 << 30, EINVAL),
		BAD(struct cq_args, cqe, 1, 0),
	};
	static const struct bad ex[] = {
		NOTHING,
		BAD(struct ibv_cq_init_attr_ex, cqe, 0, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, cqe, 1 << 30, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, comp_vector, 100000, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, IBV_WC_EX_WITH_CVLAN, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, IBV_WC_EX_WITH_FLOW_TAG, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, IBV_WC_EX_WITH_TM_INFO, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, UINT64_C(1) << 63, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, comp_mask, 1 << 30, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, comp_mask, IBV_CQ_INIT_ATTR_MASK_PD, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, flags, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, flags, 1u << 31, EOPNOTSUPP),
	};
	static const struct bad modify[] = {
		NOTHING,
		BAD(struct ibv_modify_cq_attr, attr_mask, 0, EINVAL),
		BAD(struct ibv_modify_cq_attr, attr_mask, 2, EOPNOTSUPP),
		BAD(struct ibv_modify_cq_attr, attr_mask, UINT32_MAX, EOPNOTSUPP),
	};
	struct cq_args args = { .cqe = 100 };
	struct ibv_cq_init_attr_ex args_ex = { .cqe = 100, .wc_flags = IBV_WC_STANDARD_FLAGS,
					       .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS };
	struct ibv_modify_cq_attr args_modify = { .attr_mask = IBV_CQ_ATTR_MODERATE,
						  .moderate = { .cq_count = 5, .cq_period = 5 } };

	WALK(t, create_cq, args, create);
	WALK(t, resize_cq, args, resize);
	WALK(t, create_cq_ex, args_ex, ex);
	WALK(t, modify_cq, args_modify, modify);
}

/* ---- SRQs ---- */
static int
create_srq(struct vt *t, void *args)
{
	struct ibv_srq *srq = ibv_create_srq(t->pd, args);

	if (srq == NULL)
		return errno;
	VT_OK(ibv_destroy_srq(srq));
	return 0;
}

static int
create_srq_ex(struct vt *t, void *args)
{
	struct ibv_srq *srq = ibv_create_srq_ex(t->ctx, args);

	if (srq == NULL)
		return errno;
	VT_OK(ibv_destroy_srq(srq));
	return 0;
}

struct modify_srq_args {
	struct ibv_srq_attr attr;
	int mask;
};

static int
modify_srq(struct vt *t, void *args)
{
	struct modify_srq_args *a = args;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t->pd, &init);
	struct ibv_srq_attr attr;
	int err;

	if (srq == NULL)
		vt_die("ibv_create_srq");
	err = ibv_modify_srq(srq, &a->attr, a->mask);
	VT_OK(ibv_query_srq(srq, &attr));
	if (err != 0)
		VT_CHECK(attr.srq_limit == 0 && attr.max_wr == init.attr.max_wr, "a call that failed changed something");
	VT_OK(ibv_destroy_srq(srq));
	return err;
}

static void
shared_receive_queues(struct vt *t)
{
	typedef struct ibv_srq_init_attr_ex ex_t;
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct ibv_srq_init_attr, attr.max_wr, 0, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_wr, 1 << 20, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_wr, UINT32_MAX, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_sge, 1000, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_sge, UINT32_MAX, EINVAL),
		/* Not looked at when one is created (man ibv_create_srq). */
		BAD(struct ibv_srq_init_attr, attr.srq_limit, UINT32_MAX, 0),
	};
	static const struct bad ex[] = {
		NOTHING,
		BAD(ex_t, pd, 0, EINVAL),
		BAD(ex_t, srq_type, IBV_SRQT_TM, EOPNOTSUPP),
		BAD(ex_t, srq_type, 77, EOPNOTSUPP),
		BAD(ex_t, comp_mask, IBV_SRQ_INIT_ATTR_TYPE, EINVAL),
		BAD(ex_t, comp_mask, UINT32_MAX, EOPNOTSUPP),
		/* Not looked at for one of this type. */
		BAD(ex_t, comp_mask, IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD, 0),
		BAD(ex_t, attr.max_wr, UINT32_MAX, EINVAL),
		BAD(ex_t, attr.max_sge, UINT32_MAX, EINVAL),
	};
	static const struct bad modify[] = {
		NOTHING,
		BAD(struct modify_srq_args, attr.srq_limit, 17, EINVAL),
		BAD(struct modify_srq_args, attr.srq_limit, UINT32_MAX, EINVAL),
		BAD(struct modify_srq_args, mask, IBV_SRQ_LIMIT | 4, EINVAL),
		BAD(struct modify_srq_args, mask, 1 << 30, EINVAL),
	};
	struct ibv_srq_init_attr args = { .attr = { .max_wr = 16, .max_sge = 2 } };
	ex_t args_ex = { .attr = { .max_wr = 16, .max_sge = 2 }, .srq_type = IBV_SRQT_BASIC, .pd = t->pd,
			 .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE };
	struct modify_srq_args args_modify = { .attr = { .srq_limit = 5 }, .mask = IBV_SRQ_LIMIT };

	WALK(t, create_srq, args, rows);
	WALK(t, create_srq_ex, args_ex, ex);
	WALK(t, modify_srq, args_modify, modify);
}

/* ---- AHs ---- */
static int
create_ah(struct vt *t, void *args)
{
	struct ibv_ah *ah = ibv_create_ah(t->pd, args);

	if (ah == NULL)
		return errno;
	VT_OK(ibv_destroy_ah(ah));
	return 0;
}

static void
address_handles(struct vt *t)
{
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct ibv_ah_attr, port_num, 0, EINVAL),
		BAD(struct ibv_ah_attr, port_num, 2, EINVAL),
		BAD(struct ibv_ah_attr, port_num, 255, EINVAL),
		BAD(struct ibv_ah_attr, is_global, 0, EINVAL),
		BAD(struct ibv_ah_attr, grh.sgid_index, 15, EINVAL),
		BAD(struct ibv_ah_attr, grh.sgid_index, 255, EINVAL),
		BAD(struct ibv_ah_attr, grh.dgid.raw[10], 0, EINVAL),
		BAD(struct ibv_ah_attr, sl, 8, EINVAL),
	};
	struct ibv_ah_attr attr;
	struct ibv_wc wc = { 0 };
	struct ibv_grh grh = { 0 };

	vt_ah_attr(t, &attr);
	WALK(t, create_ah, attr, rows);
	errno = 0;
	VT_CHECK(ibv_init_ah_from_wc(t->ctx, VT_PORT, &wc, &grh, &attr) == -1 && errno == EINVAL, "a completion without GRH");
	wc.wc_flags = IBV_WC_GRH;
	errno = 0;
	VT_CHECK(ibv_init_ah_from_wc(t->ctx, VT_PORT, &wc, &grh, &attr) == -1 && errno != 0, "a GRH that isn't to us");
	errno = 0;
	VT_CHECK(ibv_create_ah_from_wc(t->pd, &wc, &grh, VT_PORT) == NULL && errno != 0, "a GRH that isn't to us");
}

/* ---- Queries ---- */
static void
queries(struct vt *t)
{
	struct ibv_query_device_ex_input in = { .comp_mask = 1 };
	struct ibv_gid_entry entry, entries[64];
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;
	ssize_t n;

	static const int ports[] = { 0, 2, 255 };
	for (unsigned int i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		VT_CHECK(ibv_query_port(t->ctx, ports[i], &port) == EINVAL, "port %d", ports[i]);
		errno = 0;
		VT_CHECK(ibv_query_gid(t->ctx, ports[i], 0, &gid) != 0 && errno == EINVAL, "port %d", ports[i]);
		errno = 0;
		VT_CHECK(ibv_query_pkey(t->ctx, ports[i], 0, &pkey) != 0 && errno == EINVAL, "port %d", ports[i]);
		VT_CHECK(ibv_get_pkey_index(t->ctx, ports[i], htobe16(0xffff)) == -1, "port %d", ports[i]);
		VT_CHECK(ibv_query_gid_ex(t->ctx, ports[i], 0, &entry, 0) == EINVAL, "port %d", ports[i]);
	}
	VT_OK(ibv_query_port(t->ctx, VT_PORT, &port));
	static const int indexes[] = { -1, 1000, INT32_MAX };
	for (unsigned int i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		errno = 0;
		VT_CHECK(ibv_query_gid(t->ctx, VT_PORT, indexes[i], &gid) != 0 && errno == EINVAL, "GID %d", indexes[i]);
		errno = 0;
		VT_CHECK(ibv_query_pkey(t->ctx, VT_PORT, indexes[i], &pkey) != 0 && errno == EINVAL, "P_Key %d", indexes[i]);
		VT_CHECK(ibv_query_gid_ex(t->ctx, VT_PORT, indexes[i], &entry, 0) == EINVAL, "GID %d", indexes[i]);
	}
	errno = 0;
	VT_CHECK(ibv_query_gid_ex(t->ctx, VT_PORT, port.gid_tbl_len - 1, &entry, 0) == ENODATA && errno == ENODATA, "an unused GID");
	VT_CHECK(ibv_query_gid_ex(t->ctx, VT_PORT, 0, &entry, 1) == EOPNOTSUPP, "flags");
	VT_CHECK(ibv_query_gid_table(t->ctx, entries, 64, 1) == -EOPNOTSUPP, "flags");
	VT_CHECK(ibv_query_gid_table(t->ctx, entries, 0, 0) == -EINVAL, "no room");
	n = ibv_query_gid_table(t->ctx, entries, 64, 0);
	VT_CHECK(n > 1, "%zd GIDs", n);
	for (ssize_t i = 0; i < n; i++) {
		VT_OK(ibv_query_gid_ex(t->ctx, VT_PORT, entries[i].gid_index, &entry, 0));
		VT_CHECK(memcmp(&entry, &entries[i], sizeof(entry)) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2, "GID %u",
			 entries[i].gid_index);
	}
	VT_CHECK(ibv_get_pkey_index(t->ctx, VT_PORT, htobe16(0x1234)) == -1, "a P_Key that isn't there");
	VT_CHECK(ibv_query_device_ex(t->ctx, &in, &dev) == EINVAL, "comp_mask");
}

/* ---- What is in use can't go ---- */
static void
objects_in_use(struct vt *t)
{
	struct ibv_pd *pd = ibv_alloc_pd(t->ctx), *domain;
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_parent_domain_init_attr pattr = { .pd = pd };
	struct ibv_td_init_attr tattr = { 0 };
	struct ibv_td *td = ibv_alloc_td(t->ctx, &tattr);
	struct ibv_qp_init_attr attr = { .send_cq = vt_cq(t, 4, NULL), .recv_cq = vt_cq(t, 4, NULL), .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_ah_attr av;
	struct ibv_srq *srq = ibv_create_srq(pd, &sattr);
	struct ibv_mr *mr = ibv_reg_mr(pd, t->buf, 100, 0);
	struct ibv_qp *qp;
	struct ibv_ah *ah;

	vt_ah_attr(t, &av);
	ah = ibv_create_ah(pd, &av);
	attr.srq = srq;
	qp = ibv_create_qp(pd, &attr);
	pattr.td = td;
	domain = ibv_alloc_parent_domain(t->ctx, &pattr);
	if (pd == NULL || srq == NULL || mr == NULL || ah == NULL || qp == NULL || td == NULL || domain == NULL)
		vt_die("creating");
	VT_CHECK(ibv_destroy_cq(attr.send_cq) == EBUSY && ibv_destroy_cq(attr.recv_cq) == EBUSY, "CQs of a QP");
	VT_CHECK(ibv_destroy_srq(srq) == EBUSY, "the SRQ of a QP");
	VT_CHECK(ibv_dealloc_pd(pd) == EBUSY, "a PD of everything");
	VT_CHECK(ibv_dealloc_td(td) == EBUSY, "a thread domain of a parent domain");
	vt_destroy_qp(qp);
	VT_CHECK(ibv_dealloc_pd(pd) == EBUSY, "a PD of an SRQ, an MR and an AH");
	VT_OK(ibv_destroy_srq(srq));
	VT_OK(ibv_dereg_mr(mr));
	VT_OK(ibv_destroy_ah(ah));
	VT_CHECK(ibv_dealloc_pd(pd) == EBUSY, "a PD of a parent domain");
	VT_OK(ibv_dealloc_pd(domain));
	VT_OK(ibv_dealloc_td(td));
	VT_OK(ibv_dealloc_pd(pd));
	vt_destroy_cq(attr.send_cq);
	vt_destroy_cq(attr.recv_cq);
	errno = 0;
	pattr = (struct ibv_parent_domain_init_attr){ .pd = NULL };
	VT_CHECK(ibv_alloc_parent_domain(t->ctx, &pattr) == NULL && errno == EINVAL, "no PD: %s", strerror(errno));
	pattr = (struct ibv_parent_domain_init_attr){ .pd = t->pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS };
	VT_CHECK(ibv_alloc_parent_domain(t->ctx, &pattr) == NULL && errno == EINVAL, "no allocators: %s", strerror(errno));
	pattr.comp_mask = 4;
	VT_CHECK(ibv_alloc_parent_domain(t->ctx, &pattr) == NULL && errno == EOPNOTSUPP, "a later attribute: %s", strerror(errno));
	tattr.comp_mask = 1;
	VT_CHECK(ibv_alloc_td(t->ctx, &tattr) == NULL && errno == EOPNOTSUPP, "%s", strerror(errno));
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(completion_queues), VT_CASE(creating_qps), VT_CASE(modifying_an_rc_qp),
		VT_CASE(modifying_uc_and_ud_qps), VT_CASE(shared_receive_queues), VT_CASE(address_handles),
		VT_CASE(memory_regions), VT_CASE(reregistration), VT_CASE(memory_windows), VT_CASE(device_memory), VT_CASE(queries),
		VT_CASE(objects_in_use),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
