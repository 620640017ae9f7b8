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

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "vt.h"

enum { WRONG = -1, NONE = -2 /* an object that can't be had is its argument */ };

struct row {
	const char *name, *why;
	/* @return 0: works; an errno value: refused; WRONG; NONE. */
	int (*fn)(struct vt *t);
};
extern const struct row __start_rows[], __stop_rows[];

#define FN_WHY(name, why) \
	static int call_##name(struct vt *t); \
	static const struct row row_##name __attribute__((section("rows"), used, aligned(8))) = { #name, why, call_##name }; \
	static int call_##name(struct vt *t)
#define FN(name) FN_WHY(name, NULL)
#define NEED(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: " #cond ": %s\n", __FILE__, __LINE__, strerror(errno)); \
			return WRONG; \
		} \
	} while (0)
/* For a function that returns an object: refused, with errno, if it is NULL. */
#define OR_ERRNO(p) \
	do { \
		if ((p) == NULL) \
			return errno != 0 ? errno : WRONG; \
	} while (0)

/* In rdma-core's library, but in no header of its. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, const struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, const struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, const struct ibv_sa_path_rec *from);

/* ---- What the calls below use ---- */
static struct ibv_cq_ex *cq_ex;
static struct ibv_cq *cq;
static struct ibv_qp *qp, *peer;
static struct ibv_qp_ex *x;
static struct ibv_ah *ah;
static uint64_t *word;

static struct ibv_qp *
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
	qp = make_qp(t, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE);
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
FN_WHY(ibv_import_device, "a session is bound to the memory of one program") { return ibv_import_device(t->ctx->cmd_fd) == NULL ? errno : WRONG; }
FN_WHY(ibv_import_pd, "no device can be imported") { return ibv_import_pd(t->ctx, t->pd->handle) == NULL ? errno : WRONG; }
FN_WHY(ibv_import_mr, "no device can be imported") { return ibv_import_mr(t->pd, t->mr->handle) == NULL ? errno : WRONG; }
FN_WHY(ibv_import_dm, "no device can be imported") { return ibv_import_dm(t->ctx, 0) == NULL ? errno : WRONG; }
FN_WHY(ibv_unimport_pd, "nothing can be imported") { return NONE; }
FN_WHY(ibv_unimport_mr, "nothing can be imported") { return NONE; }
FN_WHY(ibv_unimport_dm, "nothing can be imported") { return NONE; }
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
	NEED(a.orig_attr.max_qp > 0 && a.odp_caps.general_caps == 0 && a.tso_caps.max_tso == 0 && a.max_dm_size == 0);
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
FN_WHY(ibv_alloc_null_mr, "rarely used; the capabilities don't promise it") { return ibv_alloc_null_mr(t->pd) == NULL ? errno : WRONG; }
FN_WHY(ibv_advise_mr, "there is no on-demand paging that could use the advice")
{
	struct ibv_sge sge = { (uintptr_t)t->buf, 100, t->mr->lkey };

	return ibv_advise_mr(t->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
}
FN_WHY(ibv_alloc_dm, "max_dm_size is 0")
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };

	return ibv_alloc_dm(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_free_dm, "there is no device memory") { return NONE; }
FN_WHY(ibv_memcpy_to_dm, "there is no device memory") { return NONE; }
FN_WHY(ibv_memcpy_from_dm, "there is no device memory") { return NONE; }
FN_WHY(ibv_reg_dm_mr, "there is no device memory") { return ibv_reg_dm_mr(t->pd, NULL, 0, 64, 0) == NULL ? errno : WRONG; }
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

