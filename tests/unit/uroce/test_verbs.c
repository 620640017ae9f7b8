/* SPDX-License-Identifier: BSD-3-Clause */
/* Verbs inside the process, linked with liburoce.so as an application is: two hosts on one wire, driven in all the ways there are. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "base/own_dirs.h"
#include "uroce_verbs.h"

enum {
	WIRE_PACKETS = 1024,
	WORKER = 1,
	BYTES = 200000,
	TURNS = 1 << 22, /* before a completion counts as lost */
	FIRST_PSN = 0x123456,
	GID_INDEX = 1, /* of the IPv4 address; 0 is the link-local one */
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

/** One host with one QP. */
struct host {
	struct uroce *u;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *mem;
	bool polled; /* nobody else drives the engine */
};

static struct rte_ring *wires[2];

static void
host_create(struct host *h, unsigned int side)
{
	static unsigned int n;
	char ethdev[64], addresses[64], name[32], err[UROCE_ERR_BYTES] = "";
	const char *sets[] = { ethdev, addresses, "daemon.mbufs=8191", "port uroce0.mtu=4200" };
	const struct uroce_params p = { .sets = sets, .nb_sets = 4 };
	struct rte_ether_addr mac = { { 0x02, 0, 0, 0, 0, (uint8_t)(side + 1) } };
	int port;

	*h = (struct host){ .polled = true };
	snprintf(name, sizeof(name), "host%u", n);
	port = rte_eth_from_rings(name, &wires[side], 1, &wires[!side], 1, 0);
	assert_true(port >= 0);
	/* net_ring has none; the first that is added is the port's own. */
	assert_int_equal(rte_eth_dev_mac_addr_add((uint16_t)port, &mac, 0), 0);
	snprintf(ethdev, sizeof(ethdev), "port uroce0.ethdev=net_ring_host%u", n++);
	snprintf(addresses, sizeof(addresses), "port uroce0.addresses=198.18.0.%u/24", side + 1);
	h->u = uroce_create(&p, err);
	if (h->u == NULL)
		fail_msg("%s", err);
}

static void
host_objects(struct host *h, uint8_t *mem)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 }, .sq_sig_all = 1 };

	h->ctx = uroce_open_device(h->u, "uroce0");
	assert_non_null(h->ctx);
	h->pd = ibv_alloc_pd(h->ctx);
	assert_non_null(h->pd);
	h->channel = ibv_create_comp_channel(h->ctx);
	assert_non_null(h->channel);
	h->cq = ibv_create_cq(h->ctx, 64, NULL, h->channel, 0);
	assert_non_null(h->cq);
	a.send_cq = a.recv_cq = h->cq;
	h->qp = ibv_create_qp(h->pd, &a);
	assert_non_null(h->qp);
	h->mem = mem;
	h->mr = ibv_reg_mr(h->pd, mem, BYTES, ACCESS);
	assert_non_null(h->mr);
}

