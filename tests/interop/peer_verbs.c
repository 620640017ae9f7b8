/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum {
	MIN_RNR_TIMER = 12, /* 0.64 ms */
	HOP_LIMIT = 64,
	QKEY = 0x18181818,
	POLL_PAUSE_MS = 1,
	MULTICAST_QPN = 0xffffff,
};

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- The device ---- */
static int
find_gid(struct ibv_context *ctx, const union ibv_gid *want)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry e;

	if (ibv_query_port(ctx, PORT, &port) != 0)
		return -1;
	/* Soft-RoCE has each address twice: as a GID of RoCE v1 as well, which it can't use. */
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (ibv_query_gid_ex(ctx, PORT, (uint32_t)i, &e, 0) == 0 && e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    memcmp(&e.gid, want, sizeof(*want)) == 0)
			return i;
	return -1;
}

static void
need(const void *p, const char *what)
{
	if (p != NULL)
		return;
	fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

void
device_open(struct side *s, const char *name, const char *ipv4, const char *ipv6)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	union ibv_gid gid[2] = { { .raw = { [10] = 0xff, [11] = 0xff } } };
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list, "ibv_get_device_list");
	for (int i = 0; list[i] != NULL && s->ctx == NULL; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			s->ctx = ibv_open_device(list[i]);
	need(s->ctx, name);
	ibv_free_device_list(list);
	inet_pton(AF_INET, ipv4, gid[0].raw + 12);
	inet_pton(AF_INET6, ipv6, gid[1].raw);
	for (int i = 0; i < 2; i++) {
		s->gid_index[i] = find_gid(s->ctx, &gid[i]);
		need(s->gid_index[i] < 0 ? NULL : s, i == 0 ? ipv4 : ipv6);
	}
	s->pd = ibv_alloc_pd(s->ctx);
	need(s->pd, "ibv_alloc_pd");
	s->out = mmap(NULL, 2 * AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(s->out == MAP_FAILED ? NULL : s->out, "mmap");
	s->in = s->out + AREA_BYTES;
	s->mr = ibv_reg_mr(s->pd, s->out, 2 * AREA_BYTES, access);
	need(s->mr, "ibv_reg_mr");
}

/* ---- The objects of a cell ---- */
static bool
failed(struct side *s, const char *what)
{
	problem(s, "%s: %s", what, strerror(errno));
	return false;
}

static bool
qp_create(struct side *s)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = s->cell.kind->type,
		.send_cq = s->scq,
		.recv_cq = s->rcq,
		.srq = s->srq,
		.sq_sig_all = 0,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	s->qp = ibv_create_qp(s->pd, &attr);
	if (s->qp == NULL)
		return failed(s, "ibv_create_qp");
	if (attr.qp_type == IBV_QPT_UD) {
		init.qkey = QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (attr.qp_type == IBV_QPT_RC)
			init.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	errno = ibv_modify_qp(s->qp, &init, mask);
	return errno == 0 || failed(s, "INIT");
}

bool
cell_objects(struct side *s)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	const struct kind *k = s->cell.kind;

	s->channel = ibv_create_comp_channel(s->ctx);
	if (s->channel == NULL)
		return failed(s, "ibv_create_comp_channel");
	s->scq = ibv_create_cq(s->ctx, 2 * DEPTH, NULL, s->channel, 0);
	s->rcq = ibv_create_cq(s->ctx, 2 * DEPTH, NULL, s->channel, 0);
	if (s->scq == NULL || s->rcq == NULL)
		return failed(s, "ibv_create_cq");
	if (k->srq) {
		s->srq = ibv_create_srq(s->pd, &srq);
		if (s->srq == NULL)
			return failed(s, "ibv_create_srq");
	}
	if (!qp_create(s))
		return false;
	if (k->window) {
		s->window = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
		if (s->window == NULL)
			return failed(s, "ibv_alloc_mw");
	}
	s->mine.qpn = s->qp->qp_num;
	s->mine.rkey = s->mr->rkey;
	s->mine.addr = (uintptr_t)s->in;
	if (ibv_query_gid(s->ctx, PORT, s->gid_index[s->cell.family == 6], (union ibv_gid *)s->mine.gid) != 0)
		return failed(s, "ibv_query_gid");
	return true;
}

