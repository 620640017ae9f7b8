/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests that are wrong, posted through Debian's libibverbs headers as any program would: what ibv_post_send()
 * says at once, what completes in error, in which state both QPs are then.
 *
 * Each case gets a fresh pair of RC QPs of one device, connected to each other.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum {
	BUFFER_BYTES = 65536,
	DEPTH = 16,
	SGES = 2,
	INLINE_BYTES = 64,
	PORT = 1,
	GID_INDEX = 1,
	WC_SECONDS = 20,
	FIRST_PSN = 100,
};

static const char *case_name;
static bool failed;

#define CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			printf("%s: line %d: " #cond ": ", case_name, __LINE__); \
			printf(__VA_ARGS__); \
			printf("\n"); \
			failed = true; \
		} \
	} while (0)

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;     /* all remote access */
	struct ibv_mr *ro;     /* local use only, same memory */
	uint8_t *buf;
	struct side a, b;
};

static void
die(const char *what)
{
	printf("%s: %s: %s\n", case_name, what, strerror(errno));
	exit(1);
}

static void
side_create(struct pair *p, struct side *s)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = SGES, .max_recv_sge = SGES,
			 .max_inline_data = INLINE_BYTES },
	};

	s->cq = ibv_create_cq(p->ctx, 4 * DEPTH, NULL, NULL, 0);
	if (s->cq == NULL)
		die("ibv_create_cq");
	attr.send_cq = attr.recv_cq = s->cq;
	s->qp = ibv_create_qp(p->pd, &attr);
	if (s->qp == NULL)
		die("ibv_create_qp");
}

static void
side_init(struct side *s)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};

	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (errno != 0)
		die("INIT");
}

static void
side_connect(struct pair *p, struct side *s, uint32_t peer_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = PORT, .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } },
	};

	if (ibv_query_gid(p->ctx, PORT, GID_INDEX, &attr.ah_attr.grh.dgid) != 0)
		die("ibv_query_gid");
	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (errno != 0)
		die("RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = FIRST_PSN,
		.timeout = 12,
		.retry_cnt = 2,
		.rnr_retry = 1,
		.max_rd_atomic = 4,
	};
	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_MAX_QP_RD_ATOMIC);
	if (errno != 0)
		die("RTS");
}

static void
side_destroy(struct side *s)
{
	CHECK((errno = ibv_destroy_qp(s->qp)) == 0, "%s", strerror(errno));
	CHECK((errno = ibv_destroy_cq(s->cq)) == 0, "%s", strerror(errno));
}

static struct ibv_send_wr
write_wr(struct pair *p, struct ibv_sge *sge, uint64_t wr_id)
{
	*sge = (struct ibv_sge){ .addr = (uintptr_t)p->buf, .length = 1000, .lkey = p->mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = wr_id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)p->buf + BUFFER_BYTES / 2, .rkey = p->mr->rkey },
	};
}

static void
post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(s->qp, wr, &bad);

	CHECK(rc == 0, "%s", strerror(rc));
}

static void
post_recv(struct pair *p, struct side *s, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)p->buf, .length = length, .lkey = p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 77, .sg_list = &sge, .num_sge = 1 }, *bad;
	int rc = ibv_post_recv(s->qp, &wr, &bad);

	CHECK(rc == 0, "%s", strerror(rc));
}

/* The next completion of @s must have this status. */
static void
expect(struct side *s, uint64_t wr_id, enum ibv_wc_status status)
{
	time_t end = time(NULL) + WC_SECONDS;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0 && time(NULL) < end)
		;
	CHECK(n == 1, "no completion for wr_id %lu", (unsigned long)wr_id);
	if (n != 1)
		return;
	CHECK(wc.status == status, "%s, not %s", ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	CHECK(wc.wr_id == wr_id, "wr_id %lu, not %lu", (unsigned long)wc.wr_id, (unsigned long)wr_id);
	CHECK(wc.qp_num == s->qp->qp_num, "of QP 0x%x", wc.qp_num);
}

static void
expect_state(struct side *s, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	time_t end = time(NULL) + WC_SECONDS;
	struct ibv_qp_attr attr;

	do {
		if (ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init) != 0)
			die("ibv_query_qp");
	} while (attr.qp_state != state && time(NULL) < end);
	CHECK(attr.qp_state == state, "QP state %d, not %d", attr.qp_state, state);
}

/* A WR that is wrong locally or at the responder: its status at the requester, everything behind it is flushed. */
static void
fails_with(struct side *s, struct ibv_send_wr *wr, enum ibv_wc_status status)
{
	struct ibv_send_wr behind = *wr;

	behind.wr_id = wr->wr_id + 1;
	wr->next = &behind;
	post(s, wr);
	expect(s, wr->wr_id, status);
	expect(s, behind.wr_id, IBV_WC_WR_FLUSH_ERR);
	expect_state(s, IBV_QPS_ERR);
}

static void
a_good_write_completes(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 5);

	memset(p->buf, 0xa5, 1000);
	post(&p->a, &wr);
	expect(&p->a, 5, IBV_WC_SUCCESS);
	CHECK(memcmp(p->buf, p->buf + BUFFER_BYTES / 2, 1000) == 0, "other bytes");
}

