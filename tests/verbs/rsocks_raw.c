/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that speaks the rsockets protocol itself, by rdma_cm and verbs, and gets it wrong: its connection ends,
 * the rsocket at the other end says so, and nothing else happens.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include "rsocks.h"

enum { OP_DATA = 0, OP_SGL = 4, OP_IOMAP = 6, OP_CTRL = 7, CREDITS = 384, RECVS = 400 };

struct sge {
	uint64_t addr;
	uint32_t key, length;
};

struct hello {
	uint8_t version, flags;
	uint16_t credits;
	uint8_t reserved[3], iomaps;
	struct sge list, chunk;
};

/** The raw peer, and the rsocket that it is connected to. */
struct raw {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;   /* of the buffer of all */
	struct hello theirs; /* in host order */
	int s;
};

static struct sge
big_endian(uint64_t addr, uint32_t key, uint32_t length)
{
	return (struct sge){ htobe64(addr), htobe32(key), htobe32(length) };
}

/** A peer on its way: nothing is left but to connect. */
static void
raw_start(struct vt *t, struct raw *r, const struct sockaddr_storage *addr)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };

	attr.cap.max_send_wr = attr.cap.max_recv_wr = RECVS;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	attr.cap.max_inline_data = 64;
	if (rdma_create_id(NULL, &r->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(r->id, NULL, (struct sockaddr *)addr, 2000) || rdma_resolve_route(r->id, 2000) ||
	    rdma_create_qp(r->id, NULL, &attr))
		vt_die("raw peer");
	for (int i = 0; i < RECVS; i++)
		VT_OK(rdma_post_recvv(r->id, NULL, NULL, 0));
	r->s = -1;
	r->mr = ibv_reg_mr(r->id->pd, t->buf, VT_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!r->mr)
		vt_die("raw peer");
}

static void
good_hello(const struct raw *r, struct hello *h)
{
	uint64_t buf = (uintptr_t)r->mr->addr;

	*h = (struct hello){ .version = 1, .flags = 2, .credits = htobe16(CREDITS) };
	h->list = big_endian(buf, r->mr->rkey, 2);
	h->chunk = big_endian(buf + 4096, r->mr->rkey, 4096);
}

/** @return 0 or an errno value */
static int
raw_connect(struct raw *r, const void *data, int bytes)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = (uint8_t)bytes, .retry_count = 7,
					 .rnr_retry_count = 7 };
	const struct hello *h;

	if (rdma_connect(r->id, &param))
		return errno;
	h = r->id->event->param.conn.private_data;
	r->theirs = *h;
	r->theirs.list = (struct sge){ be64toh(h->list.addr), be32toh(h->list.key), be32toh(h->list.length) };
	r->theirs.chunk = (struct sge){ be64toh(h->chunk.addr), be32toh(h->chunk.key), be32toh(h->chunk.length) };
	return 0;
}

static void
raw_end(struct raw *r)
{
	if (r->s >= 0)
		VT_OK(rclose(r->s));
	rdma_destroy_qp(r->id);
	VT_OK(ibv_dereg_mr(r->mr));
	rdma_destroy_id(r->id);
}

/** Connected, with a good hello except for @p change. */
static void
raw_pair(struct vt *t, struct raw *r, void (*change)(struct hello *h))
{
	struct sockaddr_storage addr;
	struct hello h;
	socklen_t len;
	int l = rt_listen(t, AF_INET, &addr, &len);

	raw_start(t, r, &addr);
	good_hello(r, &h);
	if (change)
		change(&h);
	VT_OK(raw_connect(r, &h, sizeof(h)));
	r->s = raccept(l, NULL, NULL);
	VT_CHECK(r->s >= 0, "%m");
	VT_OK(rclose(l));
}

/** A message, with @p bytes of data. */
static void
raw_message(struct raw *r, uint32_t msg, const void *data, uint32_t bytes, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)data, bytes, 0 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = bytes ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | (bytes ? IBV_SEND_INLINE : 0),
		.imm_data = htonl(msg),
	};

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	ibv_post_send(r->id->qp, &wr, &bad);
}

