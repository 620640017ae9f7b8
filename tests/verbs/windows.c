/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows of both types, as a program uses them that knows nothing of uroce: bound by ibv_bind_mw(), by
 * ibv_post_send() and by ibv_wr_bind_mw(), written through by the peer, invalidated by either side.
 *
 * Two RC QPs of one device, connected to each other: [0] writes, [1] owns the windows.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum { HALF = 32768, DEPTH = 16, PORT = 1, GID_INDEX = 1, WC_SECONDS = 20 };

#define MUST(cond) \
	do { \
		if (!(cond)) { \
			printf("line %d: " #cond ": %s\n", __LINE__, strerror(errno)); \
			exit(1); \
		} \
	} while (0)
/* For calls that return an errno value. */
#define CALL(call, want) \
	do { \
		errno = call; \
		MUST(errno == (want)); \
	} while (0)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp[2];
static struct ibv_mr *mr; /* no remote access but through windows */
static uint8_t *buf;      /* first half: source; second half: what windows open */

static void
connect_qps(void)
{
	struct ibv_qp_attr a = { .port_num = PORT, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 1, .timeout = 12, .retry_cnt = 2, .rnr_retry = 7, .max_rd_atomic = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
				 .ah_attr = { .is_global = 1, .port_num = PORT,
					      .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } } };

	CALL(ibv_query_gid(ctx, PORT, GID_INDEX, &a.ah_attr.grh.dgid), 0);
	for (int i = 0; i < 2; i++) {
		a.qp_state = IBV_QPS_INIT;
		CALL(ibv_modify_qp(qp[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
		a.qp_state = IBV_QPS_RTR;
		a.dest_qp_num = qp[!i]->qp_num;
		CALL(ibv_modify_qp(qp[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
		a.qp_state = IBV_QPS_RTS;
		CALL(ibv_modify_qp(qp[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), 0);
	}
}

static void
make_qps(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV |
				  IBV_QP_EX_WITH_ATOMIC_WRITE,
	};

	for (int i = 0; i < 2; i++) {
		qp[i] = ibv_create_qp_ex(ctx, &attr);
		MUST(qp[i] != NULL);
	}
	connect_qps();
}

static void
drop_qps(void)
{
	for (int i = 0; i < 2; i++)
		CALL(ibv_destroy_qp(qp[i]), 0);
}

static struct ibv_wc
expect(uint64_t wr_id, enum ibv_wc_status status)
{
	time_t end = time(NULL) + WC_SECONDS;
	struct ibv_wc wc = { 0 };
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0 && time(NULL) < end)
		;
	MUST(n == 1);
	if (wc.wr_id != wr_id || wc.status != status) {
		printf("wr_id %lu, %s; expected wr_id %lu, %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status),
		       (unsigned long)wr_id, ibv_wc_status_str(status));
		exit(1);
	}
	return wc;
}

/* The peer writes @length bytes through @rkey to @offset of the second half. */
static void
write_through(uint32_t rkey, uint64_t remote, uint32_t length, enum ibv_wc_status status)
{
	struct ibv_sge sge = { (uintptr_t)buf, length, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = remote, .rkey = rkey } }, *bad;

	for (uint32_t i = 0; i < length; i++)
		buf[i] = (uint8_t)rand();
	CALL(ibv_post_send(qp[0], &wr, &bad), 0);
	expect(1, status);
}

static void
atomic_write_through(uint32_t rkey, uint64_t remote, uint64_t value)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp[0]);

	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = 9;
	ibv_wr_atomic_write(ex, rkey, remote, &value);
	CALL(ibv_wr_complete(ex), 0);
	MUST(expect(9, IBV_WC_SUCCESS).opcode == IBV_WC_ATOMIC_WRITE);
	MUST(*(uint64_t *)(uintptr_t)remote == value);
}

static struct ibv_mw_bind_info
all_of_the_second_half(unsigned int access)
{
	return (struct ibv_mw_bind_info){ .mr = mr, .addr = (uintptr_t)buf + HALF, .length = HALF,
					  .mw_access_flags = access };
}

static void
capabilities_promise_what_follows(void)
{
	struct ibv_device_attr a;

	CALL(ibv_query_device(ctx, &a), 0);
	MUST(a.max_mw > 0);
	MUST(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	MUST(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	MUST(!(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A));
	MUST(a.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
}

static void
type_1_by_ibv_bind_mw(void)
{
	struct ibv_mw_bind bind = { .wr_id = 2, .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = all_of_the_second_half(IBV_ACCESS_REMOTE_WRITE) };
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	uint32_t first;

	MUST(mw != NULL);
	make_qps();
	CALL(ibv_bind_mw(qp[1], mw, &bind), 0);
	MUST(expect(2, IBV_WC_SUCCESS).opcode == IBV_WC_BIND_MW);
	first = mw->rkey;
	write_through(first, (uintptr_t)buf + HALF, HALF, IBV_WC_SUCCESS);
	MUST(memcmp(buf, buf + HALF, HALF) == 0);
	CALL(ibv_dereg_mr(mr), EBUSY);
	/* Bound anew, the old key is stale; length 0 unbinds. */
	bind.bind_info.length = 100;
	CALL(ibv_bind_mw(qp[1], mw, &bind), 0);
	expect(2, IBV_WC_SUCCESS);
	MUST(mw->rkey != first);
	write_through(mw->rkey, (uintptr_t)buf + HALF, 100, IBV_WC_SUCCESS);
	bind.bind_info = (struct ibv_mw_bind_info){ 0 };
	CALL(ibv_bind_mw(qp[1], mw, &bind), 0);
	expect(2, IBV_WC_SUCCESS);
	write_through(first, (uintptr_t)buf + HALF, 100, IBV_WC_REM_ACCESS_ERR);
	drop_qps();
	CALL(ibv_dealloc_mw(mw), 0);
}

static void
type_2_by_post_send_until_the_peer_invalidates(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_sge sge = { (uintptr_t)buf + HALF, 64, mr->lkey };
	struct ibv_recv_wr rr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad_rr;
	struct ibv_send_wr bind = { .wr_id = 2, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_send_wr inv = { .wr_id = 4, .opcode = IBV_WR_SEND_WITH_INV };
	struct ibv_wc wc;

	MUST(mw != NULL);
	make_qps();
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = all_of_the_second_half(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);
	CALL(ibv_post_send(qp[1], &bind, &bad), 0);
	expect(2, IBV_WC_SUCCESS);
	mw->rkey = bind.bind_mw.rkey;
	write_through(mw->rkey, 100, HALF - 100, IBV_WC_SUCCESS);
	MUST(memcmp(buf, buf + HALF + 100, HALF - 100) == 0);
	CALL(ibv_post_recv(qp[1], &rr, &bad_rr), 0);
	inv.invalidate_rkey = mw->rkey;
	CALL(ibv_post_send(qp[0], &inv, &bad), 0);
	wc = expect(3, IBV_WC_SUCCESS);
	MUST(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == mw->rkey);
	write_through(mw->rkey, 100, 8, IBV_WC_REM_ACCESS_ERR);
	drop_qps();
	CALL(ibv_dealloc_mw(mw), 0);
}

static void
type_2_by_builders_until_its_owner_invalidates(void)
{
	struct ibv_mw_bind_info info = all_of_the_second_half(IBV_ACCESS_REMOTE_WRITE);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_qp_ex *ex;
	uint32_t rkey;

	MUST(mw != NULL);
	make_qps();
	ex = ibv_qp_to_qp_ex(qp[1]);
	rkey = ibv_inc_rkey(mw->rkey);
	for (int i = 0; i < 3; i++) {
		ibv_wr_start(ex);
		ex->wr_flags = IBV_SEND_SIGNALED;
		ex->wr_id = 5;
		ibv_wr_bind_mw(ex, mw, rkey, &info);
		CALL(ibv_wr_complete(ex), 0);
		expect(5, IBV_WC_SUCCESS);
		write_through(rkey, (uintptr_t)buf + HALF + 1, 5000, IBV_WC_SUCCESS);
		MUST(memcmp(buf, buf + HALF + 1, 5000) == 0);
		atomic_write_through(rkey, (uintptr_t)buf + HALF + 80, UINT64_C(0x1122334455667788) + i);
		ibv_wr_start(ex);
		ex->wr_id = 6;
		ibv_wr_local_inv(ex, rkey);
		CALL(ibv_wr_complete(ex), 0);
		MUST(expect(6, IBV_WC_SUCCESS).opcode == IBV_WC_LOCAL_INV);
		rkey = ibv_inc_rkey(rkey);
	}
	/* What isn't bound can't be invalidated. */
	ibv_wr_start(ex);
	ibv_wr_local_inv(ex, rkey);
	CALL(ibv_wr_complete(ex), 0);
	expect(6, IBV_WC_MW_BIND_ERR);
	drop_qps();
	CALL(ibv_dealloc_mw(mw), 0);
}

int
main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	setvbuf(stdout, NULL, _IOLBF, 0);
	MUST(list != NULL && list[0] != NULL);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	MUST(ctx != NULL);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0);
	buf = aligned_alloc(4096, 2 * HALF);
	MUST(pd != NULL && cq != NULL && buf != NULL);
	mr = ibv_reg_mr(pd, buf, 2 * HALF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	MUST(mr != NULL);
	capabilities_promise_what_follows();
	type_1_by_ibv_bind_mw();
	type_2_by_post_send_until_the_peer_invalidates();
	type_2_by_builders_until_its_owner_invalidates();
	CALL(ibv_dereg_mr(mr), 0);
	CALL(ibv_destroy_cq(cq), 0);
	CALL(ibv_dealloc_pd(pd), 0);
	CALL(ibv_close_device(ctx), 0);
	free(buf);
	printf("ok\n");
	return 0;
}