/* ---- QPs ---- */
FN(ibv_create_qp)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *q = ibv_create_qp(t->pd, &attr);

	OR_ERRNO(q);
	return ibv_destroy_qp(q);
}
FN(ibv_destroy_qp) { return call_ibv_create_qp(t); }
FN(ibv_create_qp_ex)
{
	struct ibv_qp *q = make_qp(t, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);

	OR_ERRNO(q);
	return ibv_destroy_qp(q);
}
FN(ibv_qp_to_qp_ex) { return x != NULL ? 0 : WRONG; }
FN(ibv_modify_qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 5 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
}
FN(ibv_query_qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == peer->qp_num && init.send_cq == cq ? 0 : WRONG;
}
FN_WHY(ibv_modify_qp_rate_limit, "packets are paced by congestion control only; packet_pacing_caps are 0")
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = 1000 };

	return ibv_modify_qp_rate_limit(qp, &attr);
}
FN(ibv_query_qp_data_in_order) { return ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) >= 0 ? 0 : WRONG; }
FN(ibv_query_ece)
{
	struct ibv_ece ece;

	return ibv_query_ece(qp, &ece) == 0 && ece.vendor_id == 0 ? 0 : WRONG;
}
FN(ibv_set_ece)
{
	struct ibv_ece ece = { 0 };

	return ibv_set_ece(qp, &ece);
}
FN_WHY(ibv_open_qp, NULL)
{
	struct ibv_xrcd_init_attr xattr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t->ctx, &xattr);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	struct ibv_qp_open_attr oattr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					  .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *target, *opened;

	OR_ERRNO(xrcd);
	target = ibv_create_qp_ex(t->ctx, &attr);
	NEED(target != NULL);
	oattr.qp_num = target->qp_num;
	opened = ibv_open_qp(t->ctx, &oattr);
	OR_ERRNO(opened);
	NEED(opened->qp_num == target->qp_num && ibv_destroy_qp(opened) == 0 && ibv_destroy_qp(target) == 0);
	return ibv_close_xrcd(xrcd);
}
FN(ibv_is_qpt_supported) { return ibv_is_qpt_supported(0xffffffff, IBV_QPT_RC) ? 0 : WRONG; }
FN(ibv_post_recv)
{
	struct ibv_wc wc;

	vt_recv(t, peer, 2);
	vt_send(t, qp, IBV_WR_SEND, 1, 50, IBV_SEND_SIGNALED);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return 0;
}

/* Finish a builder's list with one signalled WR of wr_id 7. */
static int
built(void)
{
	int rc = ibv_wr_complete(x);

	if (rc == 0)
		vt_expect(cq, 7, IBV_WC_SUCCESS);
	return vt_failed ? WRONG : rc;
}

static void
build(void)
{
	ibv_wr_start(x);
	x->wr_id = 7;
	x->wr_flags = IBV_SEND_SIGNALED;
}

