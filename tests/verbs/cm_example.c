/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ends that connect by rdma_cm, tell each other where a region of theirs is, write into the other's or read from it, and
 * part: the textbook's program, with a thread for connection events and one for completions.
 *
 *   cm_example server read|write                 listens on any address, on a port that it prints
 *   cm_example client read|write ADDRESS PORT
 *
 * It knows nothing of uroce. Status 0: the other end's text has come.
 */
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	REGION_BYTES = 1024,
	QUEUE_DEPTH = 10,
	RESOLVE_MS = 2000,
};

/* A text of no use to a compiler is none to a user either: what failed, and with which errno. */
#define CHECK(ok)                                                                                                      \
	do {                                                                                                           \
		if (!(ok)) {                                                                                           \
			perror(#ok);                                                                                   \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum message_type { MESSAGE_REGION, MESSAGE_DONE };
struct message {
	enum message_type type;
	uint32_t rkey;
	uint64_t addr;
};

struct side {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool active, writes;
	_Atomic bool established;
	pthread_t poller;

	struct message *in, *out;
	char *local, *remote; /* our end of what we ask for; what the peer may touch */
	struct ibv_mr *in_mr, *out_mr, *local_mr, *remote_mr;
	struct message peer;
	unsigned int sent, received; /* completions */
	bool region_sent;
};

/* ---- Work requests ---- */
static void
post_receive(struct side *s)
{
	struct ibv_sge sge = { (uintptr_t)s->in, sizeof(*s->in), s->in_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)s, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(s->id->qp, &wr, &bad) == 0);
}

static void
post_send(struct side *s, enum message_type type)
{
	struct ibv_sge sge = { (uintptr_t)s->out, sizeof(*s->out), s->out_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)s,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		/*
		 * The peer parts when it has got DONE. Without a fence that may be before our READ is answered: requests behind a READ
		 * don't wait for it.
		 */
		.send_flags = IBV_SEND_SIGNALED | (type == MESSAGE_DONE ? IBV_SEND_FENCE : 0),
	}, *bad;

	*s->out = (struct message){ type, s->remote_mr->rkey, (uintptr_t)s->remote };
	/* The passive end may hear from its peer before it hears that there is a connection. */
	while (!s->established)
		usleep(100);
	CHECK(ibv_post_send(s->id->qp, &wr, &bad) == 0);
}

static void
post_one_sided(struct side *s)
{
	struct ibv_sge sge = { (uintptr_t)s->local, REGION_BYTES, s->local_mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)s,
		.opcode = s->writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = s->peer.addr, .rkey = s->peer.rkey },
	}, *bad;

	CHECK(ibv_post_send(s->id->qp, &wr, &bad) == 0);
}

static void
send_region(struct side *s)
{
	s->region_sent = true;
	post_send(s, MESSAGE_REGION);
}

/* ---- Completions ---- */
enum { SENDS = 3 /* region, READ or WRITE, done */, RECEIVES = 2 /* region, done */ };

/**
 * A peer parts only after it has got all that we sent. What is flushed after its last message was executed; only the
 * acknowledgement is missing, which may be lost with nobody there to repeat it.
 */
static bool
is_success(const struct side *s, const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS || (wc->status == IBV_WC_WR_FLUSH_ERR && s->received == RECEIVES);
}