static void
too_many_sges_are_refused(struct pair *p)
{
	struct ibv_sge sge[SGES + 100];
	struct ibv_send_wr wr = write_wr(p, &sge[0], 1), *bad = NULL;
	unsigned int i;
	int rc;

	for (i = 1; i < SGES + 100; i++)
		sge[i] = sge[0];
	wr.num_sge = SGES + 100;
	rc = ibv_post_send(p->a.qp, &wr, &bad);
	CHECK(rc == EINVAL || rc == ENOMEM, "%s", strerror(rc));
	CHECK(bad == &wr, "bad_wr");
	wr.num_sge = 1;
	post(&p->a, &wr);
	expect(&p->a, 1, IBV_WC_SUCCESS);
}

static void
an_unknown_opcode_is_refused_and_those_before_it_are_posted(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr good = write_wr(p, &sge, 1), wrong = write_wr(p, &sge, 2), *bad = NULL;
	int rc;

	wrong.opcode = 99;
	good.next = &wrong;
	rc = ibv_post_send(p->a.qp, &good, &bad);
	CHECK(rc == EINVAL || rc == EOPNOTSUPP, "%s", strerror(rc));
	CHECK(bad == &wrong, "bad_wr");
	expect(&p->a, 1, IBV_WC_SUCCESS);
}

static void
a_full_send_queue_is_refused(struct pair *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_send_wr wr, *bad = NULL;
	struct ibv_qp_attr attr;
	struct ibv_sge sge;
	unsigned int posted = 0;
	int rc = 0;

	if (ibv_query_qp(p->a.qp, &attr, IBV_QP_CAP, &init) != 0)
		die("ibv_query_qp");
	/* Nobody receives: SENDs stay in the queue until the receiver-not-ready retries are used up. */
	while (rc == 0 && posted <= attr.cap.max_send_wr) {
		wr = write_wr(p, &sge, posted);
		wr.opcode = IBV_WR_SEND;
		rc = ibv_post_send(p->a.qp, &wr, &bad);
		posted += rc == 0;
	}
	CHECK(rc == ENOMEM, "%s", strerror(rc));
	CHECK(bad == &wr, "bad_wr");
	CHECK(posted == attr.cap.max_send_wr, "%u posted", posted);
}

static void
too_much_inline_data_is_refused(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1), *bad = NULL;
	int rc;

	sge.length = 60000;
	wr.send_flags |= IBV_SEND_INLINE;
	rc = ibv_post_send(p->a.qp, &wr, &bad);
	CHECK(rc == EINVAL || rc == ENOMEM, "%s", strerror(rc));
	CHECK(bad == &wr, "bad_wr");
}

static void
a_bad_lkey_is_a_local_protection_error(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	sge.lkey ^= 0x55aa00;
	fails_with(&p->a, &wr, IBV_WC_LOC_PROT_ERR);
}

static void
bytes_behind_the_region_are_a_local_protection_error(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	sge.addr = (uintptr_t)p->buf + BUFFER_BYTES - 999;
	fails_with(&p->a, &wr, IBV_WC_LOC_PROT_ERR);
}

static void
a_bad_rkey_is_a_remote_access_error_on_both_sides(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	post_recv(p, &p->b, 100);
	wr.wr.rdma.rkey ^= 0x55aa00;
	fails_with(&p->a, &wr, IBV_WC_REM_ACCESS_ERR);
	expect_state(&p->b, IBV_QPS_ERR);
	expect(&p->b, 77, IBV_WC_WR_FLUSH_ERR);
}

