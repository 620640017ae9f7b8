/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/net: frames that are not RoCE v2 arrive at an own port, between resolutions of neighbours, groups that are joined
 * and left, and time that passes. What net_rx() learns goes to the tables, as in the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_random.h>

#include "fuzz.h"
#include "net/net_priv.h"

enum { TAILROOM = 64, MBUFS = 255, WAITERS = 4, PREFIX_V4 = 24, PREFIX_V6 = 64, NS_PER_MS = 1000000 };

enum op { OP_FRAME, OP_FRAME_TIGHT, OP_RESOLVE, OP_CANCEL, OP_WAIT, OP_JOIN, OP_LEAVE, OP_LIST, OP_ADDRESS, OPS };

/** What a port of lib/net is without an ethdev. */
struct port {
	struct net_port p;
	struct net_gids gids;
	struct net_priv priv;
	struct net_counters counters;
	uint64_t now;
	bool waiting[WAITERS];
};

static struct rte_mempool *pool;
static const uint8_t our_mac[6] = { 0x52, 0x54, 0, 0x18, 0, 1 };
static const uint8_t our_ip[4] = { 198, 18, 0, 1 }, gateway[4] = { 198, 18, 0, 254 };
static const struct gid our_ip6 = { { 0xfd, 0, 0, 0x18, [15] = 1 } };

static void
on_send(void *arg, struct net_port *p, struct rte_mbuf *m)
{
	FUZZ_CHECK(m->data_len == m->pkt_len && m->data_len >= WIRE_ETH_BYTES);
	rte_pktmbuf_free(m);
}

static void
on_resolved(void *arg, int status, const uint8_t mac[6])
{
	bool *waiting = arg;

	FUZZ_CHECK(*waiting);
	FUZZ_CHECK(status != 0 || (mac[0] & 1) == 0);
	*waiting = false;
}

static void
port_begin(struct port *t)
{
	memset(t, 0, sizeof(*t));
	rte_srand(1);
	t->p.priv = &t->priv;
	t->p.index = 3;
	t->now = UINT64_C(1000) * 1000 * NS_PER_MS;
	memcpy(t->p.mac, our_mac, sizeof(t->p.mac));
	memcpy(t->p.conf.gateway4, gateway, sizeof(gateway));
	t->gids.addr[0] = (struct net_addr){ .gid = gid_link_local(our_mac), .prefix = PREFIX_V6 };
	t->gids.addr[1] = (struct net_addr){ .gid = gid_from_v4(our_ip), .prefix = PREFIX_V4 };
	t->gids.addr[2] = (struct net_addr){ .gid = our_ip6, .prefix = PREFIX_V6 };
	t->p.gids = &t->gids;
	t->priv.neigh = neigh_table_create(&neigh_own_ops);
	FUZZ_CHECK(t->priv.neigh != NULL);
	net_port_set_sender(&t->p, on_send, t, pool);
}

static void
port_end(struct port *t)
{
	groups_clear(&t->p);
	neigh_table_destroy(t->priv.neigh);
	for (unsigned int i = 0; i < WAITERS; i++)
		FUZZ_CHECK(!t->waiting[i]);
	FUZZ_CHECK(rte_mempool_in_use_count(pool) == 0);
}

/** A frame in an mbuf whose buffer ends where it does. */
static void
frame(struct port *t, struct fuzz_in *body, uint16_t tailroom)
{
	size_t n = fuzz_left(body), learned_before;
	struct rte_mbuf m = { .nb_segs = 1, .data_len = (uint16_t)n, .pkt_len = (uint32_t)n,
			      .buf_len = (uint16_t)(n + tailroom) };
	struct net_learned learned;
	enum net_action action;
	bool has_learned = false;
	uint8_t *buf = malloc(n + tailroom);

	FUZZ_CHECK(buf != NULL || n + tailroom == 0);
	fuzz_bytes(body, buf, n);
	m.buf_addr = buf;
	rte_mbuf_refcnt_set(&m, 1);
	memset(&learned, 0, sizeof(learned));
	learned_before = t->priv.neigh->nb_neighs;
	action = net_rx(&t->p, &m, &t->counters, &learned, &has_learned);
	FUZZ_CHECK(m.data_len == m.pkt_len && m.data_len <= n + tailroom);
	/* No answer is longer than the request by more than an ND option. */
	FUZZ_CHECK(action == NET_DROP || m.data_len <= n + ND_OPT_BYTES);
	if (has_learned) {
		FUZZ_CHECK(learned.port == t->p.index);
		net_learn(&t->p, &learned, t->now);
	}
	FUZZ_CHECK(t->priv.neigh->nb_neighs <= learned_before + 1 && t->priv.neigh->nb_neighs <= NET_NEIGH_MAX);
	free(buf);
}

