/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls every function of libibverbs, those that it exports and those that are inline in verbs.h, as a program would, looks at
 * what it did, and prints a line for each:
 *
 *     NAME works
 *     NAME ERRNO why a device of ours refuses it
 *     NAME WRONG
 *
 * What is refused is found by calling it; the reason alone is written here. tests/verbs/compat makes a table of it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/mman.h>
#include <unistd.h>

#include "functions.h"

extern const struct row __start_rows[], __stop_rows[];

/* In rdma-core's library, but in no header of its. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* ---- What the calls below use ---- */
struct ibv_cq_ex *cq_ex;
struct ibv_cq *cq;
struct ibv_qp *qp, *peer;
struct ibv_qp_ex *x;
struct ibv_ah *ah;
uint64_t *word;

struct ibv_qp *
make_qp(struct vt *t, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type, .send_cq = cq, .recv_cq = cq,
		.cap = { VT_DEPTH, VT_DEPTH, VT_SGES, VT_SGES, VT_INLINE_BYTES },
		.pd = t->pd, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = ops,
	};

	return ibv_create_qp_ex(t->ctx, &attr);
}

static void
set_up(struct vt *t)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 512, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_ah_attr av;

	cq_ex = ibv_create_cq_ex(t->ctx, &attr);
	if (cq_ex == NULL)
		vt_die("ibv_create_cq_ex");
	cq = ibv_cq_ex_to_cq(cq_ex);
	qp = make_qp(t, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE |
					 IBV_QP_EX_WITH_FLUSH);
	peer = make_qp(t, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	if (qp == NULL || peer == NULL)
		vt_die("ibv_create_qp_ex");
	x = ibv_qp_to_qp_ex(qp);
	vt_connect(t, qp, peer);
	vt_connect(t, peer, qp);
	vt_ah_attr(t, &av);
	ah = ibv_create_ah(t->pd, &av);
	if (ah == NULL)
		vt_die("ibv_create_ah");
	word = (void *)(t->buf + 4096);
}

static void
tear_down(void)
{
	VT_OK(ibv_destroy_ah(ah));
	vt_destroy_qp(qp);
	vt_destroy_qp(peer);
	vt_destroy_cq(cq);
}

/* Wait for a completion and leave it where the readers find it; ibv_end_poll() is the caller's. */
static int
poll_ex(void)
{
	uint64_t end = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);
	struct ibv_poll_cq_attr attr = { 0 };
	int rc;

	while ((rc = ibv_start_poll(cq_ex, &attr)) == ENOENT && vt_now_ns() < end)
		;
	return rc;
}

/* A message from qp to peer and both completions; @reader looks at the receiver's. @return what it returned. */
static int
message(struct vt *t, int (*reader)(void))
{
	int rc = WRONG;

	vt_recv(t, peer, 2);
	vt_send(t, qp, IBV_WR_SEND_WITH_IMM, 1, 50, IBV_SEND_SIGNALED);
	for (int n = 0; n < 2; n++) {
		NEED(poll_ex() == 0);
		if (cq_ex->wr_id == 2 && cq_ex->status == IBV_WC_SUCCESS)
			rc = reader();
		ibv_end_poll(cq_ex);
	}
	return rc;
}

