/* SPDX-License-Identifier: BSD-3-Clause */
#include "work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { POLL_BURST = 16 };

const char *const work_names[WORK_OPS] = { [WORK_WRITE] = "write", [WORK_SEND] = "send", [WORK_READ] = "read" };

/* ---- Content of message @number: all words of a message differ, and so do those of different messages ---- */
#define WORD(number, i) (((uint64_t)(number) + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(i) * UINT64_C(0xd1b54a32d192ed03))

static void
fill(uint8_t *p, size_t n, uint32_t number)
{
	uint64_t w;
	size_t i;

	for (i = 0; i < n / sizeof(w); i++) {
		w = WORD(number, i);
		memcpy(p + i * sizeof(w), &w, sizeof(w));
	}
	w = WORD(number, i);
	memcpy(p + i * sizeof(w), &w, n % sizeof(w));
}

static bool
check(const uint8_t *p, size_t n, uint32_t number, const char *what)
{
	uint64_t w, differs = 0;
	size_t i;

	for (i = 0; i < n / sizeof(w); i++) {
		memcpy(&w, p + i * sizeof(w), sizeof(w));
		differs |= w ^ WORD(number, i);
	}
	w = WORD(number, i);
	if (differs == 0 && memcmp(p + i * sizeof(w), &w, n % sizeof(w)) == 0)
		return true;
	fprintf(stderr, "embed: %s, message %" PRIu32 ": wrong bytes\n", what, number);
	return false;
}

/* ---- Both ends ---- */
size_t
work_bytes(size_t size)
{
	return 2 * HOST_DEPTH * size;
}

static uint8_t *
slot(const struct host *h, size_t size, uint64_t number)
{
	return h->mem + number % HOST_DEPTH * size;
}

/** The part of the server's memory that READs read. */
static size_t
read_offset(size_t size, uint64_t number)
{
	return (HOST_DEPTH + number % HOST_DEPTH) * size;
}

static bool
post_recv(struct host *h, void *to, size_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)to, (uint32_t)bytes, h->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = bytes > 0 }, *bad;
	int rc = ibv_post_recv(h->qp, &wr, &bad);

	if (rc != 0)
		fprintf(stderr, "embed: posting a receive: %s\n", strerror(rc));
	return rc == 0;
}

static bool
post_send(struct host *h, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc = ibv_post_send(h->qp, wr, &bad);

	if (rc != 0)
		fprintf(stderr, "embed: posting a work request: %s\n", strerror(rc));
	return rc == 0;
}

static bool
is_good(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		fprintf(stderr, "embed: a work request failed: %s\n", ibv_wc_status_str(wc->status));
	return wc->status == IBV_WC_SUCCESS;
}

/* ---- Client ---- */
bool
client_init(struct client *c, struct host *h, const struct host *peer, size_t size)
{
	*c = (struct client){ .host = h, .peer = peer, .size = size };
	for (int i = 0; i < HOST_DEPTH; i++)
		if (!post_recv(h, NULL, 0))
			return false;
	return true;
}

void
client_begin(struct client *c, enum work_op op)
{
	c->op = op;
	c->sent = c->completed = c->answered = 0;
}

uint64_t
client_done(const struct client *c)
{
	return c->op == WORK_READ || c->completed < c->answered ? c->completed : c->answered;
}

static bool
client_post(struct client *c)
{
	uint8_t *mem = slot(c->host, c->size, c->op == WORK_READ ? c->sent : c->number);
	struct ibv_sge sge = { (uintptr_t)mem, (uint32_t)c->size, c->host->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = c->sent, .sg_list = &sge, .num_sge = 1 };

	wr.wr.rdma.rkey = c->peer->mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)slot(c->peer, c->size, c->number);
	wr.imm_data = htobe32(c->number);
	switch (c->op) {
	case WORK_WRITE:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		break;
	case WORK_SEND:
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		break;
	default:
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = (uintptr_t)c->peer->mem + read_offset(c->size, c->sent);
		break;
	}
	if (c->op == WORK_READ)
		memset(mem, 0, c->size);
	else
		fill(mem, c->size, c->number++);
	c->sent++;
	return post_send(c->host, &wr);
}

bool
client_step(struct client *c, bool more)
{
	struct ibv_wc wc[POLL_BURST];
	int n = ibv_poll_cq(c->host->cq, POLL_BURST, wc);

	for (int i = 0; i < n; i++) {
		if (!is_good(&wc[i]))
			return false;
		if (wc[i].opcode == IBV_WC_RECV) {
			c->answered++;
			if (!post_recv(c->host, NULL, 0))
				return false;
			continue;
		}
		c->completed++;
		if (wc[i].opcode == IBV_WC_RDMA_READ &&
		    !check(slot(c->host, c->size, wc[i].wr_id), c->size, (uint32_t)(wc[i].wr_id % HOST_DEPTH), "read"))
			return false;
	}
	while (more && c->sent - client_done(c) < HOST_DEPTH)
		if (!client_post(c))
			return false;
	return n >= 0;
}

/* ---- Server ---- */
bool
server_init(struct server *s, struct host *h, size_t size)
{
	*s = (struct server){ .host = h, .size = size };
	for (uint32_t i = 0; i < HOST_DEPTH; i++) {
		fill(h->mem + read_offset(size, i), size, i);
		if (!post_recv(h, slot(h, size, i), size))
			return false;
	}
	return true;
}

/** The next message has arrived, by any of the operations. */
static bool
server_take(struct server *s, const struct ibv_wc *wc)
{
	struct ibv_send_wr answer = { .opcode = IBV_WR_SEND };
	uint32_t number = s->number++;
	uint8_t *mem = slot(s->host, s->size, number);

	if (wc->byte_len != s->size || be32toh(wc->imm_data) != number) {
		fprintf(stderr, "embed: message %" PRIu32 " came with number %" PRIu32 " and %" PRIu32 " bytes\n", number,
			be32toh(wc->imm_data), wc->byte_len);
		return false;
	}
	if (!check(mem, s->size, number, wc->opcode == IBV_WC_RECV ? "send" : "write"))
		return false;
	return post_recv(s->host, mem, s->size) && post_send(s->host, &answer);
}

bool
server_step(struct server *s)
{
	struct ibv_wc wc[POLL_BURST];
	int n = ibv_poll_cq(s->host->cq, POLL_BURST, wc);

	for (int i = 0; i < n; i++) {
		if (!is_good(&wc[i]))
			return false;
		if ((wc[i].opcode & IBV_WC_RECV) && !server_take(s, &wc[i]))
			return false;
	}
	return n >= 0;
}
