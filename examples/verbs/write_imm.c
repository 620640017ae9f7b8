/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA WRITE with immediate and a completion channel, with nothing but rdma-core's API. It runs on any RDMA device; over uroce:
 *
 *   uroce-lab pair ./write_imm
 *
 *   write_imm [-d DEVICE] [-p PORT] [-n MESSAGES] [SERVER]
 *
 * The two ends exchange QP numbers, addresses and keys over TCP. Then the client writes its messages straight into the server's memory. The
 * immediate of each WRITE says which slot was written. The server sleeps until that arrives, looks at the slot and writes an
 * answer into the client's memory in the same way. No end touches the socket while messages travel.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#define SLOTS 16	 /* messages that may be under way: as many receives are posted */
#define SLOT_BYTES 64
#define RC_TIMEOUT 14	 /* 4.096 us * 2^14 = 67 ms until an unanswered packet is sent again */
#define RC_RETRIES 7
#define MIN_RNR_TIMER 12 /* 0.64 ms, if a WRITE arrives before its receive is posted */

/* What each end tells the other over TCP. All numbers in network byte order. */
struct hello {
	uint32_t qpn;
	uint32_t psn;
	uint32_t rkey;
	uint32_t mtu;
	uint64_t address;
	union ibv_gid gid;
} __attribute__((packed));

struct end {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	uint32_t psn;
	uint64_t peer_address;
	uint32_t peer_rkey;
	unsigned int unacked_events;
	/* The peer writes into `in`; `out` is what we write to the peer. */
	struct {
		char in[SLOTS][SLOT_BYTES];
		char out[SLOTS][SLOT_BYTES];
	} memory;
};

static void
die(const char *what, int err)
{
	fprintf(stderr, "write_imm: %s%s%s\n", what, err != 0 ? ": " : "", err != 0 ? strerror(err) : "");
	exit(1);
}

/* The device with this name, or the first one. */
static void
open_device(struct end *e, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list == NULL || list[0] == NULL)
		die("there is no RDMA device; start this program with uroce-run or uroce-lab", 0);
	for (int i = 0; list[i] != NULL && e->device == NULL; i++)
		if (name == NULL || strcmp(name, ibv_get_device_name(list[i])) == 0)
			e->device = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (e->device == NULL)
		die("no such device, or it can't be opened", errno);
	if (ibv_query_port(e->device, 1, &e->port) != 0)
		die("ibv_query_port", errno);
}

/* The first address of RoCE v2 on IPv4: ::ffff:a.b.c.d. */
static void
choose_gid(struct end *e)
{
	static const uint8_t ipv4[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;

	for (int i = 0; i < e->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(e->device, 1, i, &entry, 0) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    memcmp(entry.gid.raw, ipv4, sizeof(ipv4)) == 0) {
			e->gid = entry.gid;
			e->gid_index = i;
			return;
		}
	}
	die("the device has no IPv4 address for RoCE v2", 0);
}

static void
post_receive(struct end *e)
{
	/* A WRITE with immediate takes a receive, but puts no data into it. */
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
	int rc = ibv_post_recv(e->qp, &wr, &bad);

	if (rc != 0)
		die("ibv_post_recv", rc);
}