static void
a_write_behind_the_region_is_a_remote_access_error(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	wr.wr.rdma.remote_addr = (uintptr_t)p->buf + BUFFER_BYTES - 999;
	fails_with(&p->a, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void
an_address_that_wraps_is_a_remote_access_error(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	wr.wr.rdma.remote_addr = UINT64_MAX - 10;
	fails_with(&p->a, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void
a_region_without_remote_write_refuses_it(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	wr.wr.rdma.rkey = p->ro->rkey;
	fails_with(&p->a, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void
a_read_into_memory_without_local_write_is_refused(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	wr.opcode = IBV_WR_RDMA_READ;
	sge.lkey = p->ro->lkey;
	fails_with(&p->a, &wr, IBV_WC_LOC_PROT_ERR);
}

static void
a_key_is_stale_after_deregistration(struct pair *p)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, p->buf, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	if (mr == NULL)
		die("ibv_reg_mr");
	wr = write_wr(p, &sge, 1);
	wr.wr.rdma.rkey = mr->rkey;
	post(&p->a, &wr);
	expect(&p->a, 1, IBV_WC_SUCCESS);
	CHECK((errno = ibv_dereg_mr(mr)) == 0, "%s", strerror(errno));
	fails_with(&p->a, &wr, IBV_WC_REM_ACCESS_ERR);
}

static void
a_send_longer_than_the_receive_is_an_error_on_both_sides(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	post_recv(p, &p->b, 999);
	wr.opcode = IBV_WR_SEND;
	fails_with(&p->a, &wr, IBV_WC_REM_INV_REQ_ERR);
	expect(&p->b, 77, IBV_WC_LOC_LEN_ERR);
	expect_state(&p->b, IBV_QPS_ERR);
}

static void
a_misaligned_atomic_is_an_invalid_request(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	sge.length = 8;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)p->buf + 4;
	wr.wr.atomic.rkey = p->mr->rkey;
	wr.wr.atomic.compare_add = 1;
	wr.wr.atomic.swap = 0;
	fails_with(&p->a, &wr, IBV_WC_REM_INV_REQ_ERR);
}

static void
nobody_receiving_ends_in_rnr_retries_exceeded(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	wr.opcode = IBV_WR_SEND;
	fails_with(&p->a, &wr, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void
a_peer_that_is_gone_ends_in_retries_exceeded(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1);

	side_destroy(&p->b);
	fails_with(&p->a, &wr, IBV_WC_RETRY_EXC_ERR);
	side_create(p, &p->b);
}

static void
a_qp_that_is_not_connected_refuses_sends(struct pair *p)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_wr(p, &sge, 1), *bad = NULL;
	struct side s;

	side_create(p, &s);
	CHECK(ibv_post_send(s.qp, &wr, &bad) == EINVAL, "RESET");
	CHECK(bad == &wr, "bad_wr");
	side_init(&s);
	CHECK(ibv_post_send(s.qp, &wr, &bad) == EINVAL, "INIT");
	side_destroy(&s);
}

static void
memory_that_is_not_there_is_refused(struct pair *p)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(p->pd, (void *)(uintptr_t)0x1000, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr == NULL, "registered");
	CHECK(errno == EFAULT || errno == ENOMEM || errno == EINVAL, "%s", strerror(errno));
	mr = ibv_reg_mr(p->pd, p->buf, 4096, IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr == NULL && errno == EINVAL, "remote write without local write");
}

#define CASES(X) \
	X(a_good_write_completes) X(too_many_sges_are_refused) X(an_unknown_opcode_is_refused_and_those_before_it_are_posted) \
	X(a_full_send_queue_is_refused) X(too_much_inline_data_is_refused) X(a_bad_lkey_is_a_local_protection_error) \
	X(bytes_behind_the_region_are_a_local_protection_error) X(a_bad_rkey_is_a_remote_access_error_on_both_sides) \
	X(a_write_behind_the_region_is_a_remote_access_error) X(an_address_that_wraps_is_a_remote_access_error) \
	X(a_region_without_remote_write_refuses_it) X(a_read_into_memory_without_local_write_is_refused) \
	X(a_key_is_stale_after_deregistration) X(a_send_longer_than_the_receive_is_an_error_on_both_sides) \
	X(a_misaligned_atomic_is_an_invalid_request) X(nobody_receiving_ends_in_rnr_retries_exceeded) \
	X(a_peer_that_is_gone_ends_in_retries_exceeded) X(a_qp_that_is_not_connected_refuses_sends) \
	X(memory_that_is_not_there_is_refused)

static const struct {
	const char *name;
	void (*run)(struct pair *p);
} cases[] = {
#define X(name) { #name, name },
	CASES(X)
#undef X
};

static void
run_case(struct pair *p, unsigned int i)
{
	case_name = cases[i].name;
	failed = false;
	side_create(p, &p->a);
	side_create(p, &p->b);
	side_init(&p->a);
	side_init(&p->b);
	side_connect(p, &p->a, p->b.qp->qp_num);
	side_connect(p, &p->b, p->a.qp->qp_num);
	cases[i].run(p);
	side_destroy(&p->a);
	side_destroy(&p->b);
	printf("%s %s\n", failed ? "FAILED" : "ok", case_name);
}

int
main(int argc, char **argv)
{
	unsigned int i, nb_failed = 0;
	struct ibv_device **list;
	struct pair p = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	case_name = "set-up";
	list = ibv_get_device_list(NULL);
	if (list == NULL || list[0] == NULL)
		die("no verbs device");
	p.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (p.ctx == NULL)
		die("ibv_open_device");
	p.pd = ibv_alloc_pd(p.ctx);
	p.buf = aligned_alloc(4096, BUFFER_BYTES);
	if (p.pd == NULL || p.buf == NULL)
		die("ibv_alloc_pd");
	memset(p.buf, 0, BUFFER_BYTES);
	p.mr = ibv_reg_mr(p.pd, p.buf, BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			  IBV_ACCESS_REMOTE_ATOMIC);
	p.ro = ibv_reg_mr(p.pd, p.buf, BUFFER_BYTES, 0);
	if (p.mr == NULL || p.ro == NULL)
		die("ibv_reg_mr");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
			continue;
		run_case(&p, i);
		nb_failed += failed;
	}
	CHECK(ibv_dereg_mr(p.ro) == 0 && ibv_dereg_mr(p.mr) == 0, "ibv_dereg_mr");
	CHECK(ibv_dealloc_pd(p.pd) == 0 && ibv_close_device(p.ctx) == 0, "closing");
	free(p.buf);
	printf("%u failed\n", nb_failed);
	return nb_failed > 0 || failed;
}
