/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UD multicast, as a program uses it that knows nothing of uroce.
 *
 *     mcast recv GID-INDEX GROUP    three QPs, of which the first two are attached to GROUP. Says "ready", waits for MESSAGES
 *                                   messages on each of the two, detaches the first, says "detached" and waits for as many on
 *                                   the second.
 *     mcast send GID-INDEX GROUP    sends MESSAGES messages to GROUP by a QP that is attached itself: gets its own.
 *
 * GROUP is an IPv4 or IPv6 multicast address. Datagrams may get lost, so the receiver gives up after SECONDS.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { PORT = 1, QPS = 3, MESSAGES = 50, BYTES = 700, GRH = 40, ROOM = 1024, SECONDS = 30, PAUSE_US = 2000 };
enum { QKEY = 0x22222222, MULTICAST_QPN = 0xffffff };

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
static struct ibv_cq *cq[QPS];
static struct ibv_qp *qp[QPS];
static struct ibv_mr *mr;
static uint8_t *buf; /* MESSAGES * ROOM for each QP, then what is sent */
static union ibv_gid group;
static bool v4;

static uint8_t *
room(int q, int message)
{
	return buf + ((size_t)q * MESSAGES + message) * ROOM;
}

static void
post_recv(int q, int message)
{
	struct ibv_sge sge = { .addr = (uintptr_t)room(q, message), .length = ROOM, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = message, .sg_list = &sge, .num_sge = 1 }, *bad;

	CALL(ibv_post_recv(qp[q], &wr, &bad), 0);
}

static void
to_rts(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };

	CALL(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	a.qp_state = IBV_QPS_RTR;
	CALL(ibv_modify_qp(q, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	CALL(ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void
open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	const size_t bytes = ((size_t)QPS * MESSAGES + 1) * ROOM;

	MUST(list != NULL && list[0] != NULL);
	ctx = ibv_open_device(list[0]);
	MUST(ctx != NULL);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	buf = calloc(1, bytes);
	MUST(pd != NULL && buf != NULL);
	mr = ibv_reg_mr(pd, buf, bytes, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr != NULL);
	for (int q = 0; q < QPS; q++) {
		struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { MESSAGES, MESSAGES, 1, 1, 0 } };

		cq[q] = ibv_create_cq(ctx, 2 * MESSAGES, NULL, NULL, 0);
		MUST(cq[q] != NULL);
		init.send_cq = init.recv_cq = cq[q];
		qp[q] = ibv_create_qp(pd, &init);
		MUST(qp[q] != NULL);
		to_rts(qp[q]);
		for (int i = 0; i < MESSAGES; i++)
			post_recv(q, i);
	}
}

/* What must be refused, and what the device says of itself. */
static void
check_rules(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_device_attr dev;
	union ibv_gid host;
	struct ibv_qp *rc;

	CALL(ibv_query_device(ctx, &dev), 0);
	MUST(dev.max_mcast_grp > 0 && dev.max_mcast_qp_attach > 0 && dev.max_total_mcast_qp_attach > 0);
	init.send_cq = init.recv_cq = cq[0];
	rc = ibv_create_qp(pd, &init);
	MUST(rc != NULL);
	CALL(ibv_attach_mcast(rc, &group, 0), EINVAL);
	CALL(ibv_destroy_qp(rc), 0);
	CALL(ibv_query_gid(ctx, PORT, 0, &host), 0);
	CALL(ibv_attach_mcast(qp[0], &host, 0), EINVAL);
	CALL(ibv_detach_mcast(qp[0], &group, 0), EINVAL);
	CALL(ibv_attach_mcast(qp[0], &group, 0), 0);
	CALL(ibv_attach_mcast(qp[0], &group, 0), 0);
	CALL(ibv_destroy_qp(qp[0]), EBUSY);
	CALL(ibv_detach_mcast(qp[0], &group, 0), 0);
	CALL(ibv_detach_mcast(qp[0], &group, 0), EINVAL);
}

static uint8_t
pattern(int message, int i)
{
	return (uint8_t)(message * 7 + i * 3);
}

/* The IPv6 header, or behind 20 bytes of nothing the IPv4 header, to the group, with a good checksum. */
static void
check_grh(const uint8_t *grh)
{
	uint32_t sum = 0;

	if (!v4) {
		MUST(grh[0] >> 4 == 6 && memcmp(grh + 24, group.raw, 16) == 0);
		return;
	}
	for (int i = 20; i < 40; i += 2)
		sum += (uint32_t)grh[i] << 8 | grh[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	MUST(grh[20] == 0x45 && (sum & 0xffff) + (sum >> 16) == 0xffff);
	MUST(memcmp(grh + 36, group.raw + 12, 4) == 0);
}

static void
check_message(int q, const struct ibv_wc *wc)
{
	const uint8_t *in = room(q, (int)wc->wr_id) + GRH;

	MUST(wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV);
	MUST(wc->byte_len == GRH + BYTES && (wc->wc_flags & IBV_WC_GRH));
	check_grh(room(q, (int)wc->wr_id));
	for (int i = 1; i < BYTES; i++)
		MUST(in[i] == pattern(in[0], i));
}

/* @return the QP's next completion. */
static struct ibv_wc
next_wc(int q, time_t end)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq[q], 1, &wc)) == 0) {
		if (time(NULL) > end) {
			printf("QP %d: nothing came\n", q);
			exit(1);
		}
		usleep(100);
	}
	MUST(n == 1);
	return wc;
}