static int
write_by(struct vt *t, void (*set)(struct vt *t))
{
	t->buf[0]++;
	build();
	ibv_wr_rdma_write(x, t->mr->rkey, (uintptr_t)t->buf + 1000);
	set(t);
	NEED(built() == 0);
	return t->buf[1000] == t->buf[0] ? 0 : WRONG;
}
static void set_sge(struct vt *t) { ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8); }
static void
set_sge_list(struct vt *t)
{
	struct ibv_sge s[2] = { { (uintptr_t)t->buf, 8, t->mr->lkey }, { (uintptr_t)t->buf, 8, t->mr->lkey } };

	ibv_wr_set_sge_list(x, 2, s);
}
static void set_inline(struct vt *t) { ibv_wr_set_inline_data(x, t->buf, 8); }
static void
set_inline_list(struct vt *t)
{
	struct ibv_data_buf b[2] = { { t->buf, 8 }, { t->buf, 8 } };

	ibv_wr_set_inline_data_list(x, 2, b);
}
FN(ibv_wr_start) { return write_by(t, set_sge); }
FN(ibv_wr_complete) { return write_by(t, set_sge); }
FN(ibv_wr_rdma_write) { return write_by(t, set_sge); }
FN(ibv_wr_set_sge) { return write_by(t, set_sge); }
FN(ibv_wr_set_sge_list) { return write_by(t, set_sge_list); }
FN(ibv_wr_set_inline_data) { return write_by(t, set_inline); }
FN(ibv_wr_set_inline_data_list) { return write_by(t, set_inline_list); }
FN(ibv_wr_abort)
{
	t->buf[1000] = 0;
	t->buf[0] = 1;
	build();
	ibv_wr_rdma_write(x, t->mr->rkey, (uintptr_t)t->buf + 1000);
	set_sge(t);
	ibv_wr_abort(x);
	usleep(20000);
	NEED(t->buf[1000] == 0);
	return write_by(t, set_sge);
}
FN(ibv_wr_rdma_write_imm)
{
	struct ibv_wc wc;

	vt_recv(t, peer, 2);
	build();
	ibv_wr_rdma_write_imm(x, t->mr->rkey, (uintptr_t)t->buf + 1000, 5);
	set_sge(t);
	NEED(ibv_wr_complete(x) == 0);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return 0;
}
FN(ibv_wr_rdma_read)
{
	t->buf[0]++;
	build();
	ibv_wr_rdma_read(x, t->mr->rkey, (uintptr_t)t->buf);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf + 2000, 8);
	NEED(built() == 0);
	return t->buf[2000] == t->buf[0] ? 0 : WRONG;
}
FN(ibv_wr_atomic_fetch_add)
{
	*word = 5;
	build();
	ibv_wr_atomic_fetch_add(x, t->mr->rkey, (uintptr_t)word, 3);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8);
	NEED(built() == 0);
	return *word == 8 ? 0 : WRONG;
}
FN(ibv_wr_atomic_cmp_swp)
{
	*word = 5;
	build();
	ibv_wr_atomic_cmp_swp(x, t->mr->rkey, (uintptr_t)word, 5, 3);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8);
	NEED(built() == 0);
	return *word == 3 ? 0 : WRONG;
}
FN(ibv_wr_atomic_write)
{
	uint64_t value = 77;

	*word = 5;
	build();
	ibv_wr_atomic_write(x, t->mr->rkey, (uintptr_t)word, &value);
	NEED(built() == 0);
	return *word == 77 ? 0 : WRONG;
}
static int
send_by(struct vt *t, void (*op)(void))
{
	struct ibv_wc wc;

	vt_recv(t, peer, 2);
	build();
	op();
	set_sge(t);
	NEED(ibv_wr_complete(x) == 0);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return 0;
}
static void op_send(void) { ibv_wr_send(x); }
static void op_send_imm(void) { ibv_wr_send_imm(x, 1); }
FN(ibv_wr_send) { return send_by(t, op_send); }
FN(ibv_wr_send_imm) { return send_by(t, op_send_imm); }
/* A window of peer's, bound there, used and invalidated by @invalidate. */
static int
window(struct vt *t, bool by_peer, bool by_builder)
{
	struct ibv_mw *mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = { t->mr, (uintptr_t)t->buf, 4096, IBV_ACCESS_REMOTE_WRITE };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;
	uint32_t key;

	NEED(mw != NULL);
	key = ibv_inc_rkey(mw->rkey);
	if (by_builder) {
		build();
		ibv_wr_bind_mw(x, mw, key, &info);
		NEED(built() == 0);
		build();
		ibv_wr_local_inv(x, key);
		NEED(built() == 0);
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = key;
		wr.bind_mw.bind_info = info;
		NEED(ibv_post_send(peer, &wr, &bad) == 0);
		vt_expect(cq, 7, IBV_WC_SUCCESS);
		vt_recv(t, peer, 2);
		build();
		ibv_wr_send_inv(x, key);
		set_sge(t);
		NEED(ibv_wr_complete(x) == 0);
		for (int i = 0; i < 2; i++)
			NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	}
	(void)by_peer;
	return ibv_dealloc_mw(mw);
}
FN(ibv_wr_bind_mw) { return window(t, false, true); }
FN(ibv_wr_local_inv) { return window(t, false, true); }
FN(ibv_wr_send_inv) { return window(t, true, false); }
FN(ibv_wr_set_ud_addr)
{
	struct ibv_qp *q = make_qp(t, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *y = q != NULL ? ibv_qp_to_qp_ex(q) : NULL;
	struct ibv_wc wc;

	NEED(y != NULL);
	vt_connect(t, q, q);
	vt_recv(t, q, 2);
	ibv_wr_start(y);
	y->wr_id = 1;
	y->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(y);
	ibv_wr_set_ud_addr(y, ah, q->qp_num, VT_QKEY);
	ibv_wr_set_sge(y, t->mr->lkey, (uintptr_t)t->buf, 8);
	NEED(ibv_wr_complete(y) == 0);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return ibv_destroy_qp(q);
}
FN(ibv_wr_set_xrc_srqn)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .cap = { 4, 0, 1, 0, 0 }, .pd = t->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *q = ibv_create_qp_ex(t->ctx, &attr);

	OR_ERRNO(q);
	NEED(ibv_qp_to_qp_ex(q) != NULL && ibv_qp_to_qp_ex(q)->wr_set_xrc_srqn != NULL);
	return ibv_destroy_qp(q);
}
FN_WHY(ibv_wr_send_tso, "refused by ibv_create_qp_ex(): max_tso is 0")
{
	return make_qp(t, IBV_QPT_UD, IBV_QP_EX_WITH_TSO) == NULL ? errno : WRONG;
}

