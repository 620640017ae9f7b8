/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_malloc.h>

enum {
	ACK_TIMEOUT = 14, /* 67 ms */
	RNR_TIMER = 1,    /* 10 us */
	MAX_RETRIES = 7,
	RD_ATOMIC = 16,
	FIRST_PSN = 0x0badca,
	LINK_TRIES = 500,
	LINK_WAIT_US = 10000,
	ALARM_US = 1000,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static bool
complain(const char *what)
{
	fprintf(stderr, "embed: %s: %s\n", what, strerror(errno));
	return false;
}

/** Create this host's end of the memif wire. The memif server's end must be created first. */
static bool
wire_end(unsigned int number)
{
	char name[32], args[128];

	snprintf(name, sizeof(name), "net_memif%u", number);
	snprintf(args, sizeof(args), "role=%s,id=0,bsize=4352,rsize=10,socket=uroce-embed-%d,socket-abstract=yes",
		 number == 0 ? "server" : "client", (int)getpid());
	if (rte_eal_hotplug_add("vdev", name, args) == 0)
		return true;
	fprintf(stderr, "embed: no port %s; is DPDK's memif driver installed?\n", name);
	return false;
}

static bool
stack_open(struct host *h, unsigned int number)
{
	char ethdev[64], addresses[64], err[UROCE_ERR_BYTES];
	const char *const sets[] = { ethdev, addresses, "port uroce0.mtu=4200", "daemon.mbufs=8191" };
	const struct uroce_params p = { .sets = sets, .nb_sets = sizeof(sets) / sizeof(sets[0]) };

	snprintf(ethdev, sizeof(ethdev), "port uroce0.ethdev=net_memif%u", number);
	snprintf(addresses, sizeof(addresses), "port uroce0.addresses=198.18.0.%u/24", number + 1);
	h->stack = uroce_create(&p, err);
	if (h->stack == NULL)
		fprintf(stderr, "embed: %s\n", err);
	return h->stack != NULL;
}

bool
host_open(struct host *h, unsigned int number, size_t bytes)
{
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 2 * HOST_DEPTH, .max_recv_wr = 2 * HOST_DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	*h = (struct host){ .bytes = bytes };
	if (!wire_end(number) || !stack_open(h, number))
		return false;
	h->ctx = uroce_open_device(h->stack, "uroce0");
	if (h->ctx == NULL)
		return complain("opening uroce0");
	h->pd = ibv_alloc_pd(h->ctx);
	h->cq = ibv_create_cq(h->ctx, 4 * HOST_DEPTH, NULL, NULL, 0);
	if (h->pd == NULL || h->cq == NULL)
		return complain("creating PD and CQ");
	qp.send_cq = qp.recv_cq = h->cq;
	h->qp = ibv_create_qp(h->pd, &qp);
	if (h->qp == NULL)
		return complain("creating the QP");
	errno = ENOMEM;
	h->mem = rte_zmalloc("embed", bytes, 64);
	if (h->mem == NULL)
		return complain("memory for the messages (smaller --size, or more by EAL's -m)");
	h->mr = ibv_reg_mr(h->pd, h->mem, bytes, ACCESS);
	return h->mr != NULL || complain("registering the memory");
}

bool
host_wait_link(struct host *h)
{
	struct ibv_port_attr attr;

	for (int i = 0; i < LINK_TRIES; i++) {
		/* This call waits for the stack, and runs turns of it meanwhile. */
		if (ibv_query_port(h->ctx, 1, &attr) != 0)
			return complain("asking for the port's state");
		if (attr.state == IBV_PORT_ACTIVE)
			return true;
		usleep(LINK_WAIT_US);
	}
	fprintf(stderr, "embed: the memif link doesn't come up\n");
	return false;
}

/** @return the GID index of the IPv4 address that stack_open() configured, or -1 if there is none. */
static int
gid_index(const struct host *h, union ibv_gid *gid)
{
	static const uint8_t v4_mapped[12] = { [10] = 0xff, 0xff };

	for (int i = 0; ibv_query_gid(h->ctx, 1, i, gid) == 0; i++)
		if (memcmp(gid->raw, v4_mapped, sizeof(v4_mapped)) == 0)
			return i;
	return -1;
}

bool
host_connect(struct host *h, const struct host *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS };
	union ibv_gid own, dgid;
	int index = gid_index(h, &own);
	int rc;

	if (index < 0 || gid_index(peer, &dgid) < 0)
		return complain("no IPv4 address in the GID table");
	rc = ibv_modify_qp(h->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (rc == 0) {
		a = (struct ibv_qp_attr){
			.qp_state = IBV_QPS_RTR,
			.path_mtu = IBV_MTU_4096,
			.dest_qp_num = peer->qp->qp_num,
			.rq_psn = FIRST_PSN,
			.max_dest_rd_atomic = RD_ATOMIC,
			.min_rnr_timer = RNR_TIMER,
			.ah_attr = { .is_global = 1, .port_num = 1, .grh = { dgid, 0, (uint8_t)index, 64, 0 } },
		};
		/* This waits for the peer's MAC address, and runs turns of both stacks meanwhile. */
		rc = ibv_modify_qp(h->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	}
	if (rc == 0) {
		a = (struct ibv_qp_attr){
			.qp_state = IBV_QPS_RTS,
			.sq_psn = FIRST_PSN,
			.timeout = ACK_TIMEOUT,
			.retry_cnt = MAX_RETRIES,
			.rnr_retry = MAX_RETRIES,
			.max_rd_atomic = RD_ATOMIC,
		};
		rc = ibv_modify_qp(h->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	}
	errno = rc;
	return rc == 0 || complain("connecting the QP");
}

static void
went_off(void *done)
{
	atomic_store_explicit((_Atomic bool *)done, true, memory_order_release);
}

/** net_memif learns on EAL's interrupt thread that the other end is closed. Wait for that before this end closes. */
static void
wait_for_interrupts(void)
{
	static _Atomic bool done;

	atomic_store_explicit(&done, false, memory_order_release);
	if (rte_eal_alarm_set(ALARM_US, went_off, &done) == 0)
		while (!atomic_load_explicit(&done, memory_order_acquire))
			usleep(ALARM_US);
}

void
host_close(struct host *h)
{
	if (h->qp != NULL)
		ibv_destroy_qp(h->qp);
	if (h->mr != NULL)
		ibv_dereg_mr(h->mr);
	rte_free(h->mem);
	if (h->cq != NULL)
		ibv_destroy_cq(h->cq);
	if (h->pd != NULL)
		ibv_dealloc_pd(h->pd);
	if (h->ctx != NULL)
		ibv_close_device(h->ctx);
	uroce_destroy(h->stack);
	wait_for_interrupts();
}