/* ---- Devices ---- */
FN(ibv_get_device_list)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	NEED(list != NULL && n > 0 && list[0] != NULL && list[n] == NULL);
	ibv_free_device_list(list);
	return 0;
}
FN(ibv_free_device_list) { return call_ibv_get_device_list(t); }
FN(ibv_get_device_name) { return strlen(ibv_get_device_name(t->ctx->device)) > 0 ? 0 : WRONG; }
FN(ibv_get_device_index) { return ibv_get_device_index(t->ctx->device) >= 0 ? 0 : WRONG; }
FN(ibv_get_device_guid)
{
	struct ibv_device_attr attr;

	NEED(ibv_query_device(t->ctx, &attr) == 0);
	return ibv_get_device_guid(t->ctx->device) == attr.node_guid && attr.node_guid != 0 ? 0 : WRONG;
}
FN(ibv_open_device)
{
	struct ibv_context *c = ibv_open_device(t->ctx->device);

	OR_ERRNO(c);
	NEED(ibv_close_device(c) == 0);
	return 0;
}
FN(ibv_close_device) { return call_ibv_open_device(t); }
FN(ibv_import_device)
{
	struct ibv_context *c = ibv_import_device(dup(t->ctx->cmd_fd));
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	OR_ERRNO(c);
	pd = ibv_import_pd(c, t->pd->handle);
	OR_ERRNO(pd);
	mr = ibv_import_mr(pd, t->mr->handle);
	OR_ERRNO(mr);
	NEED(mr->rkey == t->mr->rkey && mr->lkey == t->mr->lkey && mr->length == t->mr->length);
	NEED(ibv_dereg_mr(mr) == EINVAL && ibv_dealloc_pd(pd) == EINVAL);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	NEED(ibv_close_device(c) == 0);
	return 0;
}
FN(ibv_import_pd) { return call_ibv_import_device(t); }
FN(ibv_import_mr) { return call_ibv_import_device(t); }
FN_WHY(ibv_import_dm, "it is in one piece of memory with its program's queues") { return ibv_import_dm(t->ctx, 0) == NULL ? errno : WRONG; }
FN(ibv_unimport_pd) { return call_ibv_import_device(t); }
FN(ibv_unimport_mr) { return call_ibv_import_device(t); }
FN_WHY(ibv_unimport_dm, "no device memory can be imported") { return NONE; }
FN(ibv_query_device)
{
	struct ibv_device_attr a;

	NEED(ibv_query_device(t->ctx, &a) == 0);
	NEED(a.max_qp > 0 && a.max_cqe > 0 && a.max_sge > 0 && a.vendor_id != 0 && a.vendor_id != 0xffffff && a.phys_port_cnt == 1);
	return 0;
}
FN(ibv_query_device_ex)
{
	struct ibv_device_attr_ex a;

	NEED(ibv_query_device_ex(t->ctx, NULL, &a) == 0);
	NEED(a.orig_attr.max_qp > 0 && a.odp_caps.general_caps != 0 && a.tso_caps.max_tso == 0 && a.max_dm_size == 1 << 20);
	return 0;
}
FN(ibv_query_rt_values_ex)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	NEED(ibv_query_rt_values_ex(t->ctx, &v) == 0 && v.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)v.raw_clock.tv_nsec + 1000000000 > vt_now_ns() ? 0 : WRONG;
}
FN(ibv_query_port)
{
	struct ibv_port_attr a;

	NEED(ibv_query_port(t->ctx, VT_PORT, &a) == 0);
	return a.state == IBV_PORT_ACTIVE && a.link_layer == IBV_LINK_LAYER_ETHERNET && a.gid_tbl_len > 0 ? 0 : WRONG;
}
FN(ibv_query_gid)
{
	union ibv_gid gid, none = { { 0 } };

	NEED(ibv_query_gid(t->ctx, VT_PORT, VT_GID_INDEX, &gid) == 0);
	return memcmp(&gid, &none, sizeof(gid)) != 0 ? 0 : WRONG;
}
FN(ibv_query_gid_ex)
{
	struct ibv_gid_entry e;

	NEED(ibv_query_gid_ex(t->ctx, VT_PORT, VT_GID_INDEX, &e, 0) == 0);
	return e.gid_type == IBV_GID_TYPE_ROCE_V2 && e.gid_index == VT_GID_INDEX ? 0 : WRONG;
}
FN(_ibv_query_gid_ex) { return call_ibv_query_gid_ex(t); }
FN(ibv_query_gid_table)
{
	struct ibv_gid_entry e[64];

	return ibv_query_gid_table(t->ctx, e, 64, 0) > 1 ? 0 : WRONG;
}
FN(_ibv_query_gid_table) { return call_ibv_query_gid_table(t); }
FN(ibv_query_pkey)
{
	__be16 pkey;

	NEED(ibv_query_pkey(t->ctx, VT_PORT, 0, &pkey) == 0);
	return pkey == htobe16(0xffff) ? 0 : WRONG;
}
FN(ibv_get_pkey_index) { return ibv_get_pkey_index(t->ctx, VT_PORT, htobe16(0xffff)) == 0 ? 0 : WRONG; }
FN(ibv_get_sysfs_path) { return ibv_get_sysfs_path() != NULL ? 0 : WRONG; }
FN(ibv_read_sysfs_file)
{
	char buf[64];

	return ibv_read_sysfs_file("/sys/kernel/mm/transparent_hugepage", "hpage_pmd_size", buf, sizeof(buf)) > 0 &&
	       atoi(buf) > 0 ? 0 : WRONG;
}
FN(ibv_get_async_event)
{
	/* Moving to ERR raises LAST_WQE_REACHED where there is an SRQ. */
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 1, 0, 1, 0, 0 } };
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event ev;
	struct ibv_qp *q;

	attr.srq = ibv_create_srq(t->pd, &sattr);
	q = attr.srq != NULL ? ibv_create_qp(t->pd, &attr) : NULL;
	NEED(q != NULL);
	vt_connect(t, q, q);
	NEED(ibv_modify_qp(q, &err, IBV_QP_STATE) == 0 && vt_readable(t->ctx->async_fd, VT_SECONDS * 1000));
	NEED(ibv_get_async_event(t->ctx, &ev) == 0 && ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && ev.element.qp == q);
	ibv_ack_async_event(&ev);
	/* Would wait for the acknowledgement. */
	NEED(ibv_destroy_qp(q) == 0 && ibv_destroy_srq(attr.srq) == 0);
	return 0;
}
FN(ibv_ack_async_event) { return call_ibv_get_async_event(t); }

