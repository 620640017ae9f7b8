/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storm_targets FILE DEVICE PEER SEED: QPs that are connected to the IPv4 address PEER, post what there is to post, and are connected anew when they
 * have failed; FILE tells storm_packets where they are. Ends when it is killed, and prints how often a QP was connected.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stuck.h"
#include "storm/targets.h"
#include "vt.h"

enum {
	RC = 0x00, UC = 0x20, UD = 0x60, /* enum wire_service: this program knows verbs only */
	LOOK_US = 2000,
	POSTED = 4,
};

struct target {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	unsigned int posted;
};

static const uint32_t services[] = { RC, RC, RC, UC, RC, UD };
static volatile sig_atomic_t stop;

static void
on_signal(int number)
{
	stop = 1;
}

static void
receive(struct vt *t, struct target *g)
{
	struct ibv_sge sge = { .addr = (uintptr_t)t->buf, .length = VT_BUFFER_BYTES / 8, .lkey = t->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(g->qp, &wr, &bad);
}

static void
post(struct vt *t, struct target *g, unsigned int choice)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
						  IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct ibv_sge sge = { .addr = (uintptr_t)t->buf, .length = choice * 97 % 5000, .lkey = t->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;

	if (g->ah != NULL) {
		wr.wr.ud.ah = g->ah;
		wr.wr.ud.remote_qpn = choice % 2 == 0 ? STORM_PEER_QPN : 1;
		wr.wr.ud.remote_qkey = STORM_QKEY;
		sge.length %= 1024;
	} else {
		wr.opcode = ops[choice % (g->qp->qp_type == IBV_QPT_RC ? 6 : 4)];
		wr.wr.rdma.remote_addr = (uintptr_t)t->buf;
		wr.wr.rdma.rkey = t->mr->rkey;
		if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			sge.length = 8;
			wr.wr.atomic.remote_addr = (uintptr_t)t->buf;
			wr.wr.atomic.rkey = t->mr->rkey;
		}
	}
	if (ibv_post_send(g->qp, &wr, &bad) == 0)
		g->posted++;
}

static void
path(const char *peer, struct ibv_ah_attr *a)
{
	*a = (struct ibv_ah_attr){ .is_global = 1, .port_num = VT_PORT, .grh = { .sgid_index = VT_GID_INDEX, .hop_limit = 64 } };
	a->grh.dgid.raw[10] = a->grh.dgid.raw[11] = 0xff;
	if (inet_pton(AF_INET, peer, a->grh.dgid.raw + 12) != 1)
		attack_die(peer);
}

/** From any state to RTS. @return false: a packet has put it into ERR again. */
static bool
connect_target(struct vt *t, struct target *g, const char *peer, unsigned int i)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	int mask;

	if (ibv_modify_qp(g->qp, &a, IBV_QP_STATE) != 0 || ibv_modify_qp(g->qp, &a, vt_attr_init(g->qp, &a)) != 0)
		return false;
	for (unsigned int n = 0; n < VT_DEPTH; n++)
		receive(t, g);
	mask = vt_attr_rtr(t, g->qp, STORM_PEER_QPN + i, &a);
	a.rq_psn = STORM_RQ_PSN;
	path(peer, &a.ah_attr);
	if (ibv_modify_qp(g->qp, &a, mask) != 0)
		return false;
	mask = vt_attr_rts(g->qp, &a);
	a.sq_psn = STORM_SQ_PSN;
	a.timeout = 10;
	if (ibv_modify_qp(g->qp, &a, mask) != 0)
		return false;
	g->posted = 0;
	return true;
}

static void
look(struct vt *t, struct target *g, unsigned int choice)
{
	struct ibv_wc wc[VT_DEPTH];
	int n = ibv_poll_cq(g->cq, VT_DEPTH, wc);

	for (int i = 0; i < n; i++) {
		/* The opcode of a failed completion is undefined, but then the QP is connected anew. */
		if (wc[i].status == IBV_WC_SUCCESS && (wc[i].opcode & IBV_WC_RECV) != 0)
			receive(t, g);
		else
			g->posted -= g->posted > 0;
	}
	while (g->posted < POSTED) {
		unsigned int before = g->posted;

		post(t, g, choice++);
		if (g->posted == before)
			break;
	}
}

static bool
failed(struct target *g)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(g->qp, &a, IBV_QP_STATE, &init) != 0 || a.qp_state != IBV_QPS_RTS;
}

static void
open_device(struct vt *t, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **d = list;

	while (d != NULL && *d != NULL && strcmp(ibv_get_device_name(*d), name) != 0)
		d++;
	if (d == NULL || *d == NULL)
		attack_die("no such device");
	t->ctx = ibv_open_device(*d);
	t->pd = t->ctx != NULL ? ibv_alloc_pd(t->ctx) : NULL;
	t->buf = aligned_alloc(4096, VT_BUFFER_BYTES);
	if (t->pd == NULL || t->buf == NULL)
		attack_die("ibv_alloc_pd");
	memset(t->buf, 0, VT_BUFFER_BYTES);
	t->mr = ibv_reg_mr(t->pd, t->buf, VT_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC);
	if (t->mr == NULL)
		attack_die("ibv_reg_mr");
	ibv_free_device_list(list);
}

int
main(int argc, char **argv)
{
	static struct target targets[STORM_TARGETS];
	static const enum ibv_qp_type types[] = { [RC / 0x20] = IBV_QPT_RC, [UC / 0x20] = IBV_QPT_UC, [UD / 0x20] = IBV_QPT_UD };
	struct storm_targets *shared;
	struct ibv_ah_attr a;
	uint32_t choice, connected = 0;
	struct vt t = { 0 };
	int fd;

	if (argc != 5)
		attack_die("usage: storm_targets FILE DEVICE PEER SEED");
	choice = (uint32_t)atoi(argv[4]);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		attack_die(argv[1]);
	signal(SIGTERM, on_signal);
	open_device(&t, argv[2]);
	path(argv[3], &a);
	for (unsigned int i = 0; i < STORM_TARGETS; i++) {
		struct storm_target *s = &shared->t[i];

		s->service = services[i % (sizeof(services) / sizeof(services[0]))];
		targets[i].cq = vt_cq(&t, 4 * VT_DEPTH, NULL);
		targets[i].qp = vt_qp(&t, types[s->service / 0x20], targets[i].cq, targets[i].cq);
		targets[i].ah = s->service == UD ? ibv_create_ah(t.pd, &a) : NULL;
		if (!connect_target(&t, &targets[i], argv[3], i))
			attack_die("RTS");
		s->qpn = targets[i].qp->qp_num;
		s->rkey = t.mr->rkey;
		s->va = (uintptr_t)t.buf;
		s->bytes = VT_BUFFER_BYTES;
	}
	atomic_store(&shared->nb, STORM_TARGETS);
	attack_begun();
	while (!stop) {
		for (unsigned int i = 0; i < STORM_TARGETS; i++) {
			if (failed(&targets[i])) {
				if (!connect_target(&t, &targets[i], argv[3], i))
					continue;
				atomic_fetch_add(&shared->t[i].generation, 1);
				connected++;
			}
			look(&t, &targets[i], choice++);
		}
		usleep(LOOK_US);
	}
	printf("%u times a QP that had failed was connected anew\n", connected);
	return 0;
}