/* 239.18.0.1 or ff3e::18 */
static union ibv_gid
group(const struct side *s)
{
	return s->cell.family == 6 ? (union ibv_gid){ .raw = { 0xff, 0x3e, [15] = 0x18 } } :
				     (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 239, 18, 0, 1 } };
}

/*
 * Attach the QP. The kernel joins as well, as rdma_cm has it do: Soft-RoCE gets its packets from the kernel's UDP,
 * behind an IP that drops what is for groups it isn't in, and an interface that does so too.
 */
static bool
join_group(struct side *s)
{
	union ibv_gid gid = group(s);
	struct ip_mreqn v4 = { .imr_multiaddr.s_addr = htonl(0xef120001) };
	struct ipv6_mreq v6 = { .ipv6mr_interface = 0 };
	int rc;

	if (ibv_attach_mcast(s->qp, &gid, 0) != 0)
		return failed(s, "ibv_attach_mcast");
	memcpy(&v4.imr_address, s->mine.gid + 12, sizeof(v4.imr_address));
	memcpy(&v6.ipv6mr_multiaddr, gid.raw, sizeof(v6.ipv6mr_multiaddr));
	s->group_sock = socket(s->cell.family == 6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
	if (s->cell.family == 6)
		rc = setsockopt(s->group_sock, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &v6, sizeof(v6));
	else
		rc = setsockopt(s->group_sock, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4));
	return rc == 0 || failed(s, "joining the group");
}

static void
leave_group(struct side *s)
{
	union ibv_gid gid = group(s);

	if (ibv_detach_mcast(s->qp, &gid, 0) != 0)
		problem(s, "ibv_detach_mcast: %s", strerror(errno));
	if (s->group_sock >= 0)
		close(s->group_sock);
	s->group_sock = -1;
}

static struct ibv_ah_attr
way(struct side *s)
{
	struct ibv_ah_attr ah = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .sgid_index = (uint8_t)s->gid_index[s->cell.family == 6], .hop_limit = HOP_LIMIT,
			 .traffic_class = (uint8_t)s->cell.traffic_class, .flow_label = s->cell.flow_label },
	};

	if (s->cell.kind->multicast)
		ah.grh.dgid = group(s);
	else
		memcpy(ah.grh.dgid.raw, s->theirs.gid, sizeof(ah.grh.dgid.raw));
	return ah;
}

static bool
connect_ud(struct side *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct ibv_ah_attr ah = way(s);

	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE);
	if (errno != 0)
		return failed(s, "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = s->cell.psn };
	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	if (errno != 0)
		return failed(s, "RTS");
	if (s->cell.kind->multicast && !s->requester && !join_group(s))
		return false;
	s->ah = ibv_create_ah(s->pd, &ah);
	return s->ah != NULL || failed(s, "ibv_create_ah");
}

bool
cell_connect(struct side *s)
{
	const struct cell *c = &s->cell;
	bool rc = c->kind->type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = way(s),
		.path_mtu = c->mtu,
		.dest_qp_num = s->theirs.qpn,
		.rq_psn = c->psn,
		.max_dest_rd_atomic = RD_ATOMIC,
		.min_rnr_timer = MIN_RNR_TIMER,
	};

	if (c->kind->type == IBV_QPT_UD)
		return connect_ud(s);
	if (c->kind->deaf && !s->requester)
		return true;
	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	if (errno != 0)
		return failed(s, "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = c->psn,
		.timeout = (uint8_t)c->timeout,
		.retry_cnt = (uint8_t)c->retry,
		.rnr_retry = (uint8_t)c->rnr_retry,
		.max_rd_atomic = RD_ATOMIC,
	};
	errno = ibv_modify_qp(s->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
	return errno == 0 || failed(s, "RTS");
}