/* MESSAGES messages, in order and each once. */
static void
take_messages(int q)
{
	time_t end = time(NULL) + SECONDS;

	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = next_wc(q, end);

		check_message(q, &wc);
		MUST(room(q, (int)wc.wr_id)[GRH] == i);
		post_recv(q, (int)wc.wr_id);
	}
}

static void
take_nothing(int q)
{
	struct ibv_wc wc;

	MUST(ibv_poll_cq(cq[q], 1, &wc) == 0);
}

static void
run_recv(void)
{
	check_rules();
	CALL(ibv_attach_mcast(qp[0], &group, 0), 0);
	CALL(ibv_attach_mcast(qp[1], &group, 0), 0);
	printf("ready\n");
	fflush(stdout);
	take_messages(0);
	take_messages(1);
	take_nothing(2);
	CALL(ibv_detach_mcast(qp[0], &group, 0), 0);
	printf("detached\n");
	fflush(stdout);
	take_messages(1);
	take_nothing(0);
	take_nothing(2);
}

static void
run_send(int gid_index)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = PORT,
				    .grh = { .dgid = group, .sgid_index = (uint8_t)gid_index, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	uint8_t *out = room(QPS, 0);
	struct ibv_sge sge = { .addr = (uintptr_t)out, .length = BYTES, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	time_t end = time(NULL) + SECONDS;

	MUST(ah != NULL);
	CALL(ibv_attach_mcast(qp[0], &group, 0), 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = MULTICAST_QPN;
	wr.wr.ud.remote_qkey = QKEY;
	for (int m = 0; m < MESSAGES; m++) {
		bool sent = false, came = false;

		out[0] = (uint8_t)m;
		for (int i = 1; i < BYTES; i++)
			out[i] = pattern(m, i);
		wr.wr_id = 1000 + m;
		CALL(ibv_post_send(qp[0], &wr, &bad), 0);
		/* Its own copy comes too: it is attached. */
		while (!sent || !came) {
			struct ibv_wc wc = next_wc(0, end);

			MUST(wc.status == IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_SEND) {
				MUST(!sent && wc.wr_id == 1000 + (uint64_t)m);
				sent = true;
				continue;
			}
			MUST(!came);
			check_message(0, &wc);
			MUST(room(0, (int)wc.wr_id)[GRH] == m && wc.src_qp == qp[0]->qp_num);
			post_recv(0, (int)wc.wr_id);
			came = true;
		}
		usleep(PAUSE_US);
	}
	CALL(ibv_detach_mcast(qp[0], &group, 0), 0);
	CALL(ibv_destroy_ah(ah), 0);
}

int
main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: %s recv|send GID-INDEX GROUP\n", argv[0]);
		return 2;
	}
	v4 = inet_pton(AF_INET, argv[3], group.raw + 12) == 1;
	if (v4)
		group.raw[10] = group.raw[11] = 0xff;
	else
		MUST(inet_pton(AF_INET6, argv[3], group.raw) == 1);
	open_all();
	if (strcmp(argv[1], "recv") == 0)
		run_recv();
	else
		run_send(atoi(argv[2]));
	for (int q = 0; q < QPS; q++) {
		/* The last one goes with the program. */
		if (q == 1 && strcmp(argv[1], "recv") == 0)
			continue;
		CALL(ibv_destroy_qp(qp[q]), 0);
	}
	printf("ok\n");
	return 0;
}