FN_WHY(old_ibv_get_device_list, "programs of 2006")
{
	struct ibv_device **(*fn)(int *) = dlvsym(RTLD_DEFAULT, "ibv_get_device_list", "IBVERBS_1.0");
	int n = 7;

	return fn != NULL && fn(&n) == NULL && n == 0 ? errno : WRONG;
}

/* ---- PDs ---- */
FN(ibv_alloc_pd)
{
	struct ibv_pd *pd = ibv_alloc_pd(t->ctx);

	OR_ERRNO(pd);
	return ibv_dealloc_pd(pd);
}
FN(ibv_dealloc_pd) { return call_ibv_alloc_pd(t); }
FN(ibv_alloc_td)
{
	struct ibv_td_init_attr attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(t->ctx, &attr);

	OR_ERRNO(td);
	return ibv_dealloc_td(td);
}
FN(ibv_dealloc_td) { return call_ibv_alloc_td(t); }
FN(ibv_alloc_parent_domain)
{
	struct ibv_parent_domain_init_attr attr = { .pd = t->pd };
	struct ibv_pd *pd = ibv_alloc_parent_domain(t->ctx, &attr);

	OR_ERRNO(pd);
	return ibv_dealloc_pd(pd);
}
FN(ibv_open_xrcd)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t->ctx, &attr);

	OR_ERRNO(xrcd);
	return ibv_close_xrcd(xrcd);
}
FN(ibv_close_xrcd) { return call_ibv_open_xrcd(t); }

/* ---- Memory ---- */
static int
dereg(struct ibv_mr *mr)
{
	OR_ERRNO(mr);
	NEED(mr->lkey != 0 && mr->rkey != 0);
	return ibv_dereg_mr(mr);
}
FN(ibv_reg_mr) { return dereg(ibv_reg_mr(t->pd, t->buf, 100, IBV_ACCESS_LOCAL_WRITE)); }
FN(ibv_reg_mr_iova) { return dereg(ibv_reg_mr_iova(t->pd, t->buf, 100, 4096, IBV_ACCESS_LOCAL_WRITE)); }
FN(ibv_reg_mr_iova2) { return dereg(ibv_reg_mr_iova2(t->pd, t->buf, 100, 4096, IBV_ACCESS_LOCAL_WRITE)); }
FN(ibv_dereg_mr) { return call_ibv_reg_mr(t); }
FN(ibv_rereg_mr)
{
	struct ibv_mr *mr = ibv_reg_mr(t->pd, t->buf, 100, IBV_ACCESS_LOCAL_WRITE);

	NEED(mr != NULL && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, t->buf, 200, 0) == 0 && mr->length == 200);
	return ibv_dereg_mr(mr);
}
FN_WHY(ibv_reg_dmabuf_mr, "the memory of devices can't be reached by the daemon")
{
	return ibv_reg_dmabuf_mr(t->pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE) == NULL ? errno : WRONG;
}
FN(ibv_alloc_null_mr)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(t->pd);

	OR_ERRNO(mr);
	NEED(mr->pd == t->pd && mr->lkey != 0 && mr->rkey == 0 && mr->length == SIZE_MAX);
	NEED(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
	return ibv_dereg_mr(mr);
}
FN(ibv_advise_mr)
{
	struct ibv_mr *mr = ibv_reg_mr(t->pd, t->buf, 4096, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = { (uintptr_t)t->buf, 100, 0 };

	OR_ERRNO(mr);
	sge.lkey = mr->lkey;
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == 0);
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1) == 0);
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1) == 0);
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1) == EPERM);
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1) == EINVAL);
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0) == EINVAL);
	NEED(ibv_advise_mr(t->pd, (enum ibv_advise_mr_advice)77, 0, &sge, 1) == EOPNOTSUPP);
	sge.length = 4097;
	NEED(ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == EFAULT);
	NEED(ibv_dereg_mr(mr) == 0);
	sge = (struct ibv_sge){ (uintptr_t)t->buf, 100, t->mr->lkey };
	return ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == ENOENT ? 0 : WRONG;
}
/* Device memory is written and read, and it is zeroed at first. */
FN(ibv_alloc_dm)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(t->ctx, &attr);
	uint8_t buf[64], zeros[64] = { 0 };
	struct ibv_mr *mr;

	OR_ERRNO(dm);
	NEED(ibv_memcpy_from_dm(buf, dm, 0, 64) == 0 && memcmp(buf, zeros, 64) == 0);
	NEED(ibv_memcpy_to_dm(dm, 8, "device memory...", 16) == 0);
	NEED(ibv_memcpy_from_dm(buf, dm, 8, 16) == 0 && memcmp(buf, "device memory...", 16) == 0);
	mr = ibv_reg_dm_mr(t->pd, dm, 8, 56, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	NEED(mr != NULL && mr->addr == NULL && mr->length == 56 && mr->lkey == mr->rkey);
	NEED(ibv_free_dm(dm) == EBUSY && ibv_dereg_mr(mr) == 0);
	return ibv_free_dm(dm);
}
FN(ibv_free_dm) { return call_ibv_alloc_dm(t); }
FN(ibv_memcpy_to_dm) { return call_ibv_alloc_dm(t); }
FN(ibv_memcpy_from_dm) { return call_ibv_alloc_dm(t); }
FN(ibv_reg_dm_mr) { return call_ibv_alloc_dm(t); }
FN(ibv_alloc_mw)
{
	struct ibv_mw *mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_1);

	OR_ERRNO(mw);
	return ibv_dealloc_mw(mw);
}
FN(ibv_dealloc_mw) { return call_ibv_alloc_mw(t); }
FN(ibv_bind_mw)
{
	struct ibv_mw_bind bind = { .wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { t->mr, (uintptr_t)t->buf, 100, IBV_ACCESS_REMOTE_READ } };
	struct ibv_mw *mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_1);
	int rc;

	NEED(mw != NULL);
	rc = ibv_bind_mw(qp, mw, &bind);
	if (rc == 0)
		vt_expect(cq, 3, IBV_WC_SUCCESS);
	NEED(ibv_dealloc_mw(mw) == 0);
	return rc;
}
FN(ibv_inc_rkey) { return ibv_inc_rkey(0x1ff) == 0x100 ? 0 : WRONG; }
FN(ibv_fork_init) { return ibv_fork_init(); }
FN(ibv_is_fork_initialized) { return ibv_is_fork_initialized() != IBV_FORK_DISABLED ? 0 : WRONG; }