#define DESTROY(s, object, destroy) \
	do { \
		if ((s)->object != NULL && destroy((s)->object) != 0) \
			problem(s, #destroy ": %s", strerror(errno)); \
		(s)->object = NULL; \
	} while (0)

void
cell_destroy(struct side *s)
{
	if (s->cell.kind->multicast && !s->requester && s->ah != NULL)
		leave_group(s);
	DESTROY(s, window, ibv_dealloc_mw);
	DESTROY(s, ah, ibv_destroy_ah);
	DESTROY(s, qp, ibv_destroy_qp);
	DESTROY(s, srq, ibv_destroy_srq);
	DESTROY(s, scq, ibv_destroy_cq);
	DESTROY(s, rcq, ibv_destroy_cq);
	DESTROY(s, channel, ibv_destroy_comp_channel);
}

/* ---- Data ---- */
void
pattern(uint8_t *p, uint32_t len, uint32_t i)
{
	for (uint32_t k = 0; k < len; k++)
		p[k] = (uint8_t)(k * 7 + (k >> 8) * 13 + (k >> 16) * 31 + i * 101 + 1);
}

static uint32_t
stride(const struct side *s)
{
	return (s->cell.size + GRH_BYTES + GUARD_BYTES + 63) & ~63u;
}

uint8_t *
out_message(struct side *s, uint32_t i)
{
	return s->out + i * stride(s);
}

uint8_t *
in_message(struct side *s, uint32_t i)
{
	return s->in + i * stride(s);
}

/* @return the first byte that is wrong, -1 if none */
static int64_t
wrong_byte(const uint8_t *p, uint32_t len, uint32_t i)
{
	static uint8_t want[AREA_BYTES];

	pattern(want, len, i);
	memset(want + len, GUARD_BYTE, GUARD_BYTES);
	if (memcmp(p, want, len + GUARD_BYTES) == 0)
		return -1;
	for (uint32_t k = 0; k < len + GUARD_BYTES; k++)
		if (p[k] != want[k])
			return k;
	return -1;
}

void
expect_message(struct side *s, const uint8_t *p, uint32_t len, uint32_t i)
{
	int64_t at = wrong_byte(p, len, i);

	CHECK(s, at < 0, "message %u: byte %ld of %u is wrong", i, (long)at, len);
}

void
await_message(struct side *s, const uint8_t *p, uint32_t len, uint32_t i)
{
	int64_t end = now_ms() + UNSENT_MS;

	while (wrong_byte(p, len, i) >= 0 && now_ms() < end)
		usleep(POLL_PAUSE_MS * 1000);
	expect_message(s, p, len, i);
}

void
expect_untouched(struct side *s)
{
	for (uint32_t k = 0; k < AREA_BYTES; k++)
		if (s->in[k] != GUARD_BYTE) {
			problem(s, "byte %u of the memory was written", k);
			return;
		}
}

/* ---- Work requests and completions ---- */
void
post_recv(struct side *s, uint32_t i, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)in_message(s, i), .length = len, .lkey = s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECV_ID + i, .sg_list = &sge, .num_sge = 1 }, *bad;
	int rc = s->srq != NULL ? ibv_post_srq_recv(s->srq, &wr, &bad) : ibv_post_recv(s->qp, &wr, &bad);

	CHECK(s, rc == 0, "post receive: %s", strerror(rc));
}

struct ibv_send_wr
message_wr(struct side *s, struct ibv_sge *sge, uint32_t i)
{
	const struct kind *k = s->cell.kind;
	enum ibv_wr_opcode opcode = k->opcode;
	struct ibv_send_wr wr = { .wr_id = i, .sg_list = sge, .num_sge = 1, .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED | (k->solicited ? IBV_SEND_SOLICITED : 0) };
	uint8_t *buf = opcode == IBV_WR_RDMA_READ ? in_message(s, i) : out_message(s, i);

	*sge = (struct ibv_sge){ .addr = (uintptr_t)buf, .length = s->cell.size, .lkey = s->mr->lkey };
	if (opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = s->theirs.window_rkey;
	else if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.imm_data = htonl(0xabcd0000 + i);
	if (k->type == IBV_QPT_UD) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = k->multicast ? MULTICAST_QPN : s->theirs.qpn;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = s->theirs.addr ^ k->addr_xor;
		wr.wr.atomic.rkey = s->theirs.rkey ^ k->rkey_xor;
		wr.wr.atomic.compare_add = ADDED;
		sge->addr = (uintptr_t)(s->in + 64 + 8 * i);
		sge->length = 8;
	} else {
		/* A READ fetches what its peer would send; a WRITE puts it where its peer would receive it. */
		uint64_t to = s->theirs.addr + (uint64_t)i * stride(s) - (opcode == IBV_WR_RDMA_READ ? AREA_BYTES : 0);

		wr.wr.rdma.remote_addr = to ^ k->addr_xor;
		wr.wr.rdma.rkey = (k->window ? s->theirs.window_rkey : s->theirs.rkey) ^ k->rkey_xor;
	}
	return wr;
}