static void
on_completion(struct side *s, const struct ibv_wc *wc)
{
	if (!is_success(s, wc)) {
		fprintf(stderr, "completion with status %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
	if (wc->opcode == IBV_WC_RECV && wc->status == IBV_WC_SUCCESS) {
		s->received++;
		if (s->in->type == MESSAGE_REGION) {
			s->peer = *s->in;
			post_receive(s);
			if (!s->region_sent)
				send_region(s);
		}
	} else {
		s->sent++;
		printf("send completed successfully.\n");
	}
	if (s->sent == 1 && s->received == 1) {
		printf("received MSG_MR. %s remote memory...\n",
		       s->writes ? "writing message to" : "reading message from");
		post_one_sided(s);
		post_send(s, MESSAGE_DONE);
	}
}

static bool
finished(const struct side *s)
{
	return s->sent == SENDS && s->received == RECEIVES;
}

static void *
poll_completions(void *arg)
{
	struct side *s = arg;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n;

	while (!finished(s)) {
		CHECK(ibv_get_cq_event(s->channel, &cq, &context) == 0);
		ibv_ack_cq_events(cq, 1);
		CHECK(ibv_req_notify_cq(cq, 0) == 0);
		while (!finished(s) && (n = ibv_poll_cq(cq, 1, &wc)) != 0) {
			CHECK(n == 1);
			on_completion(s, &wc);
		}
	}
	printf("remote buffer: %s\n", s->writes ? s->remote : s->local);
	rdma_disconnect(s->id);
	return NULL;
}

/* ---- Connections ---- */
static struct ibv_mr *
region(struct side *s, void **memory, size_t bytes, int access)
{
	struct ibv_mr *mr;

	*memory = calloc(1, bytes);
	CHECK(*memory != NULL);
	CHECK((mr = ibv_reg_mr(s->id->pd, *memory, bytes, access)) != NULL);
	return mr;
}

static void
build(struct side *s, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { QUEUE_DEPTH, QUEUE_DEPTH, 1, 1, 0 },
	};
	char *text;

	s->id = id;
	id->context = s;
	CHECK((s->channel = ibv_create_comp_channel(id->verbs)) != NULL);
	CHECK((s->cq = ibv_create_cq(id->verbs, QUEUE_DEPTH, NULL, s->channel, 0)) != NULL);
	CHECK(ibv_req_notify_cq(s->cq, 0) == 0);
	attr.send_cq = attr.recv_cq = s->cq;
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
	s->in_mr = region(s, (void **)&s->in, sizeof(*s->in), IBV_ACCESS_LOCAL_WRITE);
	s->out_mr = region(s, (void **)&s->out, sizeof(*s->out), 0);
	s->local_mr = region(s, (void **)&s->local, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
	s->remote_mr = region(s, (void **)&s->remote, REGION_BYTES,
			      s->writes ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ);
	text = s->writes ? s->local : s->remote;
	snprintf(text, REGION_BYTES, "message from %s side with pid %d", s->active ? "active/client" : "passive/server",
		 getpid());
	post_receive(s);
	CHECK(pthread_create(&s->poller, NULL, poll_completions, s) == 0);
}

static void
tear_down(struct side *s)
{
	pthread_join(s->poller, NULL);
	rdma_destroy_qp(s->id);
	ibv_dereg_mr(s->in_mr);
	ibv_dereg_mr(s->out_mr);
	ibv_dereg_mr(s->local_mr);
	ibv_dereg_mr(s->remote_mr);
	free(s->in);
	free(s->out);
	free(s->local);
	free(s->remote);
	ibv_destroy_cq(s->cq);
	ibv_destroy_comp_channel(s->channel);
}

static struct rdma_conn_param
parameters(void)
{
	/* 7 times after a loss; for a receive that isn't posted yet, 7 is for ever. */
	return (struct rdma_conn_param){
		.initiator_depth = 1, .responder_resources = 1, .retry_count = 7, .rnr_retry_count = 7
	};
}

/** @return true: the connection has ended. */
static bool
on_event(struct side *s, struct rdma_cm_id *id, enum rdma_cm_event_type event)
{
	struct rdma_conn_param param = parameters();

	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		printf("address resolved.\n");
		build(s, id);
		CHECK(rdma_resolve_route(id, RESOLVE_MS) == 0);
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		printf("route resolved.\n");
		CHECK(rdma_connect(id, &param) == 0);
		return false;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		printf("received connection request.\n");
		build(s, id);
		CHECK(rdma_accept(id, &param) == 0);
		return false;
	case RDMA_CM_EVENT_ESTABLISHED:
		s->established = true;
		if (s->active)
			send_region(s);
		return false;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Answers the peer, and flushes what it will acknowledge no more. */
		rdma_disconnect(id);
		return true;
	default:
		fprintf(stderr, "unexpected event %s\n", rdma_event_str(event));
		exit(1);
	}
}

static void
run(struct side *s, struct rdma_event_channel *ec)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	do {
		CHECK(rdma_get_cm_event(ec, &event) == 0);
		type = event->event;
		id = event->id;
		CHECK(rdma_ack_cm_event(event) == 0);
	} while (!on_event(s, id, type));
	tear_down(s);
	printf(s->active ? "disconnected.\n" : "peer disconnected.\n");
	rdma_destroy_id(s->id);
}

static void
serve(struct side *s)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	CHECK(ec != NULL);
	CHECK(rdma_create_id(ec, &listener, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
	CHECK(rdma_listen(listener, QUEUE_DEPTH) == 0);
	printf("listening on port %d.\n", ntohs(rdma_get_src_port(listener)));
	run(s, ec);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(ec);
}

static void
connect_to(struct side *s, const char *address, const char *port)
{
	struct rdma_event_channel *ec = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct addrinfo *ai;

	CHECK(ec != NULL);
	CHECK(getaddrinfo(address, port, NULL, &ai) == 0);
	CHECK(rdma_create_id(ec, &id, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(id, NULL, ai->ai_addr, RESOLVE_MS) == 0);
	freeaddrinfo(ai);
	run(s, ec);
	rdma_destroy_event_channel(ec);
}

int
main(int argc, char **argv)
{
	bool server = argc == 3 && !strcmp(argv[1], "server"), client = argc == 5 && !strcmp(argv[1], "client");
	struct side s = { .active = client };

	setvbuf(stdout, NULL, _IOLBF, 0);
	if ((!server && !client) || (strcmp(argv[2], "read") && strcmp(argv[2], "write"))) {
		fprintf(stderr, "usage: %s server read|write\n       %s client read|write ADDRESS PORT\n", argv[0], argv[0]);
		return 2;
	}
	s.writes = !strcmp(argv[2], "write");
	if (client)
		connect_to(&s, argv[3], argv[4]);
	else
		serve(&s);
	return 0;
}