static void
raw_data(struct raw *r, uint32_t says, uint32_t bytes)
{
	static const uint8_t data[64];

	raw_message(r, (uint32_t)OP_DATA << 29 | says, data, bytes, r->theirs.chunk.addr, r->theirs.chunk.key);
}

/** What the peer did ends the connection: the rsocket hears why, or has heard by sending; the peer hears of it. */
static void
ends(struct raw *r, int why)
{
	char b[4096];
	ssize_t n;

	VT_CHECK(rt_poll(r->s, POLLIN, RT_MS) & POLLIN, "it goes on");
	while ((n = rrecv(r->s, b, sizeof(b), 0)) > 0)
		;
	VT_CHECK(n == 0 ? why == ECONNRESET : errno == why, "%m");
	VT_CHECK(rsend(r->s, b, 1, 0) == -1, "it goes on");
	VT_CHECK(vt_readable(r->id->channel->fd, RT_MS), "the peer heard nothing");
	raw_end(r);
}

static void
refused(struct vt *t, const struct sockaddr_storage *addr, void (*change)(struct hello *h), int bytes)
{
	struct hello h;
	struct raw r;
	int err;

	raw_start(t, &r, addr);
	good_hello(&r, &h);
	if (change)
		change(&h);
	err = raw_connect(&r, &h, bytes);
	VT_CHECK(err == ECONNREFUSED, "%d bytes: %s", bytes, strerror(err));
	raw_end(&r);
}

static void
other_version(struct hello *h)
{
	h->version = 2;
}

static void
no_list(struct hello *h)
{
	h->list.length = 0;
}

static void
endless_list(struct hello *h)
{
	h->list.length = UINT32_MAX;
}

static void
hello_that_is_none_is_rejected(struct vt *t)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int l = rt_listen(t, AF_INET, &addr, &len);

	/* What is missing is zeros on the wire: no list. */
	refused(t, &addr, NULL, 0);
	refused(t, &addr, NULL, 1);
	refused(t, &addr, NULL, 20);
	refused(t, &addr, other_version, sizeof(struct hello));
	refused(t, &addr, no_list, sizeof(struct hello));
	refused(t, &addr, endless_list, sizeof(struct hello));
	VT_OK(rclose(l));
}

static void
a_peer_that_keeps_the_rules_is_served(struct vt *t)
{
	struct raw r;
	char b[8];

	raw_pair(t, &r, NULL);
	raw_data(&r, 5, 5);
	VT_CHECK(rrecv(r.s, b, sizeof(b), 0) == 5, "%m");
	raw_message(&r, 7u << 29, NULL, 0, 0, 0);
	VT_CHECK(rrecv(r.s, b, sizeof(b), 0) == 0, "%m");
	raw_end(&r);
}

/** It isn't the end. */
static void
a_message_without_data_is_passed(struct vt *t)
{
	struct raw r;
	char b[8];

	raw_pair(t, &r, NULL);
	raw_data(&r, 0, 0);
	VT_CHECK(rt_poll(r.s, POLLIN, RT_MS) == POLLIN, "it didn't come");
	VT_CHECK(rrecv(r.s, b, sizeof(b), MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN, "%m");
	raw_data(&r, 0, 0);
	raw_data(&r, 2, 2);
	VT_CHECK(rrecv(r.s, b, sizeof(b), MSG_PEEK) == 2, "%m");
	VT_CHECK(rrecv(r.s, b, sizeof(b), 0) == 2, "%m");
	raw_data(&r, 0, 0);
	VT_CHECK(rt_poll(r.s, POLLIN, RT_MS) == POLLIN, "it didn't come");
	VT_CHECK(rrecv(r.s, b, sizeof(b), MSG_DONTWAIT) == -1 && errno == EAGAIN, "%m");
	raw_end(&r);
}

static void
more_bytes_than_granted_end_it(struct vt *t)
{
	static const uint32_t lies[] = { 0x1fffffff, 1 << 20, (1 << 17) + 1 };
	struct raw r;

	for (int i = 0; i < 3; i++) {
		raw_pair(t, &r, NULL);
		raw_data(&r, lies[i], 1);
		ends(&r, EPROTO);
	}
}

static void
more_messages_than_granted_end_it(struct vt *t)
{
	uint64_t end = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);
	struct raw r;

	raw_pair(t, &r, NULL);
	for (int i = 0; i <= CREDITS; i++)
		raw_data(&r, 1, 1);
	/* The rsocket takes them, and nobody reads. */
	while (!(rt_poll(r.s, POLLOUT, 0) & POLLERR) && vt_now_ns() < end)
		usleep(1000);
	ends(&r, EPROTO);
}

