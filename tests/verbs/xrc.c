/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC between two programs of one machine that know nothing of uroce: they share a domain through a file. The parent
 * makes the target and sends to it; the child has the SRQ, and opens the target too, so that it outlives the parent's hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { BYTES = 65536, DEPTH = 16, PORT = 1, GID_INDEX = 1, WC_SECONDS = 20, SENT = 10000, PLACED_AT = 32768 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

#define MUST(cond) \
	do { \
		if (!(cond)) { \
			printf("%s, line %d: " #cond ": %s\n", who, __LINE__, strerror(errno)); \
			exit(1); \
		} \
	} while (0)
/* For calls that return an errno value. */
#define CALL(call, want) \
	do { \
		errno = call; \
		MUST(errno == (want)); \
	} while (0)
/* For calls that return NULL. */
#define FAILS(call, want) \
	do { \
		errno = 0; \
		MUST((call) == NULL && errno == (want)); \
	} while (0)

/* What the two tell each other. */
struct word {
	uint32_t srqn, qpn, rkey;
	uint64_t addr;
};

static const char *who;
static char path[] = "/tmp/uroce-verbs-xrc.XXXXXX";
static int sock[2], other;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t *buf;

static void
tell(struct word w)
{
	MUST(write(other, &w, sizeof(w)) == sizeof(w));
}

static struct word
hear(void)
{
	struct word w;

	MUST(read(other, &w, sizeof(w)) == sizeof(w));
	return w;
}

static void
begin(const char *name, int side)
{
	struct ibv_device **list;

	who = name;
	other = sock[side];
	close(sock[!side]);
	list = ibv_get_device_list(NULL);
	MUST(list != NULL && list[0] != NULL);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	MUST(ctx != NULL);
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0);
	buf = aligned_alloc(4096, BYTES);
	MUST(pd != NULL && cq != NULL && buf != NULL);
	memset(buf, 0, BYTES);
	mr = ibv_reg_mr(pd, buf, BYTES, ACCESS);
	MUST(mr != NULL);
}

static void
end(void)
{
	CALL(ibv_dereg_mr(mr), 0);
	CALL(ibv_destroy_cq(cq), 0);
	CALL(ibv_dealloc_pd(pd), 0);
	CALL(ibv_close_device(ctx), 0);
	free(buf);
}

static struct ibv_xrcd *
open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd,
					.oflags = oflags };

	return ibv_open_xrcd(ctx, &a);
}

static struct ibv_wc
expect(uint64_t wr_id, enum ibv_wc_status status)
{
	time_t end_at = time(NULL) + WC_SECONDS;
	struct ibv_wc wc = { 0 };
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0 && time(NULL) < end_at)
		;
	MUST(n == 1);
	if (wc.wr_id != wr_id || wc.status != status) {
		printf("%s: wr_id %lu, %s; expected wr_id %lu, %s\n", who, (unsigned long)wc.wr_id,
		       ibv_wc_status_str(wc.status), (unsigned long)wr_id, ibv_wc_status_str(status));
		exit(1);
	}
	return wc;
}

static void
connect_qp(struct ibv_qp *qp, uint32_t peer)
{
	bool target = qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .path_mtu = IBV_MTU_1024,
				 .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .timeout = 12, .retry_cnt = 2,
				 .rnr_retry = 7, .max_rd_atomic = 4, .dest_qp_num = peer,
				 .qp_access_flags = target ? ACCESS & ~IBV_ACCESS_LOCAL_WRITE : 0,
				 .ah_attr = { .is_global = 1, .port_num = PORT,
					      .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } } };

	CALL(ibv_query_gid(ctx, PORT, GID_INDEX, &a.ah_attr.grh.dgid), 0);
	CALL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	a.qp_state = IBV_QPS_RTR;
	CALL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   (target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)), 0);
	a.qp_state = IBV_QPS_RTS;
	CALL(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			   (target ? 0 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)), 0);
}

