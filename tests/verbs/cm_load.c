/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many connections by rdma_cm: how fast they come and go, and how many there may be at once.
 *
 *   cm_load server [-p PORT] [-b BACKLOG] [-d]   answers each message with itself; -d: leaves requests unanswered
 *   cm_load client ADDRESS [-p PORT] [-n CONNECTIONS] [-w WINDOW] [-k [-s SECONDS]] [-r]
 *
 * The client opens CONNECTIONS, WINDOW of them at a time (1), sends a message through each, waits for the answer, and
 * disconnects. -k: none is closed before all are open and used, and -s: for so long. -r: refused ones count too, and what they were told is
 * printed. It knows nothing of uroce. Status 0: every connection was opened, used and closed (-r: or refused).
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	MESSAGE_BYTES = 64,
	CQ_DEPTH = 32768,
	RESOLVE_MS = 4000,
	MAX_REASON = 64,
	PORT_TEXT_MAX = 16,
	WC_BATCH = 64,
};

#define CHECK(ok)                                                                                                      \
	do {                                                                                                           \
		if (!(ok)) {                                                                                           \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #ok, strerror(errno));                          \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

struct conn {
	struct rdma_cm_id *id;
	bool used;
};

static struct {
	bool client, keep, deaf, refusals;
	unsigned int total, window, stay;
	int backlog;
	char port[PORT_TEXT_MAX];
	struct sockaddr_storage peer;
} opt = { .total = 1, .window = 1, .backlog = 1024, .port = "7480" };

static struct rdma_event_channel *ec;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char message[MESSAGE_BYTES];
static unsigned int opened, used, closed, refused, reasons[MAX_REASON];
static struct conn **held;

/* ---- Queues, which all connections share ---- */
static void
make_queues(struct ibv_context *verbs)
{
	if (cq != NULL)
		return;
	CHECK((pd = ibv_alloc_pd(verbs)) != NULL);
	CHECK((mr = ibv_reg_mr(pd, message, sizeof(message), IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK((channel = ibv_create_comp_channel(verbs)) != NULL);
	CHECK((cq = ibv_create_cq(verbs, CQ_DEPTH, NULL, channel, 0)) != NULL);
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
}

static void
post_receive(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)message, sizeof(message), mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)c, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(c->id->qp, &wr, &bad) == 0);
}

static void
post_send(struct conn *c)
{
	struct ibv_sge sge = { (uintptr_t)message, sizeof(message), mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uintptr_t)c, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	CHECK(ibv_post_send(c->id->qp, &wr, &bad) == 0);
}

static void
make_qp(struct conn *c)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 2, 1, 1, 1, 0 } };

	make_queues(c->id->verbs);
	attr.send_cq = attr.recv_cq = cq;
	CHECK(rdma_create_qp(c->id, pd, &attr) == 0);
	post_receive(c);
}

/* ---- Connections ---- */
static void
open_one(void)
{
	struct conn *c = calloc(1, sizeof(*c));

	CHECK(c != NULL);
	CHECK(rdma_create_id(ec, &c->id, c, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&opt.peer, RESOLVE_MS) == 0);
	opened++;
}

static void
end(struct conn *c)
{
	if (c->id->qp != NULL)
		rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	free(c);
	closed++;
}

/* The client's turn after something has ended or, of those that are kept, has been used. */
static void
go_on(void)
{
	unsigned int i, busy = opened - (opt.keep ? used + refused : closed);

	while (opt.client && opened < opt.total && busy++ < opt.window)
		open_one();
	if (!opt.keep || used + refused < opt.total)
		return;
	if (opt.stay != 0) {
		printf("all are open\n");
		sleep(opt.stay);
	}
	for (i = 0; i < used; i++)
		CHECK(rdma_disconnect(held[i]->id) == 0);
	opt.keep = false;
}

static void
on_completion(const struct ibv_wc *wc)
{
	struct conn *c = (struct conn *)(uintptr_t)wc->wr_id;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "completion with status %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
	if (wc->opcode != IBV_WC_RECV)
		return;
	if (!opt.client) {
		post_send(c);
		return;
	}
	c->used = true;
	held[used++] = c;
	if (opt.keep)
		go_on();
	else
		CHECK(rdma_disconnect(c->id) == 0);
}

static void
request(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7, .retry_count = 7 };
	struct conn *c = calloc(1, sizeof(*c));

	CHECK(c != NULL);
	c->id = id;
	id->context = c;
	if (opt.deaf)
		return;
	make_qp(c);
	CHECK(rdma_accept(id, &param) == 0);
}