static void
operations_that_are_none_end_it(struct vt *t)
{
	static const uint32_t ops[] = { 1, 2, 3, 5 };
	struct raw r;

	for (int i = 0; i < 4; i++) {
		raw_pair(t, &r, NULL);
		raw_message(&r, ops[i] << 29, NULL, 0, 0, 0);
		ends(&r, EPROTO);
	}
}

static void
controls_and_mappings_that_are_none_are_ignored(struct vt *t)
{
	struct raw r;
	char b[8];

	raw_pair(t, &r, NULL);
	for (uint32_t i = 3; i < 30; i++)
		raw_message(&r, 7u << 29 | (1u << i & 0x1fffffff) | 1, NULL, 0, 0, 0);
	for (uint32_t i = 0; i < 29; i++)
		raw_message(&r, 6u << 29 | 1u << i, NULL, 0, 0, 0);
	raw_data(&r, 3, 3);
	VT_CHECK(rrecv(r.s, b, sizeof(b), 0) == 3, "%m");
	raw_end(&r);
}

static void
more_chunks_than_places_end_it(struct vt *t)
{
	struct sge chunk = { 1, 2, 3 };
	struct raw r;

	raw_pair(t, &r, NULL);
	for (int i = 0; i < 4; i++)
		raw_message(&r, (uint32_t)OP_SGL << 29 | CREDITS, &chunk, sizeof(chunk),
			    r.theirs.list.addr + sizeof(chunk) * (uint64_t)((i + 1) % 2), r.theirs.list.key);
	ends(&r, EPROTO);
}

static void
bad_address(struct hello *h)
{
	h->chunk.addr = htobe64(0x1234567890);
}

static void
bad_key(struct hello *h)
{
	h->chunk.key ^= htobe32(0x55);
}

static void
endless(struct hello *h)
{
	h->chunk.length = UINT32_MAX;
}

static void
chunks_that_cannot_be_written_end_it(struct vt *t)
{
	void (*const changes[])(struct hello *h) = { bad_address, bad_key, endless };
	static char b[VT_BUFFER_BYTES * 2];
	struct raw r;
	ssize_t n;

	for (int i = 0; i < 3; i++) {
		raw_pair(t, &r, changes[i]);
		n = rsend(r.s, b, sizeof(b), MSG_DONTWAIT);
		VT_CHECK(n > 0 || errno == ECONNRESET, "%m");
		ends(&r, ECONNRESET);
	}
}

static void
bad_list(struct hello *h)
{
	h->list.addr = htobe64(0x10);
}

static void
a_list_that_cannot_be_written_ends_it(struct vt *t)
{
	struct raw r;

	raw_pair(t, &r, bad_list);
	ends(&r, ECONNRESET);
}

static void
a_message_without_a_value_ends_it(struct vt *t)
{
	struct raw r;

	raw_pair(t, &r, NULL);
	VT_OK(rdma_post_send(r.id, NULL, t->buf, 1, t->mr, IBV_SEND_INLINE));
	ends(&r, ECONNRESET);
}

const struct vt_case rt_raw_cases[] = {
	VT_CASE(hello_that_is_none_is_rejected),
	VT_CASE(a_peer_that_keeps_the_rules_is_served),
	VT_CASE(a_message_without_data_is_passed),
	VT_CASE(more_bytes_than_granted_end_it),
	VT_CASE(more_messages_than_granted_end_it),
	VT_CASE(operations_that_are_none_end_it),
	VT_CASE(controls_and_mappings_that_are_none_are_ignored),
	VT_CASE(more_chunks_than_places_end_it),
	VT_CASE(chunks_that_cannot_be_written_end_it),
	VT_CASE(a_list_that_cannot_be_written_ends_it),
	VT_CASE(a_message_without_a_value_ends_it),
};
const unsigned int rt_nb_raw_cases = sizeof(rt_raw_cases) / sizeof(rt_raw_cases[0]);