/* ---- SRQs ---- */
static struct ibv_srq *
make_srq(struct vt *t)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(t->pd, &attr);
}
FN(ibv_create_srq)
{
	struct ibv_srq *srq = make_srq(t);

	OR_ERRNO(srq);
	return ibv_destroy_srq(srq);
}
FN(ibv_destroy_srq) { return call_ibv_create_srq(t); }
FN(ibv_create_srq_ex)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 }, .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					     .srq_type = IBV_SRQT_BASIC, .pd = t->pd };
	struct ibv_srq *srq = ibv_create_srq_ex(t->ctx, &attr);

	OR_ERRNO(srq);
	return ibv_destroy_srq(srq);
}
FN(ibv_modify_srq)
{
	struct ibv_srq *srq = make_srq(t);
	struct ibv_srq_attr attr = { .srq_limit = 2 };

	NEED(srq != NULL && ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
	attr.srq_limit = 0;
	NEED(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 2);
	return ibv_destroy_srq(srq);
}
FN(ibv_query_srq) { return call_ibv_modify_srq(t); }
FN(ibv_post_srq_recv)
{
	struct ibv_sge sge = { (uintptr_t)t->buf, 100, t->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_srq *srq = make_srq(t);
	int rc;

	NEED(srq != NULL);
	rc = ibv_post_srq_recv(srq, &wr, &bad);
	NEED(ibv_destroy_srq(srq) == 0);
	return rc;
}
FN(ibv_get_srq_num)
{
	struct ibv_xrcd_init_attr xattr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t->ctx, &xattr);
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = t->pd, .xrcd = xrcd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq;
	uint32_t num = 0;
	int rc;

	OR_ERRNO(xrcd);
	srq = ibv_create_srq_ex(t->ctx, &attr);
	NEED(srq != NULL);
	rc = ibv_get_srq_num(srq, &num);
	NEED(rc != 0 || num != 0);
	NEED(ibv_destroy_srq(srq) == 0 && ibv_close_xrcd(xrcd) == 0);
	return rc;
}
FN_WHY(ibv_post_srq_ops, "there is no tag matching")
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad;
	struct ibv_srq *srq = make_srq(t);
	int rc;

	NEED(srq != NULL);
	rc = ibv_post_srq_ops(srq, &wr, &bad);
	NEED(ibv_destroy_srq(srq) == 0);
	return rc;
}