static void
rejected(struct conn *c, int reason)
{
	if (!opt.refusals) {
		fprintf(stderr, "refused, reason %d\n", reason);
		exit(1);
	}
	refused++;
	reasons[reason < 0 || reason >= MAX_REASON ? 0 : reason]++;
	end(c);
}

static void
on_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7, .retry_count = 7 };
	struct conn *c = id->context;

	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		make_qp(c);
		CHECK(rdma_resolve_route(id, RESOLVE_MS) == 0);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		CHECK(rdma_connect(id, &param) == 0);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		request(id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (opt.client)
			post_send(c);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!opt.client)
			rdma_disconnect(id);
		end(c);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(c, status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		/* Whoever asked has gone meanwhile. */
		if (!opt.client) {
			end(c);
			break;
		}
		/* fallthrough */
	default:
		fprintf(stderr, "%s, status %d\n", rdma_event_str(event), status);
		exit(1);
	}
	go_on();
}

/* ---- The loop ---- */
static void
take_completions(void)
{
	struct ibv_wc wc[WC_BATCH];
	struct ibv_cq *of;
	void *context;
	int i, n;

	CHECK(ibv_get_cq_event(channel, &of, &context) == 0);
	ibv_ack_cq_events(of, 1);
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
	while ((n = ibv_poll_cq(cq, WC_BATCH, wc)) > 0) {
		for (i = 0; i < n; i++)
			on_completion(&wc[i]);
	}
	CHECK(n == 0);
}

static void
take_event(void)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int status;

	CHECK(rdma_get_cm_event(ec, &event) == 0);
	type = event->event;
	status = event->status;
	id = event->id;
	CHECK(rdma_ack_cm_event(event) == 0);
	on_event(id, type, status);
}

static void
turn(void)
{
	struct pollfd p[2] = { { .fd = ec->fd, .events = POLLIN }, { .fd = -1, .events = POLLIN } };

	if (channel != NULL)
		p[1].fd = channel->fd;
	CHECK(poll(p, 2, -1) > 0);
	if (p[1].revents != 0)
		take_completions();
	if (p[0].revents != 0)
		take_event();
}

static void
serve(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(opt.port)) };
	struct rdma_cm_id *listener;

	CHECK(rdma_create_id(ec, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	CHECK(rdma_listen(listener, opt.backlog) == 0);
	for (;;)
		turn();
}

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
run_client(const char *address)
{
	struct addrinfo *ai;
	double start;

	CHECK(getaddrinfo(address, opt.port, NULL, &ai) == 0);
	memcpy(&opt.peer, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	CHECK((held = calloc(opt.total, sizeof(struct conn *))) != NULL);
	start = seconds();
	go_on();
	while (closed < opt.total)
		turn();
	printf("%u connections opened, %u used, %u refused, all closed: %.0f per second\n", opened, used, refused,
	       opened / (seconds() - start));
	for (unsigned int i = 0; i < MAX_REASON; i++) {
		if (reasons[i] != 0)
			printf("reason %u: %u\n", i, reasons[i]);
	}
}

int
main(int argc, char **argv)
{
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt(argc, argv, "p:n:w:b:s:kdr")) != -1) {
		switch (c) {
		case 'p':
			snprintf(opt.port, sizeof(opt.port), "%s", optarg);
			break;
		case 'n':
			opt.total = (unsigned int)atoi(optarg);
			break;
		case 'w':
			opt.window = (unsigned int)atoi(optarg);
			break;
		case 'b':
			opt.backlog = atoi(optarg);
			break;
		case 's':
			opt.stay = (unsigned int)atoi(optarg);
			break;
		case 'k':
			opt.keep = true;
			break;
		case 'd':
			opt.deaf = true;
			break;
		case 'r':
			opt.refusals = true;
			break;
		default:
			return 2;
		}
	}
	opt.client = argc - optind == 2 && !strcmp(argv[optind], "client");
	if (!opt.client && (argc - optind != 1 || strcmp(argv[optind], "server") != 0)) {
		fprintf(stderr, "usage: %s server [-p PORT] [-b BACKLOG] [-d]\n"
			"       %s client ADDRESS [-p PORT] [-n CONNECTIONS] [-w WINDOW] [-k [-s SECONDS]] [-r]\n", argv[0], argv[0]);
		return 2;
	}
	CHECK((ec = rdma_create_event_channel()) != NULL);
	if (opt.client)
		run_client(argv[optind + 1]);
	else
		serve();
	return 0;
}