static void
connect_to(struct host *h, const struct host *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS };

	assert_int_equal(ibv_modify_qp(h->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } },
	};
	assert_int_equal(ibv_query_gid(peer->ctx, 1, GID_INDEX, &a.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(h->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = FIRST_PSN;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	assert_int_equal(ibv_modify_qp(h->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static void
fill(uint8_t *p, uint8_t seed)
{
	for (int i = 0; i < BYTES; i++)
		p[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static void
drive(struct host *h)
{
	if (!h->polled)
		return;
	assert_true(uroce_engine_poll(h->u, 0) >= 0);
}

/** Take one completion of @p h; it must be good. */
static void
complete(struct host *h, struct host *other, enum ibv_wc_opcode op)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int n = 0;

	for (int i = 0; i < TURNS && n == 0; i++) {
		drive(h);
		drive(other);
		n = ibv_poll_cq(h->cq, 1, &wc);
		if (!h->polled && n == 0)
			usleep(10);
	}
	assert_int_equal(n, 1);
	assert_string_equal(ibv_wc_status_str(wc.status), ibv_wc_status_str(IBV_WC_SUCCESS));
	assert_int_equal(wc.opcode, op);
}

static void
post_recv(struct host *h)
{
	struct ibv_sge sge = { (uintptr_t)h->mem, BYTES, h->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_recv(h->qp, &wr, &bad), 0);
}

static void
post(struct host *h, const struct host *peer, enum ibv_wr_opcode op)
{
	struct ibv_sge sge = { (uintptr_t)h->mem, BYTES, h->mr->lkey };
	struct ibv_send_wr wr = { .opcode = op, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)peer->mem;
	wr.wr.rdma.rkey = peer->mr->rkey;
	assert_int_equal(ibv_post_send(h->qp, &wr, &bad), 0);
}

/** WRITE, READ and SEND between the two, every byte checked. */
static void
traffic(struct host *a, struct host *b)
{
	fill(a->mem, 1);
	memset(b->mem, 0, BYTES);
	post(a, b, IBV_WR_RDMA_WRITE);
	complete(a, b, IBV_WC_RDMA_WRITE);
	assert_memory_equal(a->mem, b->mem, BYTES);
	fill(b->mem, 2);
	post(a, b, IBV_WR_RDMA_READ);
	complete(a, b, IBV_WC_RDMA_READ);
	assert_memory_equal(a->mem, b->mem, BYTES);
	fill(b->mem, 3);
	post_recv(a);
	post(b, a, IBV_WR_SEND);
	complete(b, a, IBV_WC_SEND);
	complete(a, b, IBV_WC_RECV);
	assert_memory_equal(a->mem, b->mem, BYTES);
}

static void
host_destroy(struct host *h)
{
	assert_int_equal(ibv_destroy_qp(h->qp), 0);
	assert_int_equal(ibv_dereg_mr(h->mr), 0);
	assert_int_equal(ibv_destroy_cq(h->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(h->channel), 0);
	assert_int_equal(ibv_dealloc_pd(h->pd), 0);
	assert_int_equal(ibv_close_device(h->ctx), 0);
}

static void
one_thread_drives_everything(void **state)
{
	uint8_t *mem[2] = { malloc(BYTES), malloc(BYTES) };
	struct host a, b;

	host_create(&a, 0);
	host_create(&b, 1);
	host_objects(&a, mem[0]);
	host_objects(&b, mem[1]);
	/* Its neighbour is found, though nobody but this thread drives the two engines that ask and answer. */
	connect_to(&a, &b);
	connect_to(&b, &a);
	for (int i = 0; i < 20; i++)
		traffic(&a, &b);
	/* A program that was silent for long is heard by the engine's turns alone. */
	usleep(150000);
	drive(&a);
	drive(&b);
	traffic(&a, &b);
	host_destroy(&a);
	host_destroy(&b);
	uroce_destroy(a.u);
	uroce_destroy(b.u);
	free(mem[0]);
	free(mem[1]);
}

static int
run_engine(void *u)
{
	return uroce_engine_run(u, 0);
}

static void
control_and_engine_have_threads_of_their_own(void **state)
{
	uint8_t *mem[2] = { malloc(BYTES), malloc(BYTES) };
	char err[UROCE_ERR_BYTES];
	struct host a, b;

	host_create(&a, 0);
	host_create(&b, 1);
	a.polled = false;
	assert_int_equal(uroce_control_start(a.u, err), 0);
	assert_int_equal(uroce_control_start(b.u, err), 0);
	assert_int_equal(rte_eal_remote_launch(run_engine, a.u, WORKER), 0);
	host_objects(&a, mem[0]);
	host_objects(&b, mem[1]);
	connect_to(&a, &b);
	connect_to(&b, &a);
	for (int i = 0; i < 5; i++)
		traffic(&a, &b);
	host_destroy(&a);
	host_destroy(&b);
	uroce_shutdown(a.u);
	uroce_engine_stop(a.u, 0);
	assert_int_equal(rte_eal_wait_lcore(WORKER), 0);
	uroce_destroy(a.u);
	uroce_destroy(b.u);
	free(mem[0]);
	free(mem[1]);
}

static void
on_signal(int number)
{
}

/* Without SA_RESTART or with: poll() ends with EINTR either way. */
static void
signals_that_a_program_handles_disturb_no_call(void **state)
{
	struct itimerspec every = { .it_interval.tv_nsec = 50000, .it_value.tv_nsec = 50000 };
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, before;
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	uint8_t *mem = malloc(BYTES);
	char err[UROCE_ERR_BYTES];
	struct ibv_mr *mr;
	struct host a;
	timer_t timer;

	host_create(&a, 0);
	assert_int_equal(uroce_control_start(a.u, err), 0);
	host_objects(&a, mem);
	assert_int_equal(sigaction(SIGUSR1, &act, &before), 0);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &every, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		mr = ibv_reg_mr(a.pd, mem, 4096, ACCESS);
		if (mr == NULL)
			fail_msg("registration %d: %s", i, strerror(errno));
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	assert_int_equal(timer_delete(timer), 0);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	errno = EDOM;
	host_destroy(&a);
	assert_int_equal(errno, EDOM);
	uroce_shutdown(a.u);
	uroce_destroy(a.u);
	free(mem);
}

/** Two hosts on memory of this kind. */
static void
try_memory(uint8_t *x, uint8_t *y)
{
	struct host a, b;

	assert_non_null(x);
	assert_non_null(y);
	host_create(&a, 0);
	host_create(&b, 1);
	host_objects(&a, x);
	host_objects(&b, y);
	connect_to(&a, &b);
	connect_to(&b, &a);
	traffic(&a, &b);
	host_destroy(&a);
	host_destroy(&b);
	uroce_destroy(a.u);
	uroce_destroy(b.u);
}

static void
memory_of_every_kind_is_used_where_it_is(void **state)
{
	static uint8_t data[BYTES];
	uint8_t stack[BYTES];
	int fd = memfd_create("shared", 0);
	uint8_t *eal = rte_malloc("test", BYTES, 64), *shared, *elt[2];
	struct rte_mempool *mp = rte_mempool_create("test_elements", 3, BYTES, 0, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);

	try_memory(data, stack);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	try_memory(eal, shared);
	assert_non_null(mp);
	assert_int_equal(rte_mempool_get_bulk(mp, (void **)elt, 2), 0);
	try_memory(elt[0], elt[1]);
	rte_mempool_put_bulk(mp, (void **)elt, 2);
	rte_mempool_free(mp);
	rte_free(eal);
	munmap(shared, BYTES);
	close(fd);
}

static void
memory_that_is_not_there_is_refused(void **state)
{
	uint8_t *mem = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *good = malloc(BYTES);
	struct ibv_mr *mr;
	struct host h;

	host_create(&h, 0);
	host_objects(&h, good);
	assert_int_equal(mprotect(mem, 4096, PROT_READ), 0);
	assert_int_equal(munmap(mem + 2 * 4096, 4096), 0);
	errno = 0;
	assert_null(ibv_reg_mr(h.pd, mem + 4096, 8192, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	errno = 0;
	assert_null(ibv_reg_mr(h.pd, mem, 8192, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(h.pd, mem, 8192, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	errno = 0;
	assert_null(ibv_reg_mr(h.pd, mem, 8192, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	host_destroy(&h);
	uroce_destroy(h.u);
	munmap(mem, 8192);
	free(good);
}

static void
waiting_for_an_event_drives_the_stacks(void **state)
{
	uint8_t *mem[2] = { malloc(BYTES), malloc(BYTES) };
	struct ibv_async_event ae;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_cq *cq;
	struct host a, b;
	struct ibv_wc wc;
	void *arg;

	host_create(&a, 0);
	host_create(&b, 1);
	host_objects(&a, mem[0]);
	host_objects(&b, mem[1]);
	connect_to(&a, &b);
	connect_to(&b, &a);
	assert_int_equal(ibv_req_notify_cq(b.cq, 0), 0);
	post_recv(&b);
	post(&a, &b, IBV_WR_SEND);
	/* Both engines have to turn until this one has it, and nobody else is there. */
	assert_int_equal(ibv_get_cq_event(b.channel, &cq, &arg), 0);
	assert_ptr_equal(cq, b.cq);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_poll_cq(b.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	/* The first packet on a connection in RTR or RTS that hadn't any: not on this one; a WR that fails on the remote side does. */
	b.mr->rkey ^= 0x55;
	post(&a, &b, IBV_WR_RDMA_WRITE);
	b.mr->rkey ^= 0x55;
	assert_int_equal(ibv_get_async_event(b.ctx, &ae), 0);
	assert_int_equal(ae.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(ae.element.qp, b.qp);
	ibv_ack_async_event(&ae);
	assert_int_equal(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	host_destroy(&a);
	host_destroy(&b);
	uroce_destroy(a.u);
	uroce_destroy(b.u);
	free(mem[0]);
	free(mem[1]);
}

static void
devices_are_listed_and_opened(void **state)
{
	struct ibv_device_attr attr;
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct host a, b;
	int n = 7;

	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 0);
	ibv_free_device_list(list);
	host_create(&a, 0);
	host_create(&b, 1);
	errno = 0;
	assert_null(uroce_open_device(a.u, "uroce1"));
	assert_int_equal(errno, ENODEV);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 2);
	for (int i = 0; i < n; i++) {
		assert_string_equal(ibv_get_device_name(list[i]), "uroce0");
		ctx = ibv_open_device(list[i]);
		assert_non_null(ctx);
		assert_ptr_equal(ctx->device, list[i]);
		assert_int_equal(ibv_query_device(ctx, &attr), 0);
		assert_int_equal(attr.node_guid, ibv_get_device_guid(list[i]));
		assert_int_equal(ibv_close_device(ctx), 0);
	}
	assert_true(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]));
	ibv_free_device_list(list);
	uroce_destroy(a.u);
	uroce_destroy(b.u);
}

static void
a_stack_may_go_before_its_devices_are_closed(void **state)
{
	uint8_t *mem = malloc(BYTES);
	struct ibv_async_event ae;
	struct host h;

	host_create(&h, 0);
	host_objects(&h, mem);
	uroce_shutdown(h.u);
	errno = 0;
	assert_null(uroce_open_device(h.u, "uroce0"));
	assert_int_equal(errno, ESHUTDOWN);
	errno = 0;
	assert_null(ibv_alloc_pd(h.ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_get_async_event(h.ctx, &ae), 0);
	assert_int_equal(ae.event_type, IBV_EVENT_DEVICE_FATAL);
	host_destroy(&h);
	uroce_destroy(h.u);
	free(mem);
}

/* Peers remember them: a CM takes the number of a QP that it knows for a stale connection, and old packets may still come. */
static void
numbers_and_keys_of_a_stack_do_not_begin_anew_with_the_next(void **state)
{
	uint8_t *mem = malloc(BYTES);
	uint32_t qpn[2], rkey[2];

	for (unsigned int i = 0; i < 2; i++) {
		struct host h;

		host_create(&h, 0);
		host_objects(&h, mem);
		qpn[i] = h.qp->qp_num;
		rkey[i] = h.mr->rkey;
		host_destroy(&h);
		uroce_destroy(h.u);
	}
	assert_int_not_equal(qpn[0], qpn[1]);
	assert_int_not_equal(rkey[0], rkey[1]);
	free(mem);
}

static void
a_context_that_is_closed_with_objects_leaves_nothing(void **state)
{
	uint8_t *mem = malloc(BYTES);
	struct host h;

	host_create(&h, 0);
	for (int i = 0; i < 30; i++) {
		host_objects(&h, mem);
		/* The write end of its pipe of events stays with the control for a moment: no SIGPIPE. */
		assert_int_equal(ibv_close_device(h.ctx), 0);
	}
	for (int i = 0; i < 1000 && uroce_control_poll(h.u) > 0; i++)
		;
	uroce_destroy(h.u);
	free(mem);
}

static int
setup(void **state)
{
	char prefix[32];
	char *argv[] = { "test_verbs", "--lcores", "0@0,1@0", "--no-huge", "-m", "400", "--no-pci", "--no-telemetry",
			 "--log-level", "error", "--file-prefix", prefix, NULL };

	snprintf(prefix, sizeof(prefix), "uroce-test-%d", (int)getpid());
	setenv("UROCE_QUIET", "1", 1);
	if (rte_eal_init(12, argv) < 0)
		return -1;
	wires[0] = rte_ring_create("a", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	wires[1] = rte_ring_create("b", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	return wires[0] != NULL && wires[1] != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	int rc = rte_eal_cleanup();

	own_dir_remove(rte_eal_get_runtime_dir());
	return rc;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_are_listed_and_opened),
		cmocka_unit_test(one_thread_drives_everything),
		cmocka_unit_test(control_and_engine_have_threads_of_their_own),
		cmocka_unit_test(signals_that_a_program_handles_disturb_no_call),
		cmocka_unit_test(memory_of_every_kind_is_used_where_it_is),
		cmocka_unit_test(memory_that_is_not_there_is_refused),
		cmocka_unit_test(waiting_for_an_event_drives_the_stacks),
		cmocka_unit_test(a_stack_may_go_before_its_devices_are_closed),
		cmocka_unit_test(numbers_and_keys_of_a_stack_do_not_begin_anew_with_the_next),
		cmocka_unit_test(a_context_that_is_closed_with_objects_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