/* ---- AHs and multicast ---- */
FN(ibv_create_ah)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *h;

	vt_ah_attr(t, &attr);
	h = ibv_create_ah(t->pd, &attr);
	OR_ERRNO(h);
	return ibv_destroy_ah(h);
}
FN(ibv_destroy_ah) { return call_ibv_create_ah(t); }
FN(ibv_init_ah_from_wc)
{
	struct ibv_qp *q = vt_qp(t, IBV_QPT_UD, cq, cq);
	struct ibv_sge sge = { (uintptr_t)t->buf, 8, t->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { ah, q->qp_num, VT_QKEY } }, *bad;
	struct ibv_wc wc, got = { 0 };
	struct ibv_ah_attr attr;
	union ibv_gid gid;
	struct ibv_ah *back;

	vt_connect(t, q, q);
	vt_recv(t, q, 2);
	NEED(ibv_post_send(q, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
		if (wc.wr_id == 2)
			got = wc;
	}
	NEED(ibv_init_ah_from_wc(t->ctx, VT_PORT, &got, (void *)(t->buf + VT_BUFFER_BYTES / 2), &attr) == 0);
	NEED(ibv_query_gid(t->ctx, VT_PORT, VT_GID_INDEX, &gid) == 0 && memcmp(&attr.grh.dgid, &gid, sizeof(gid)) == 0);
	back = ibv_create_ah_from_wc(t->pd, &got, (void *)(t->buf + VT_BUFFER_BYTES / 2), VT_PORT);
	NEED(back != NULL && ibv_destroy_ah(back) == 0);
	return ibv_destroy_qp(q);
}
FN(ibv_create_ah_from_wc) { return call_ibv_init_ah_from_wc(t); }
FN_WHY(ibv_resolve_eth_l2_from_gid, "Ethernet addresses are the daemon's business")
{
	struct ibv_ah_attr attr;
	uint8_t mac[6];
	uint16_t vid;

	vt_ah_attr(t, &attr);
	return ibv_resolve_eth_l2_from_gid(t->ctx, &attr, mac, &vid);
}
FN_WHY(ibv_attach_mcast, "there is no multicast")
{
	union ibv_gid mgid = { .raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_qp *q = vt_qp(t, IBV_QPT_UD, cq, cq);
	int rc;

	vt_connect(t, q, q);
	rc = ibv_attach_mcast(q, &mgid, 0);
	if (rc == 0)
		NEED(ibv_detach_mcast(q, &mgid, 0) == 0);
	NEED(ibv_destroy_qp(q) == 0);
	return rc;
}
FN_WHY(ibv_detach_mcast, "there is no multicast") { return call_ibv_attach_mcast(t); }

/* ---- Flows, work queues, counters ---- */
FN_WHY(ibv_create_flow, "there are no raw packets")
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(attr), .port = 1 };

	return ibv_create_flow(qp, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_destroy_flow, "there are no flows") { return NONE; }
FN_WHY(ibv_create_flow_action_esp, "there are no raw packets")
{
	struct ibv_flow_action_esp_attr attr = { 0 };

	return ibv_create_flow_action_esp(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_modify_flow_action_esp, "there are no flow actions") { return NONE; }
FN_WHY(ibv_destroy_flow_action, "there are no flow actions") { return NONE; }
FN_WHY(ibv_create_wq, "there are no raw packets")
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = t->pd, .cq = cq };

	return ibv_create_wq(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_modify_wq, "there are no work queues") { return NONE; }
FN_WHY(ibv_destroy_wq, "there are no work queues") { return NONE; }
FN_WHY(ibv_post_wq_recv, "there are no work queues") { return NONE; }
FN_WHY(ibv_create_rwq_ind_table, "there are no work queues")
{
	struct ibv_rwq_ind_table_init_attr attr = { 0 };

	return ibv_create_rwq_ind_table(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_destroy_rwq_ind_table, "there are no work queues") { return NONE; }
FN_WHY(ibv_create_counters, "the daemon's counters are read by DPDK's telemetry")
{
	struct ibv_counters_init_attr attr = { 0 };

	return ibv_create_counters(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_destroy_counters, "there are no counters") { return NONE; }
FN_WHY(ibv_attach_counters_point_flow, "there are no counters") { return NONE; }
FN_WHY(ibv_read_counters, "there are no counters") { return NONE; }

/* ---- Words and numbers ---- */
FN(ibv_wc_status_str) { return strlen(ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR)) > 0 ? 0 : WRONG; }
FN(ibv_event_type_str) { return strlen(ibv_event_type_str(IBV_EVENT_CQ_ERR)) > 0 ? 0 : WRONG; }
FN(ibv_node_type_str) { return strlen(ibv_node_type_str(IBV_NODE_CA)) > 0 ? 0 : WRONG; }
FN(ibv_port_state_str) { return strlen(ibv_port_state_str(IBV_PORT_ACTIVE)) > 0 ? 0 : WRONG; }
FN(ibv_rate_to_mbps) { return ibv_rate_to_mbps(IBV_RATE_100_GBPS) == 103125 ? 0 : WRONG; }
FN(mbps_to_ibv_rate) { return mbps_to_ibv_rate(103125) == IBV_RATE_100_GBPS ? 0 : WRONG; }
FN(ibv_rate_to_mult) { return ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4 ? 0 : WRONG; }
FN(mult_to_ibv_rate) { return mult_to_ibv_rate(4) == IBV_RATE_10_GBPS ? 0 : WRONG; }
FN(ibv_flow_label_to_udp_sport) { return ibv_flow_label_to_udp_sport(0) >= 0xc000 ? 0 : WRONG; }
FN(ibv_copy_ah_attr_from_kern)
{
	struct ib_uverbs_ah_attr from = { .sl = 3, .is_global = 1, .grh = { .hop_limit = 9 } };
	struct ibv_ah_attr to;

	ibv_copy_ah_attr_from_kern(&to, &from);
	return to.sl == 3 && to.is_global == 1 && to.grh.hop_limit == 9 ? 0 : WRONG;
}
FN(ibv_copy_qp_attr_from_kern)
{
	struct ib_uverbs_qp_attr from = { .qp_state = 3, .rq_psn = 77, .timeout = 12 };
	struct ibv_qp_attr to;

	ibv_copy_qp_attr_from_kern(&to, &from);
	return to.qp_state == IBV_QPS_RTS && to.rq_psn == 77 && to.timeout == 12 ? 0 : WRONG;
}
FN(ibv_copy_path_rec_from_kern)
{
	struct ib_user_path_rec from = { .pkey = 5, .sl = 2, .mtu = 4 };
	struct ibv_sa_path_rec to;

	ibv_copy_path_rec_from_kern(&to, &from);
	return to.pkey == 5 && to.sl == 2 && to.mtu == 4 ? 0 : WRONG;
}
FN(ibv_copy_path_rec_to_kern)
{
	struct ibv_sa_path_rec from = { .pkey = 5, .sl = 2, .mtu = 4 };
	struct ib_user_path_rec to;

	ibv_copy_path_rec_to_kern(&to, &from);
	return to.pkey == 5 && to.sl == 2 && to.mtu == 4 ? 0 : WRONG;
}
FN(ibv_dontfork_range)
{
	int (*fn)(void *, size_t) = dlsym(RTLD_DEFAULT, "ibv_dontfork_range");

	return fn != NULL && fn(t->buf, 100) == 0 ? 0 : WRONG;
}
FN(ibv_dofork_range)
{
	int (*fn)(void *, size_t) = dlsym(RTLD_DEFAULT, "ibv_dofork_range");

	return fn != NULL && fn(t->buf, 100) == 0 ? 0 : WRONG;
}

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
