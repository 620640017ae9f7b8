/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that rest: what they cost a daemon, and how fast the first message after a rest is.
 *
 *   bench_rest idle QPS                          QPS connected QPs on one host, each used once; then sleeps until it is killed
 *   bench_rest server PORT                     answers each message, and sleeps in between
 *   bench_rest client ADDRESS PORT SECONDS N     N times: rests for SECONDS, sends a message, prints how many microseconds it took
 *                                                until the message was acknowledged, and until the answer had arrived
 *   bench_rest tcp-server PORT                 the same over TCP, beside which these figures can be judged
 *   bench_rest tcp-client ADDRESS PORT SECONDS N   prints how long the answer took
 *
 * Each says `ready' when it has its QPs. They know nothing of uroce.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "vt.h"

enum { MESSAGE_BYTES = 8, DEPTH = 4, QPS_MAX = 10000 };
#define NEED(ok) \
	do { \
		if (!(ok)) \
			vt_die(#ok); \
	} while (0)

static struct ibv_qp *
small_qp(struct vt *t, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(t->pd, &attr);

	NEED(qp != NULL);
	return qp;
}

/** Two completions: of the SEND, and of the receive at the other end. */
static void
use(struct vt *t, struct ibv_cq *cq, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_wc wc;

	vt_recv(t, to, 0);
	vt_send(t, from, IBV_WR_SEND, 0, MESSAGE_BYTES, IBV_SEND_SIGNALED);
	for (unsigned int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
}

static int
idle(unsigned int n)
{
	struct ibv_qp *pair[2];
	struct ibv_cq *cq;
	struct vt t;

	vt_begin(&t);
	cq = vt_cq(&t, DEPTH, NULL);
	for (unsigned int i = 0; i < n / 2; i++) {
		for (unsigned int k = 0; k < 2; k++)
			pair[k] = small_qp(&t, cq);
		for (unsigned int k = 0; k < 2; k++)
			vt_connect(&t, pair[k], pair[!k]);
		for (unsigned int k = 0; k < 2; k++)
			use(&t, cq, pair[k], pair[!k]);
	}
	if (vt_failed)
		return EXIT_FAILURE;
	puts("ready");
	for (;;)
		pause();
}

static struct rdma_addrinfo *
lookup(const char *node, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *found;

	NEED(rdma_getaddrinfo(node, port, &hints, &found) == 0);
	return found;
}

static void
attr_set(struct ibv_qp_init_attr *attr)
{
	*attr = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = { DEPTH, DEPTH, 1, 1, 0 } };
}

static int
serve(const char *port)
{
	static char message[MESSAGE_BYTES];
	struct rdma_cm_id *listener, *id;
	struct ibv_qp_init_attr attr;
	struct ibv_wc wc;
	struct ibv_mr *mr;

	attr_set(&attr);
	NEED(rdma_create_ep(&listener, lookup(NULL, port, RAI_PASSIVE), NULL, &attr) == 0);
	NEED(rdma_listen(listener, 1) == 0);
	puts("ready");
	NEED(rdma_get_request(listener, &id) == 0);
	NEED((mr = rdma_reg_msgs(id, message, sizeof(message))) != NULL);
	NEED(rdma_post_recv(id, NULL, message, sizeof(message), mr) == 0);
	NEED(rdma_accept(id, NULL) == 0);
	/* rdma_get_recv_comp() sleeps. */
	while (rdma_get_recv_comp(id, &wc) > 0 && wc.status == IBV_WC_SUCCESS) {
		NEED(rdma_post_recv(id, NULL, message, sizeof(message), mr) == 0);
		NEED(rdma_post_send(id, NULL, message, sizeof(message), mr, 0) == 0);
		NEED(rdma_get_send_comp(id, &wc) > 0);
	}
	return EXIT_SUCCESS;
}

/** @return microseconds since @p begin when a completion came to @p cq. */
static double
until(struct ibv_cq *cq, uint64_t begin)
{
	struct ibv_wc wc;

	NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return (double)(vt_now_ns() - begin) / 1e3;
}

static int
send_after_rests(const char *address, const char *port, unsigned int seconds, unsigned int n)
{
	static char out[MESSAGE_BYTES], in[MESSAGE_BYTES];
	struct ibv_mr *out_mr, *in_mr;
	struct ibv_qp_init_attr attr;
	struct rdma_cm_id *id;

	attr_set(&attr);
	NEED(rdma_create_ep(&id, lookup(address, port, 0), NULL, &attr) == 0);
	NEED((out_mr = rdma_reg_msgs(id, out, sizeof(out))) != NULL && (in_mr = rdma_reg_msgs(id, in, sizeof(in))) != NULL);
	NEED(rdma_post_recv(id, NULL, in, sizeof(in), in_mr) == 0);
	NEED(rdma_connect(id, NULL) == 0);
	puts("ready");
	/* The first one shows only that the connection works. */
	for (unsigned int i = 0; i <= n; i++) {
		double sent, answered;
		uint64_t begin;

		if (i > 0)
			sleep(seconds);
		begin = vt_now_ns();
		NEED(rdma_post_send(id, NULL, out, sizeof(out), out_mr, 0) == 0);
		sent = until(id->send_cq, begin);
		answered = until(id->recv_cq, begin);
		NEED(rdma_post_recv(id, NULL, in, sizeof(in), in_mr) == 0);
		if (i > 0)
			printf("%.2f %.2f\n", sent, answered);
	}
	/* No rdma_disconnect(): it waits for an answer, and the server sleeps until it is killed. */
	return EXIT_SUCCESS;
}

static struct addrinfo *
tcp_lookup(const char *node, const char *port, int flags)
{
	struct addrinfo hints = { .ai_flags = flags, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;

	NEED(getaddrinfo(node, port, &hints, &found) == 0);
	return found;
}

static int
tcp_serve(const char *port)
{
	const struct addrinfo *at = tcp_lookup(NULL, port, AI_PASSIVE);
	int listener = socket(at->ai_family, at->ai_socktype, 0), sock, one = 1;
	char message[MESSAGE_BYTES];

	NEED(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0);
	NEED(bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, 1) == 0);
	puts("ready");
	NEED((sock = accept(listener, NULL, NULL)) >= 0);
	NEED(setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	while (recv(sock, message, sizeof(message), MSG_WAITALL) == sizeof(message))
		NEED(send(sock, message, sizeof(message), MSG_NOSIGNAL) == sizeof(message));
	return EXIT_SUCCESS;
}

/** As send_after_rests(): this end polls, too. */
static int
tcp_after_rests(const char *address, const char *port, unsigned int seconds, unsigned int n)
{
	const struct addrinfo *to = tcp_lookup(address, port, 0);
	int sock = socket(to->ai_family, to->ai_socktype, 0), one = 1;
	char message[MESSAGE_BYTES] = { 0 };

	NEED(sock >= 0 && connect(sock, to->ai_addr, to->ai_addrlen) == 0);
	NEED(setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	for (unsigned int i = 0; i <= n; i++) {
		uint64_t begin;
		ssize_t got;

		if (i > 0)
			sleep(seconds);
		begin = vt_now_ns();
		NEED(send(sock, message, sizeof(message), MSG_NOSIGNAL) == sizeof(message));
		do
			got = recv(sock, message, sizeof(message), MSG_DONTWAIT);
		while (got < 0 && errno == EAGAIN);
		NEED(got == sizeof(message));
		if (i > 0)
			printf("%.2f\n", (double)(vt_now_ns() - begin) / 1e3);
	}
	return EXIT_SUCCESS;
}

/** @return the number that @p text is, from 1 to @p max. */
static unsigned int
number(const char *text, unsigned int max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end == '\0' && n >= 1 && n <= max)
		return (unsigned int)n;
	fprintf(stderr, "bench_rest: %s: must be a number from 1 to %u\n", text, max);
	exit(EXIT_FAILURE);
}

int
main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "idle") == 0)
		return idle(number(argv[2], QPS_MAX));
	if (argc == 3 && strcmp(argv[1], "server") == 0)
		return serve(argv[2]);
	if (argc == 6 && strcmp(argv[1], "client") == 0)
		return send_after_rests(argv[2], argv[3], number(argv[4], 86400), number(argv[5], 1000000));
	if (argc == 3 && strcmp(argv[1], "tcp-server") == 0)
		return tcp_serve(argv[2]);
	if (argc == 6 && strcmp(argv[1], "tcp-client") == 0)
		return tcp_after_rests(argv[2], argv[3], number(argv[4], 86400), number(argv[5], 1000000));
	fprintf(stderr, "usage: bench_rest idle QPS\n"
			"       bench_rest server|tcp-server PORT\n"
			"       bench_rest client|tcp-client ADDRESS PORT SECONDS N\n");
	return EXIT_FAILURE;
}