/** An address of our networks or of none: few different ones, so that they meet again. */
static struct gid
address(struct fuzz_in *body)
{
	uint8_t kind = fuzz_u8(body), host = fuzz_u8(body);
	uint8_t ip[4] = { 198, 18, 0, host };
	struct gid g = our_ip6;

	switch (kind % 5) {
	case 0:
		return gid_from_v4(ip);
	case 1:
		ip[0] = 10;
		return gid_from_v4(ip);
	case 2:
		g.raw[15] = host;
		return g;
	case 3:
		fuzz_bytes(body, &g, sizeof(g));
		return g;
	default:
		ip[0] = (uint8_t)(224 + host % 16);
		return gid_from_v4(ip);
	}
}

static struct gid
group(struct fuzz_in *body)
{
	uint8_t n = fuzz_u8(body);
	const uint8_t ip[4] = { 239, 18, 0, n };

	return n % 2 ? gid_from_v4(ip) : (struct gid){ { 0xff, 0x0e, [13] = 0x18, [15] = n } };
}

static void
resolve(struct port *t, struct fuzz_in *body)
{
	unsigned int i = fuzz_below(body, WAITERS), index = fuzz_below(body, 5);
	struct gid g = address(body);
	uint8_t mac[6];

	if (t->waiting[i])
		return;
	t->waiting[i] = true;
	if (net_resolve(&t->p, index, &g, t->now, mac, on_resolved, &t->waiting[i]) != EINPROGRESS)
		t->waiting[i] = false;
}

static void
pass(struct port *t, uint64_t ns)
{
	uint64_t end = t->now + ns, next;

	for (unsigned int i = 0; i < 64; i++) {
		next = net_port_poll(&t->p, t->now);
		if (next > end)
			break;
		FUZZ_CHECK(next > t->now);
		t->now = next;
	}
	t->now = end;
	net_port_poll(&t->p, t->now);
}

static void
run(struct port *t, enum op op, struct fuzz_in *body)
{
	struct net_neigh list[4];
	unsigned int i;
	struct gid g;

	switch (op) {
	case OP_FRAME:
		frame(t, body, TAILROOM);
		break;
	case OP_FRAME_TIGHT:
		frame(t, body, 0);
		break;
	case OP_RESOLVE:
		resolve(t, body);
		break;
	case OP_CANCEL:
		i = fuzz_below(body, WAITERS);
		net_resolve_cancel(&t->p, &t->waiting[i]);
		t->waiting[i] = false;
		break;
	case OP_WAIT:
		pass(t, (uint64_t)fuzz_u16(body) * NS_PER_MS);
		break;
	case OP_JOIN:
		g = group(body);
		net_group_join(&t->p, &g, t->now);
		break;
	case OP_LEAVE:
		g = group(body);
		net_group_leave(&t->p, &g, t->now);
		break;
	case OP_LIST:
		net_neigh_list(&t->p, list, sizeof(list) / sizeof(list[0]));
		break;
	case OP_ADDRESS:
		g = address(body);
		net_port_owns(&t->p, &g);
		net_addr_on_link(&t->p, 0, &g);
		break;
	default:
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size), body;
	struct port t;
	uint8_t kind;

	port_begin(&t);
	while (fuzz_chunk(&in, &kind, &body))
		run(&t, kind % OPS, &body);
	port_end(&t);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	pool = fuzz_pool(MBUFS);
	return 0;
}

static size_t
repair(uint8_t kind, uint8_t *body, size_t size, size_t max)
{
	if (kind % OPS <= OP_FRAME_TIGHT)
		fuzz_frame_repair(body, size);
	return size;
}

FUZZ_PROGRAM(46, repair)