/* ---- CQs ---- */
FN(ibv_create_comp_channel)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t->ctx);

	OR_ERRNO(ch);
	return ibv_destroy_comp_channel(ch);
}
FN(ibv_destroy_comp_channel) { return call_ibv_create_comp_channel(t); }
FN(ibv_create_cq)
{
	struct ibv_cq *c = ibv_create_cq(t->ctx, 10, NULL, NULL, 0);

	OR_ERRNO(c);
	return ibv_destroy_cq(c);
}
FN(ibv_destroy_cq) { return call_ibv_create_cq(t); }
FN(ibv_resize_cq) { return ibv_resize_cq(cq, 1024); }
FN(ibv_modify_cq)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	return ibv_modify_cq(cq, &attr);
}
FN(ibv_get_cq_event)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t->ctx);
	struct ibv_cq *c = ch != NULL ? ibv_create_cq(t->ctx, 10, NULL, ch, 0) : NULL, *got = NULL;
	struct ibv_qp *q;
	void *arg;

	NEED(c != NULL);
	q = vt_qp(t, IBV_QPT_RC, c, c);
	vt_connect(t, q, q);
	NEED(ibv_req_notify_cq(c, 0) == 0);
	vt_send(t, q, IBV_WR_RDMA_WRITE, 1, 8, IBV_SEND_SIGNALED);
	NEED(vt_readable(ch->fd, VT_SECONDS * 1000) && ibv_get_cq_event(ch, &got, &arg) == 0 && got == c);
	ibv_ack_cq_events(c, 1);
	NEED(ibv_destroy_qp(q) == 0 && ibv_destroy_cq(c) == 0 && ibv_destroy_comp_channel(ch) == 0);
	return 0;
}
FN(ibv_ack_cq_events) { return call_ibv_get_cq_event(t); }
FN(ibv_req_notify_cq) { return call_ibv_get_cq_event(t); }
FN(ibv_poll_cq)
{
	vt_send(t, qp, IBV_WR_RDMA_WRITE, 8, 8, IBV_SEND_SIGNALED);
	vt_expect(cq, 8, IBV_WC_SUCCESS);
	return vt_failed ? WRONG : 0;
}
FN(ibv_post_send) { return call_ibv_poll_cq(t); }
FN(ibv_create_cq_ex)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4 };
	struct ibv_cq_ex *c = ibv_create_cq_ex(t->ctx, &attr);

	OR_ERRNO(c);
	return ibv_destroy_cq(ibv_cq_ex_to_cq(c));
}
FN(ibv_cq_ex_to_cq) { return ibv_cq_ex_to_cq(cq_ex) == cq ? 0 : WRONG; }
#define READER(name, cond) \
	static int read_##name(void) { return (cond) ? 0 : WRONG; } \
	FN(name) { return message(t, read_##name); }
READER(ibv_start_poll, cq_ex->wr_id == 2)
READER(ibv_end_poll, cq_ex->wr_id == 2)
READER(ibv_wc_read_opcode, ibv_wc_read_opcode(cq_ex) == IBV_WC_RECV)
READER(ibv_wc_read_byte_len, ibv_wc_read_byte_len(cq_ex) == 50)
READER(ibv_wc_read_qp_num, ibv_wc_read_qp_num(cq_ex) == peer->qp_num)
READER(ibv_wc_read_src_qp, ibv_wc_read_src_qp(cq_ex) <= 0xffffff)
READER(ibv_wc_read_vendor_err, ibv_wc_read_vendor_err(cq_ex) == 0)
READER(ibv_wc_read_wc_flags, ibv_wc_read_wc_flags(cq_ex) == IBV_WC_WITH_IMM)
READER(ibv_wc_read_imm_data, ibv_wc_read_imm_data(cq_ex) == 0)
READER(ibv_wc_read_invalidated_rkey, ibv_wc_read_invalidated_rkey(cq_ex) == 0)
READER(ibv_wc_read_slid, ibv_wc_read_slid(cq_ex) == 0)
READER(ibv_wc_read_sl, ibv_wc_read_sl(cq_ex) <= 15)
READER(ibv_wc_read_dlid_path_bits, ibv_wc_read_dlid_path_bits(cq_ex) == 0)
READER(ibv_wc_read_completion_ts, ibv_wc_read_completion_ts(cq_ex) > 0)
READER(ibv_wc_read_completion_wallclock_ns, ibv_wc_read_completion_wallclock_ns(cq_ex) > 0)
FN(ibv_next_poll)
{
	int rc;

	vt_send(t, qp, IBV_WR_RDMA_WRITE, 1, 8, IBV_SEND_SIGNALED);
	NEED(poll_ex() == 0);
	vt_send(t, qp, IBV_WR_RDMA_WRITE, 2, 8, IBV_SEND_SIGNALED);
	while ((rc = ibv_next_poll(cq_ex)) == ENOENT)
		;
	rc = rc == 0 && cq_ex->wr_id == 2 ? 0 : WRONG;
	ibv_end_poll(cq_ex);
	return rc;
}
static int
cq_with(struct vt *t, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .wc_flags = wc_flags };
	struct ibv_cq_ex *c = ibv_create_cq_ex(t->ctx, &attr);

	return c == NULL ? errno : WRONG;
}
FN_WHY(ibv_wc_read_cvlan, "refused by ibv_create_cq_ex(): completions carry no VLAN") { return cq_with(t, IBV_WC_EX_WITH_CVLAN); }
FN_WHY(ibv_wc_read_flow_tag, "refused by ibv_create_cq_ex(): there are no flow rules") { return cq_with(t, IBV_WC_EX_WITH_FLOW_TAG); }
FN_WHY(ibv_wc_read_tm_info, "refused by ibv_create_cq_ex(): there is no tag matching") { return cq_with(t, IBV_WC_EX_WITH_TM_INFO); }

int
main(void)
{
	const struct row *r;
	int wrong = 0, rc;
	struct vt t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	vt_begin(&t);
	set_up(&t);
	for (r = __start_rows; r < __stop_rows; r++) {
		vt_case_name = r->name;
		vt_failed = false;
		errno = 0;
		rc = r->fn(&t);
		if (vt_failed)
			rc = WRONG;
		if (rc == 0)
			printf("%s works\n", r->name);
		else if (rc == NONE)
			printf("%s none %s\n", r->name, r->why);
		else if (rc > 0 && r->why != NULL && strerrorname_np(rc) != NULL)
			printf("%s %s %s\n", r->name, strerrorname_np(rc), r->why);
		else
			printf("%s WRONG %s\n", r->name, rc > 0 ? strerror(rc) : "");
		wrong += rc != 0 && rc != NONE && (rc < 0 || r->why == NULL);
	}
	tear_down();
	vt_end(&t);
	return wrong > 0;
}
