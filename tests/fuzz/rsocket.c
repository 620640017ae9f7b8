/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/rsocket: the formats that a peer fills in (rs_wire.h), and the arithmetic of a stream's flow control with whatever a peer
 * grants and sends (rs_flow.h): whatever it does, no byte is written outside the ring and the chunks.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "rsocket/rs_flow.h"

enum { RING = 1 << 13, QUEUE = 8, ADDRESS = 1 << 20, SLOTS = 2 * QUEUE + 1 };

enum op { OP_HELLO, OP_DGRAM, OP_UDP, OP_GRANT, OP_LIMIT, OP_SEND, OP_DONE, OP_ARRIVE, OP_READ, OP_GIVE, OP_SCALE, OPS };

struct stream {
	struct rs_tx tx;
	struct rs_rx rx;
	uint32_t slots[SLOTS];
	uint64_t last_wr;   /**< of the last work request that asked for a completion */
	bool ended;         /**< the peer broke the rules */
};

static void
begin(struct stream *s)
{
	memset(s, 0, sizeof(*s));
	s->tx.max_wr = QUEUE;
	s->tx.ring_bytes = RING;
	s->rx.ring_bytes = RING;
	s->rx.nb_slots = SLOTS;
	s->rx.queue = QUEUE;
	s->rx.slots = s->slots;
	/* As rs_conn.c begins: one half is granted by REQ or REP. */
	atomic_store(&s->rx.granted_bytes, RING / 2);
	s->rx.grant_at = RING / 2;
}

static void
hello(struct fuzz_in *in)
{
	size_t n = 256;
	uint8_t *bytes = fuzz_copy(in, &n);
	struct rs_hello h, again;
	struct rs_conn_data out;

	if (rs_hello_get(bytes, n, &h) == 0) {
		FUZZ_CHECK(h.list.length >= 1 && h.list.length <= RS_REMOTE_CHUNKS_MAX && h.iomaps <= RS_IOMAP_MAX);
		rs_hello_put(&h, &out);
		FUZZ_CHECK(rs_hello_get(&out, sizeof(out), &again) == 0);
		FUZZ_CHECK(again.credits == h.credits && again.list.addr == h.list.addr && again.chunk.length == h.chunk.length);
	}
	free(bytes);
}

static void
datagram(struct fuzz_in *in)
{
	size_t n = 64, got;
	uint8_t *bytes = fuzz_copy(in, &n);
	struct sockaddr_storage from;
	struct rs_dgram_hdr h;

	got = rs_dgram_hdr_get(bytes, n, &from);
	FUZZ_CHECK(got <= n);
	if (got > 0) {
		rs_dgram_hdr_put(&h, (struct sockaddr *)&from);
		FUZZ_CHECK(h.length == got && memcmp(&h, bytes, got) == 0);
	}
	free(bytes);
}

static void
udp(struct fuzz_in *in)
{
	sa_family_t family = fuzz_below(in, 2) ? AF_INET : AF_INET6;
	size_t n = 64, got;
	uint8_t *bytes = fuzz_copy(in, &n), op = 0;
	uint32_t qpn = 0;

	got = rs_udp_hdr_get(bytes, n, family, &op, &qpn);
	FUZZ_CHECK(got <= n && (got == 0 || qpn <= RS_UDP_QPN_MASK));
	free(bytes);
}

static void
send_data(struct stream *s, uint32_t want)
{
	uint32_t fit;
	bool signal;
	uint64_t id;

	if (!rs_tx_ready(&s->tx))
		return;
	fit = rs_tx_fit(&s->tx, want);
	FUZZ_CHECK(fit <= s->tx.chunk.length && fit <= rs_tx_free_bytes(&s->tx) && fit <= want);
	if (fit == 0)
		return;
	rs_tx_use_chunk(&s->tx, fit);
	id = rs_tx_post(&s->tx, fit, &signal);
	if (signal)
		s->last_wr = id;
	FUZZ_CHECK(s->tx.at < RING && s->tx.posted - atomic_load(&s->tx.done) <= s->tx.max_wr);
}

static void
receive(struct stream *s, uint32_t bytes)
{
	if (rs_rx_arrived(&s->rx, bytes) != 0) {
		s->ended = true;
		return;
	}
	/* All that has arrived and isn't read yet is in the ring. */
	FUZZ_CHECK(s->rx.arrived_bytes - atomic_load(&s->rx.read_bytes) <= RING);
}

static void
read_data(struct stream *s, uint32_t want)
{
	uint32_t *slot;

	if (!rs_rx_has_data(&s->rx))
		return;
	slot = &s->rx.slots[atomic_load(&s->rx.head)];
	want = want < *slot ? want : *slot;
	FUZZ_CHECK(want <= RING);
	*slot -= want;
	rs_rx_read(&s->rx, want);
	FUZZ_CHECK(s->rx.at < RING);
	if (*slot == 0)
		rs_rx_pop(&s->rx);
}

static void
grant(struct stream *s)
{
	int64_t half;

	if (!rs_rx_grant_due(&s->rx))
		return;
	rs_rx_grant(&s->rx, &half);
	FUZZ_CHECK(half == -1 || half == 0 || half == RING / 2);
	FUZZ_CHECK(atomic_load(&s->rx.granted_bytes) - atomic_load(&s->rx.read_bytes) <= RING);
}

static void
run(struct stream *s, enum op op, struct fuzz_in *in)
{
	struct rs_sge chunk;
	uint32_t n;

	switch (op) {
	case OP_HELLO:
		hello(in);
		break;
	case OP_DGRAM:
		datagram(in);
		break;
	case OP_UDP:
		udp(in);
		break;
	case OP_GIVE:
		chunk = (struct rs_sge){ ADDRESS + fuzz_u16(in), fuzz_u8(in), fuzz_u32(in) };
		s->ended |= rs_tx_give(&s->tx, &chunk) != 0;
		break;
	case OP_LIMIT:
		rs_tx_limit(&s->tx, fuzz_u32(in));
		break;
	case OP_SEND:
		send_data(s, fuzz_u16(in));
		break;
	case OP_DONE:
		rs_tx_done(&s->tx, s->last_wr);
		break;
	case OP_ARRIVE:
		receive(s, fuzz_u32(in) & RS_MSG_DATA_MASK);
		break;
	case OP_READ:
		read_data(s, 1 + fuzz_u16(in));
		break;
	case OP_GRANT:
		grant(s);
		break;
	default:
		n = fuzz_u32(in);
		FUZZ_CHECK(rs_iomap_unscale(rs_iomap_scale(n)) <= n);
		chunk = (struct rs_sge){ n, n, n };
		chunk = rs_sge_for(&chunk, true);
		chunk = rs_sge_for(&chunk, true);
		FUZZ_CHECK(chunk.addr == n && chunk.length == n);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size), body;
	struct stream s;
	uint8_t kind;

	begin(&s);
	while (!s.ended && fuzz_chunk(&in, &kind, &body))
		run(&s, kind % OPS, &body);
	return 0;
}

FUZZ_PROGRAM(6, NULL)