static void
make_objects(struct end *e)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	e->pd = ibv_alloc_pd(e->device);
	e->channel = ibv_create_comp_channel(e->device);
	if (e->pd == NULL || e->channel == NULL)
		die("protection domain or completion channel", errno);
	e->cq = ibv_create_cq(e->device, 2 * SLOTS, NULL, e->channel, 0);
	e->mr = ibv_reg_mr(e->pd, &e->memory, sizeof(e->memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (e->cq == NULL || e->mr == NULL)
		die("completion queue or memory region", errno);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = ibv_create_qp(e->pd, &init);
	if (e->qp == NULL)
		die("ibv_create_qp", errno);
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
		die("QP to INIT", errno);
	/* Before the peer can send anything. */
	for (int i = 0; i < SLOTS; i++)
		post_receive(e);
	if (ibv_req_notify_cq(e->cq, 0) != 0)
		die("ibv_req_notify_cq", errno);
}

static void
connect_qp(struct end *e, const struct hello *peer)
{
	uint32_t mtu = ntohl(peer->mtu);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = mtu < (uint32_t)e->port.active_mtu ? (enum ibv_mtu)mtu : e->port.active_mtu,
				    .dest_qp_num = ntohl(peer->qpn),
				    .rq_psn = ntohl(peer->psn),
				    .min_rnr_timer = MIN_RNR_TIMER,
				    .ah_attr = { .is_global = 1,
						 .port_num = 1,
						 .grh = { .dgid = peer->gid, .sgid_index = e->gid_index, .hop_limit = 64 } } };

	e->peer_address = be64toh(peer->address);
	e->peer_rkey = ntohl(peer->rkey);
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
		die("QP to RTR", errno);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = RC_TIMEOUT,
				     .retry_cnt = RC_RETRIES,
				     .rnr_retry = RC_RETRIES,
				     .sq_psn = e->psn };
	if (ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC) != 0)
		die("QP to RTS", errno);
}

/* A TCP connection: to `server`, or the first one that arrives if there is no name. */
static int
tcp_connection(const char *server, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = server == NULL ? AI_PASSIVE : 0 }, *a;
	int rc = getaddrinfo(server, port, &hints, &a), fd, one = 1, listener;

	if (rc != 0)
		die(gai_strerror(rc), 0);
	fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket", errno);
	if (server != NULL) {
		if (connect(fd, a->ai_addr, a->ai_addrlen) != 0)
			die(server, errno);
	} else {
		listener = fd;
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(listener, a->ai_addr, a->ai_addrlen) != 0 || listen(listener, 1) != 0)
			die("the TCP port can't be used", errno);
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			die("accept", errno);
		close(listener);
	}
	freeaddrinfo(a);
	return fd;
}

static void
exchange(int fd, const void *mine, void *theirs, size_t bytes)
{
	if (write(fd, mine, bytes) != (ssize_t)bytes || recv(fd, theirs, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("the other end has gone", 0);
}

/* Write slot `slot` of `out` into the peer's `in`, and tell the peer by the immediate. */
static void
send_slot(struct end *e, uint32_t slot)
{
	size_t offset = offsetof(struct end, memory.in) - offsetof(struct end, memory) + (size_t)slot * SLOT_BYTES;
	struct ibv_sge sge = { (uintptr_t)e->memory.out[slot], SLOT_BYTES, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(slot),
				  .wr.rdma = { .remote_addr = e->peer_address + offset, .rkey = e->peer_rkey } }, *bad;
	int rc = ibv_post_send(e->qp, &wr, &bad);

	if (rc != 0)
		die("ibv_post_send", rc);
}

/* Sleep until the CQ has something, and arm it again before it is polled: what arrives in between raises the next event. */
static void
wait_for_event(struct end *e)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(e->channel, &cq, &context) != 0)
		die("ibv_get_cq_event", errno);
	e->unacked_events++;
	if (ibv_req_notify_cq(cq, 0) != 0)
		die("ibv_req_notify_cq", errno);
}

/* Wait for WRITEs of the peer. Calls `arrived` for each, until `todo` WRITEs have arrived and `todo` of ours have completed. */
static void
serve(struct end *e, unsigned int todo, void (*arrived)(struct end *e, uint32_t slot, unsigned int number))
{
	unsigned int received = 0, sent = 0;
	struct ibv_wc wc;

	while (received < todo || sent < todo) {
		int n = ibv_poll_cq(e->cq, 1, &wc);

		if (n < 0)
			die("ibv_poll_cq", 0);
		if (n == 0) {
			wait_for_event(e);
			continue;
		}
		if (wc.status != IBV_WC_SUCCESS)
			die(ibv_wc_status_str(wc.status), 0);
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
			sent++;
			continue;
		}
		if (ntohl(wc.imm_data) >= SLOTS)
			die("the peer's immediate names no slot", 0);
		post_receive(e);
		arrived(e, ntohl(wc.imm_data), received++);
	}
}