/* ---- The child: an SRQ ---- */
static struct ibv_srq *
make_srq(struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex a = { .attr = { .max_wr = DEPTH, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
					  .pd = pd, .xrcd = xrcd, .cq = cq };
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_srq *srq;
	uint32_t num;

	a.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD;
	FAILS(ibv_create_srq_ex(ctx, &a), EINVAL);
	/* An ordinary one has no number. */
	srq = ibv_create_srq(pd, &plain);
	MUST(srq != NULL);
	CALL(ibv_get_srq_num(srq, &num), EINVAL);
	CALL(ibv_destroy_srq(srq), 0);
	a.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	srq = ibv_create_srq_ex(ctx, &a);
	MUST(srq != NULL);
	return srq;
}

static void
post_receive(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)buf, PLACED_AT, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CALL(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static struct ibv_qp *
open_target(struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = qpn + 1, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_recv_wr rr = { 0 }, *bad_rr;
	struct ibv_send_wr wr = { 0 }, *bad;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	FAILS(ibv_open_qp(ctx, &a), EINVAL);
	a.qp_num = qpn;
	a.qp_type = IBV_QPT_RC;
	FAILS(ibv_open_qp(ctx, &a), EINVAL);
	a.qp_type = IBV_QPT_XRC_RECV;
	qp = ibv_open_qp(ctx, &a);
	MUST(qp != NULL && qp->qp_num == qpn);
	/* It has no queues; its state is its maker's. */
	CALL(ibv_post_send(qp, &wr, &bad), EINVAL);
	CALL(ibv_post_recv(qp, &rr, &bad_rr), EINVAL);
	CALL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	MUST(attr.qp_state == IBV_QPS_RTS && init.qp_type == IBV_QPT_XRC_RECV);
	return qp;
}

static bool
holds(uint32_t from, uint32_t len, uint8_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		if (buf[from + i] != (uint8_t)(seed + i * 5))
			return false;
	return true;
}

static void
child(void)
{
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct word w, mine = { 0 };
	struct ibv_wc wc;
	int fd;

	begin("child", 1);
	w = hear();
	fd = open(path, O_RDONLY);
	MUST(fd >= 0);
	FAILS(open_domain(fd, O_CREAT | O_EXCL), EINVAL);
	xrcd = open_domain(fd, 0);
	MUST(xrcd != NULL);
	close(fd);
	srq = make_srq(xrcd);
	CALL(ibv_get_srq_num(srq, &mine.srqn), 0);
	MUST(mine.srqn != 0 && mine.srqn <= 0xffffff);
	qp = open_target(xrcd, w.qpn);
	mine.rkey = mr->rkey;
	mine.addr = (uintptr_t)buf;
	post_receive(srq, 1);
	post_receive(srq, 2);
	tell(mine);

	wc = expect(1, IBV_WC_SUCCESS);
	MUST(wc.opcode == IBV_WC_RECV && wc.byte_len == SENT && wc.qp_num == qp->qp_num && holds(0, SENT, 1));
	wc = expect(2, IBV_WC_SUCCESS);
	MUST(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == 0x11223344 &&
	     holds(PLACED_AT, SENT, 2));
	/* The parent has let go of the target. */
	post_receive(srq, 3);
	tell(mine);
	expect(3, IBV_WC_SUCCESS);
	MUST(holds(0, SENT, 3));
	CALL(ibv_close_xrcd(xrcd), EBUSY);
	CALL(ibv_destroy_srq(srq), 0);
	CALL(ibv_destroy_qp(qp), 0);
	CALL(ibv_close_xrcd(xrcd), 0);
	tell(mine);
	end();
}

/* ---- The parent: initiator and target ---- */
static struct ibv_qp *
make_target(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *qp;

	FAILS(ibv_create_qp_ex(ctx, &a), EINVAL);
	a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	a.xrcd = xrcd;
	qp = ibv_create_qp_ex(ctx, &a);
	MUST(qp != NULL);
	return qp;
}

static struct ibv_qp *
make_initiator(void)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .pd = pd, .sq_sig_all = 1,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &a);

	MUST(qp != NULL && a.cap.max_recv_wr == 0);
	return qp;
}

static void
fill(uint32_t from, uint8_t seed)
{
	for (uint32_t i = 0; i < SENT; i++)
		buf[from + i] = (uint8_t)(seed + i * 5);
}

static void
post_send(struct ibv_qp *qp, uint32_t srqn, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)buf, SENT, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .qp_type.xrc.remote_srqn = srqn }, *bad;

	CALL(ibv_post_send(qp, &wr, &bad), 0);
}

static void
build_write_and_read(struct ibv_qp *qp, const struct word *to)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 11;
	ibv_wr_rdma_write_imm(ex, to->rkey, to->addr + PLACED_AT, 0x11223344);
	ibv_wr_set_xrc_srqn(ex, to->srqn);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buf, SENT);
	ex->wr_id = 12;
	ibv_wr_rdma_read(ex, to->rkey, to->addr + PLACED_AT);
	ibv_wr_set_xrc_srqn(ex, to->srqn);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)buf + PLACED_AT, SENT);
	CALL(ibv_wr_complete(ex), 0);
}

static void
parent(int fd)
{
	struct ibv_xrcd_init_attr none = { 0 };
	struct ibv_qp *initiator, *target;
	struct ibv_device_attr dev;
	struct ibv_xrcd *xrcd;
	struct word w = { 0 };

	begin("parent", 0);
	CALL(ibv_query_device(ctx, &dev), 0);
	MUST(dev.device_cap_flags & IBV_DEVICE_XRC);
	FAILS(ibv_open_xrcd(ctx, &none), EINVAL);
	FAILS(open_domain(12345, O_CREAT), EBADF);
	FAILS(open_domain(fd, 0), EAGAIN);
	xrcd = open_domain(fd, O_CREAT | O_EXCL);
	MUST(xrcd != NULL);
	target = make_target(xrcd);
	initiator = make_initiator();
	connect_qp(target, initiator->qp_num);
	connect_qp(initiator, target->qp_num);
	w.qpn = target->qp_num;
	tell(w);
	w = hear();

	fill(0, 1);
	post_send(initiator, w.srqn, 10);
	expect(10, IBV_WC_SUCCESS);
	fill(0, 2);
	build_write_and_read(initiator, &w);
	expect(11, IBV_WC_SUCCESS);
	MUST(expect(12, IBV_WC_SUCCESS).byte_len == SENT && holds(PLACED_AT, SENT, 2));

	CALL(ibv_close_xrcd(xrcd), EBUSY);
	CALL(ibv_destroy_qp(target), 0);
	CALL(ibv_close_xrcd(xrcd), 0);
	hear();
	fill(0, 3);
	post_send(initiator, w.srqn, 13);
	expect(13, IBV_WC_SUCCESS);
	/* Nobody has the target any more. */
	hear();
	post_send(initiator, w.srqn, 14);
	expect(14, IBV_WC_RETRY_EXC_ERR);
	CALL(ibv_destroy_qp(initiator), 0);
	end();
}

int
main(void)
{
	int fd = mkstemp(path), status;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	who = "both";
	MUST(fd >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock) == 0);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		close(fd);
		child();
		return 0;
	}
	parent(fd);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	unlink(path);
	printf("ok\n");
	return 0;
}