void
post_send(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(s->qp, wr, &bad);

	CHECK(s, rc == 0, "post send: %s", strerror(rc));
}

/* Sleep until a CQ has something to say: a guest's only processor is needed for its packets. */
static void
await_event(struct side *s, struct ibv_cq *cq, int wait_ms)
{
	struct pollfd fd = { .fd = s->channel->fd, .events = POLLIN };
	struct ibv_cq *which;
	void *context;

	(void)cq;
	if (poll(&fd, 1, wait_ms) != 1)
		return;
	if (ibv_get_cq_event(s->channel, &which, &context) != 0)
		problem(s, "ibv_get_cq_event: %s", strerror(errno));
	else
		ibv_ack_cq_events(which, 1);
}

bool
next_wc(struct side *s, struct ibv_cq *cq, struct ibv_wc *wc, int wait_ms)
{
	int64_t end = now_ms() + wait_ms;

	for (;;) {
		int n = ibv_poll_cq(cq, 1, wc);
		int64_t left = end - now_ms();

		if (n != 0)
			return n == 1;
		if (left <= 0)
			return false;
		if (ibv_req_notify_cq(cq, s->cell.kind->solicited && cq == s->rcq) != 0)
			problem(s, "ibv_req_notify_cq: %s", strerror(errno));
		n = ibv_poll_cq(cq, 1, wc);
		if (n != 0)
			return n == 1;
		await_event(s, cq, (int)left);
	}
}

void
expect_send(struct side *s, uint64_t wr_id, enum ibv_wc_status status, int opcode)
{
	struct ibv_wc wc;

	if (!next_wc(s, s->scq, &wc, WAIT_MS)) {
		problem(s, "send %lu does not complete", (unsigned long)wr_id);
		return;
	}
	CHECK(s, wc.status == status, "send %lu: %s, not %s", (unsigned long)wr_id, ibv_wc_status_str(wc.status),
	      ibv_wc_status_str(status));
	CHECK(s, wc.wr_id == wr_id, "send %lu completes instead of %lu", (unsigned long)wc.wr_id, (unsigned long)wr_id);
	CHECK(s, wc.qp_num == s->qp->qp_num, "a completion of QP %u", wc.qp_num);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK(s, (int)wc.opcode == opcode, "send %lu completes with opcode %d", (unsigned long)wr_id, wc.opcode);
}

void
expect_state(struct side *s, enum ibv_qp_state state)
{
	int64_t end = now_ms() + WAIT_MS;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	do {
		if (ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init) != 0) {
			problem(s, "ibv_query_qp: %s", strerror(errno));
			return;
		}
		if (attr.qp_state == state)
			return;
		usleep(POLL_PAUSE_MS * 1000);
	} while (now_ms() < end);
	problem(s, "the QP is in state %d, not %d", attr.qp_state, state);
}

void
bind_window(struct side *s)
{
	struct ibv_send_wr wr = {
		.wr_id = RECV_ID - 1,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = s->window, .rkey = ibv_inc_rkey(s->window->rkey),
			     .bind_info = { .mr = s->mr, .addr = (uintptr_t)s->in, .length = AREA_BYTES,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};

	post_send(s, &wr);
	expect_send(s, wr.wr_id, IBV_WC_SUCCESS, IBV_WC_BIND_MW);
	s->mine.window_rkey = wr.bind_mw.rkey;
}