static unsigned int messages = 100;

static void
server_arrived(struct end *e, uint32_t slot, unsigned int number)
{
	char text[SLOT_BYTES / 2] = ""; /* a copy: the peer may write into the slot at any time, and need not end its text */

	memcpy(text, e->memory.in[slot], sizeof(text) - 1);
	if (number == 0)
		printf("server: slot %u says \"%s\"\n", slot, text);
	snprintf(e->memory.out[slot], SLOT_BYTES, "answer to %s", text);
	send_slot(e, slot);
}

static void
client_send(struct end *e, unsigned int number)
{
	snprintf(e->memory.out[number % SLOTS], SLOT_BYTES, "message %u", number);
	send_slot(e, number % SLOTS);
}

static void
client_arrived(struct end *e, uint32_t slot, unsigned int number)
{
	char expected[SLOT_BYTES];

	snprintf(expected, sizeof(expected), "answer to message %u", number);
	if (slot != number % SLOTS || strncmp(e->memory.in[slot], expected, SLOT_BYTES) != 0)
		die("a wrong answer arrived", 0);
	if (number == 0)
		printf("client: slot %u says \"%s\"\n", slot, e->memory.in[slot]);
	if (number + SLOTS / 2 < messages)
		client_send(e, number + SLOTS / 2);
}

static void
close_all(struct end *e)
{
	ibv_ack_cq_events(e->cq, e->unacked_events);
	if (ibv_destroy_qp(e->qp) != 0 || ibv_destroy_cq(e->cq) != 0 || ibv_destroy_comp_channel(e->channel) != 0 ||
	    ibv_dereg_mr(e->mr) != 0 || ibv_dealloc_pd(e->pd) != 0 || ibv_close_device(e->device) != 0)
		die("closing", errno);
}

int
main(int argc, char **argv)
{
	static struct end e;
	const char *device = NULL, *port = "18520", *server;
	struct hello mine = { 0 }, theirs;
	char ready = 1;
	int opt, fd;

	while ((opt = getopt(argc, argv, "d:p:n:")) != -1) {
		if (opt == 'd')
			device = optarg;
		else if (opt == 'p')
			port = optarg;
		else if (opt != 'n' || (messages = (unsigned int)strtoul(optarg, NULL, 10)) < SLOTS)
			die("usage: write_imm [-d DEVICE] [-p PORT] [-n MESSAGES, at least 16, the same at both ends] [SERVER]", 0);
	}
	server = argv[optind];
	open_device(&e, device);
	choose_gid(&e);
	make_objects(&e);
	e.psn = (uint32_t)getpid() & 0xffffff;
	mine = (struct hello){ .qpn = htonl(e.qp->qp_num), .psn = htonl(e.psn), .rkey = htonl(e.mr->rkey),
			       .mtu = htonl(e.port.active_mtu), .address = htobe64((uintptr_t)&e.memory), .gid = e.gid };
	fd = tcp_connection(server, port);
	exchange(fd, &mine, &theirs, sizeof(mine));
	connect_qp(&e, &theirs);
	/* Nobody sends before the other end's QP can receive. */
	exchange(fd, &ready, &ready, sizeof(ready));
	for (unsigned int i = 0; server != NULL && i < SLOTS / 2; i++)
		client_send(&e, i);
	serve(&e, messages, server != NULL ? client_arrived : server_arrived);
	/* Nobody leaves before the other end has its last acknowledgement. */
	exchange(fd, &ready, &ready, sizeof(ready));
	close(fd);
	printf("%s: %u messages received, %u sent, all as expected\n", server != NULL ? "client" : "server", messages, messages);
	close_all(&e);
	return 0;
}
