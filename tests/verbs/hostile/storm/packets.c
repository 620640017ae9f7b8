/* SPDX-License-Identifier: BSD-3-Clause */
#include "storm/packets.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "storm/random.h"
#include "stuck.h"
#include "wire/wire.h"

enum {
	GOLDEN_FRAMES = 4096,
	PCAP_HEAD = 24,
	PCAP_RECORD = 16,
	ARP_BYTES = 28,
	MTU = 1024,
	LONGEST = 8192, /* message */
	TRIES = 8,
	ANSWERS = 64, /* frames of the port that wait for an answer */
	SEEN_BYTES = 256,
	HEAD = WIRE_ETH_BYTES + WIRE_IPV4_BYTES + WIRE_UDP_BYTES,
	HUNDRED = 100,
};

enum kind { ANSWER, CRAFTED, GOLDEN, RANDOM, KINDS };

struct golden {
	uint8_t *frame;
	uint32_t bytes;
};

struct packets {
	const struct storm_targets *targets;
	struct storm_random rnd;
	struct golden golden[GOLDEN_FRAMES];
	unsigned int nb_golden;
	/* What the responder of each target expects next, as far as its answers say. */
	uint32_t psn[STORM_TARGETS], generation[STORM_TARGETS];
	bool failed[STORM_TARGETS]; /* it has refused a request, so it is in ERR until it is connected anew */
	uint8_t seen[ANSWERS][SEEN_BYTES];
	uint16_t seen_bytes[ANSWERS];
	unsigned int nb_seen;
	bool only_arp;
	uint64_t made[KINDS], port_sent, changed;
};

static const uint8_t port_mac[6] = { 0x02, 0x18, 0, 0, 9, 1 }, own_mac[6] = { 0x02, 0x18, 0, 0, 9, 2 };
static const uint8_t port_ip[4] = { 198, 18, 9, 1 }, own_ip[4] = { 198, 18, 9, 2 };

static void
read_golden(struct packets *p, const char *path)
{
	uint8_t record[PCAP_RECORD];
	FILE *f = fopen(path, "rb");
	uint32_t n;

	if (f == NULL || fseek(f, PCAP_HEAD, SEEK_SET) != 0)
		attack_die(path);
	/* The first of each capture are enough: what follows is more of the same. */
	for (unsigned int i = 0; i < 64 && p->nb_golden < GOLDEN_FRAMES && fread(record, sizeof(record), 1, f) == 1; i++) {
		memcpy(&n, record + 8, sizeof(n));
		if (n > STORM_FRAME_MAX || n < WIRE_ETH_BYTES)
			break;
		p->golden[p->nb_golden].frame = malloc(n);
		p->golden[p->nb_golden].bytes = n;
		if (fread(p->golden[p->nb_golden].frame, n, 1, f) != 1)
			break;
		p->nb_golden++;
	}
	fclose(f);
}

struct packets *
packets_new(const struct storm_targets *targets, const char *golden, uint64_t seed)
{
	struct packets *p = calloc(1, sizeof(*p));
	char pattern[1024];
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/*.pcap", golden);
	if (p == NULL || glob(pattern, 0, NULL, &files) != 0)
		attack_die(pattern);
	p->targets = targets;
	p->rnd.state = seed * 2654435761 + 1;
	for (size_t i = 0; i < files.gl_pathc; i++)
		read_golden(p, files.gl_pathv[i]);
	globfree(&files);
	return p;
}

bool
packets_ready(const struct packets *p)
{
	return !p->only_arp && atomic_load(&p->targets->nb) > 0;
}

void
packets_only_arp(struct packets *p)
{
	p->only_arp = true;
}

/** @return the number of the target that has sent to, or receives from, this QP of ours; -1: none. */
static int
target_of(uint32_t peer_qpn)
{
	return peer_qpn >= STORM_PEER_QPN && peer_qpn < STORM_PEER_QPN + STORM_TARGETS ? (int)(peer_qpn - STORM_PEER_QPN) : -1;
}

void
packets_seen(struct packets *p, const uint8_t *frame, size_t bytes)
{
	struct wire_bth bth;
	int i;

	p->port_sent++;
	if (bytes < WIRE_ETH_BYTES + ARP_BYTES)
		return;
	if (bytes >= HEAD + WIRE_BTH_BYTES && wire_get16(frame + 12) == WIRE_ETHERTYPE_IPV4) {
		wire_get_bth(frame + HEAD, &bth);
		i = target_of(bth.dqpn);
		if (i >= 0 && (wire_opcodes[bth.opcode].flags & WIRE_F_RESPONSE) != 0)
			p->psn[i] = wire_psn_add(bth.psn, 1);
		if (i >= 0 && bth.opcode == WIRE_OP_ACK && bytes >= HEAD + WIRE_BTH_BYTES + WIRE_AETH_BYTES)
			p->failed[i] |= WIRE_AETH_TYPE(frame[HEAD + WIRE_BTH_BYTES]) == WIRE_AETH_NAK &&
					frame[HEAD + WIRE_BTH_BYTES] != WIRE_NAK_PSN_SEQ;
	} else if (wire_get16(frame + 12) != WIRE_ETHERTYPE_ARP || packets_is_arp_reply(frame, bytes))
		return;
	if (p->nb_seen == ANSWERS)
		return;
	bytes = bytes < SEEN_BYTES ? bytes : SEEN_BYTES;
	memcpy(p->seen[p->nb_seen], frame, bytes);
	p->seen_bytes[p->nb_seen++] = (uint16_t)bytes;
}

static void
fill_random(struct packets *p, uint8_t *at, size_t n)
{
	uint64_t v;

	for (; n >= sizeof(v); at += sizeof(v), n -= sizeof(v)) {
		v = storm_random(&p->rnd);
		memcpy(at, &v, sizeof(v));
	}
	while (n-- > 0)
		at[n] = (uint8_t)(storm_random(&p->rnd) >> 56);
}

static size_t
arp_reply(const uint8_t *request, uint8_t *frame)
{
	uint8_t *arp = frame + WIRE_ETH_BYTES;

	memcpy(frame, request + 6, 6);
	memcpy(frame + 6, own_mac, 6);
	wire_put16(frame + 12, WIRE_ETHERTYPE_ARP);
	memcpy(arp, request + WIRE_ETH_BYTES, ARP_BYTES);
	wire_put16(arp + 6, 2);
	memcpy(arp + 8, own_mac, 6);
	memcpy(arp + 14, request + WIRE_ETH_BYTES + 24, 4);
	memcpy(arp + 18, request + WIRE_ETH_BYTES + 8, 10);
	return WIRE_ETH_BYTES + ARP_BYTES;
}

size_t
packets_arp_request(uint8_t *frame)
{
	static const uint8_t ethernet_ipv4[6] = { 0, 1, 8, 0, 6, 4 };
	uint8_t *arp = frame + WIRE_ETH_BYTES;

	memset(frame, 0xff, 6);
	memcpy(frame + 6, own_mac, 6);
	wire_put16(frame + 12, WIRE_ETHERTYPE_ARP);
	memset(arp, 0, ARP_BYTES);
	memcpy(arp, ethernet_ipv4, sizeof(ethernet_ipv4));
	wire_put16(arp + 6, 1);
	memcpy(arp + 8, own_mac, 6);
	memcpy(arp + 14, own_ip, 4);
	memcpy(arp + 24, port_ip, 4);
	return WIRE_ETH_BYTES + ARP_BYTES;
}

bool
packets_is_arp_reply(const uint8_t *frame, size_t bytes)
{
	return bytes >= WIRE_ETH_BYTES + ARP_BYTES && wire_get16(frame + 12) == WIRE_ETHERTYPE_ARP &&
	       wire_get16(frame + WIRE_ETH_BYTES + 6) == 2;
}

/** Everything before the BTH; lengths and checksums come later. */
static void
put_head(struct packets *p, uint8_t *frame)
{
	uint8_t *ip = frame + WIRE_ETH_BYTES, *udp = ip + WIRE_IPV4_BYTES;

	memcpy(frame, port_mac, 6);
	memcpy(frame + 6, own_mac, 6);
	wire_put16(frame + 12, WIRE_ETHERTYPE_IPV4);
	memset(ip, 0, WIRE_IPV4_BYTES + WIRE_UDP_BYTES);
	ip[0] = 0x45;
	ip[1] = (uint8_t)(storm_below(&p->rnd, 8) == 0 ? storm_below(&p->rnd, 4) : 0); /* ECN */
	wire_put16(ip + 6, 0x4000);
	ip[8] = 64;
	ip[9] = 17;
	memcpy(ip + 12, own_ip, 4);
	memcpy(ip + 16, port_ip, 4);
	wire_put16(udp, 0xc000);
	wire_put16(udp + 2, WIRE_UDP_PORT);
}

static void
put_extended(struct packets *p, const struct storm_target *t, const struct wire_opcode *op, uint8_t *bth, uint32_t length)
{
	uint64_t va = t->va + storm_below(&p->rnd, storm_below(&p->rnd, 16) == 0 ? t->bytes : t->bytes - 2 * LONGEST);
	uint32_t rkey = storm_below(&p->rnd, 16) == 0 ? (uint32_t)storm_random(&p->rnd) : t->rkey;

	if ((op->flags & WIRE_F_RETH) != 0)
		wire_put_reth(bth + op->off_reth, va, rkey, length);
	if ((op->flags & WIRE_F_ATOMICETH) != 0)
		wire_put_atomiceth(bth + op->off_atomiceth, va & ~UINT64_C(7), rkey, storm_random(&p->rnd), 0);
	if ((op->flags & WIRE_F_AETH) != 0)
		wire_put_aeth(bth + op->off_aeth, storm_below(&p->rnd, 4) == 0 ? (uint8_t)storm_random(&p->rnd) : WIRE_AETH_CREDITS_INVALID,
			      storm_below(&p->rnd, 64));
	if ((op->flags & WIRE_F_DETH) != 0)
		wire_put_deth(bth + op->off_deth, storm_below(&p->rnd, 8) == 0 ? 1 : STORM_QKEY, STORM_PEER_QPN);
	if ((op->flags & WIRE_F_FETH) != 0)
		wire_put_feth(bth + op->off_feth, 1 + (uint8_t)storm_below(&p->rnd, 3), (uint8_t)storm_below(&p->rnd, 3));
}

/** An opcode of the target's service, or any; mostly one that is right whatever came before. */
static uint8_t
choose_opcode(struct packets *p, const struct storm_target *t)
{
	uint32_t wanted = storm_below(&p->rnd, 8) == 0 ? 0 : WIRE_F_START | WIRE_F_END;
	uint8_t opcode;

	if (storm_below(&p->rnd, 32) == 0)
		return (uint8_t)storm_random(&p->rnd);
	do
		opcode = (uint8_t)(t->service | storm_below(&p->rnd, 32));
	while (wire_opcodes[opcode].hdr_bytes == 0 || (wire_opcodes[opcode].flags & wanted) != wanted);
	return opcode;
}

static size_t
put_packet(struct packets *p, const struct storm_target *t, uint8_t opcode, uint32_t psn, uint8_t *frame)
{
	const struct wire_opcode *op = &wire_opcodes[opcode];
	struct wire_bth b = { .dqpn = t->qpn, .psn = psn, .pkey = WIRE_PKEY_DEFAULT, .opcode = opcode,
			      .ackreq = storm_below(&p->rnd, 2), .solicited = storm_below(&p->rnd, 8) == 0,
			      .becn = storm_below(&p->rnd, 64) == 0 };
	uint8_t *bth = frame + HEAD;
	uint32_t n = op->hdr_bytes != 0 ? op->hdr_bytes : WIRE_BTH_BYTES, payload = 0;

	put_head(p, frame);
	memset(bth, 0, n);
	if ((op->flags & WIRE_F_PAYLOAD) != 0)
		/* What is in the middle has the MTU; small ones are most, so that there are many. */
		payload = (op->flags & WIRE_F_END) == 0 ? MTU : storm_below(&p->rnd, storm_below(&p->rnd, 8) == 0 ? MTU + 8 : 64);
	b.pad = (uint8_t)(-payload & 3);
	wire_put_bth(bth, &b);
	put_extended(p, t, op, bth, (op->flags & WIRE_F_END) == 0 ? payload * (2 + storm_below(&p->rnd, 3)) :
				    (op->flags & WIRE_F_READ) != 0 ? storm_below(&p->rnd, LONGEST) : payload);
	payload += b.pad;
	memset(bth + n, 0, payload);
	return HEAD + n + payload + WIRE_ICRC_BYTES;
}

/** One that hasn't failed, if there is one soon. */
static uint32_t
choose_target(struct packets *p)
{
	uint32_t i = 0, g;

	for (unsigned int tries = 0; tries < TRIES; tries++) {
		i = storm_below(&p->rnd, STORM_TARGETS);
		g = atomic_load(&p->targets->t[i].generation);
		if (g != p->generation[i]) {
			p->generation[i] = g;
			p->psn[i] = STORM_RQ_PSN;
			p->failed[i] = false;
		}
		if (!p->failed[i])
			break;
	}
	return i;
}

static size_t
crafted(struct packets *p, uint8_t *frame)
{
	uint32_t i = choose_target(p), psn;
	const struct storm_target *t = &p->targets->t[i];
	uint8_t opcode = choose_opcode(p, t);

	psn = p->psn[i] == 0 ? STORM_RQ_PSN : p->psn[i];
	if (storm_below(&p->rnd, 8) == 0)
		psn = wire_psn_add(psn, storm_below(&p->rnd, 33) - 16);
	else if (storm_below(&p->rnd, 64) == 0)
		psn = storm_below(&p->rnd, 1 << 24);
	else if (t->service != WIRE_RC)
		p->psn[i] = wire_psn_add(psn, 1);
	return put_packet(p, t, opcode, psn, frame);
}

/** What answers a request of a target's: an ACK, a response, or a NAK. */
static size_t
answer(struct packets *p, uint8_t *frame)
{
	const uint8_t *seen = p->seen[--p->nb_seen];
	struct wire_bth bth;
	uint32_t flags;
	uint8_t opcode;
	int i;

	if (wire_get16(seen + 12) == WIRE_ETHERTYPE_ARP)
		return arp_reply(seen, frame);
	wire_get_bth(seen + HEAD, &bth);
	i = target_of(bth.dqpn);
	flags = wire_opcodes[bth.opcode].flags;
	if (i < 0 || (flags & WIRE_F_REQUEST) == 0 || !packets_ready(p))
		return 0;
	opcode = (flags & WIRE_F_READ) != 0   ? WIRE_OP_READ_RESP_FIRST + (uint8_t)storm_below(&p->rnd, 4) :
		 (flags & WIRE_F_ATOMIC) != 0 ? WIRE_OP_ATOMIC_ACK :
						WIRE_OP_ACK;
	return put_packet(p, &p->targets->t[i], opcode, wire_psn_add(bth.psn, storm_below(&p->rnd, 16) == 0 ? 1 : 0), frame);
}

/** A captured packet, to the port's addresses, and mostly for a QP that there is. */
static size_t
golden(struct packets *p, uint8_t *frame)
{
	const struct golden *g = &p->golden[storm_below(&p->rnd, p->nb_golden)];
	const struct storm_target *t = &p->targets->t[storm_below(&p->rnd, STORM_TARGETS)];
	uint8_t *bth = frame + HEAD;
	size_t n = g->bytes;

	memcpy(frame, g->frame, n);
	memcpy(frame, port_mac, 6);
	memcpy(frame + 6, own_mac, 6);
	if (wire_get16(frame + 12) != WIRE_ETHERTYPE_IPV4 || n < HEAD + WIRE_BTH_BYTES + WIRE_ICRC_BYTES)
		return n;
	memcpy(frame + WIRE_ETH_BYTES + 12, own_ip, 4);
	memcpy(frame + WIRE_ETH_BYTES + 16, port_ip, 4);
	if (wire_get24(bth + 5) > WIRE_QPN_GSI && storm_below(&p->rnd, 8) != 0) {
		wire_put24(bth + 5, t->qpn);
		wire_put24(bth + 9, p->psn[t - p->targets->t]);
	}
	return n;
}

/** Change a few bytes, behind the Ethernet header mostly, and sometimes the length. */
static size_t
change(struct packets *p, uint8_t *frame, size_t n)
{
	size_t head = n < HEAD + 64 ? n : HEAD + 64;

	for (uint32_t i = 0, changes = 1 + storm_below(&p->rnd, 3); i < changes; i++)
		frame[storm_below(&p->rnd, (uint32_t)(storm_below(&p->rnd, 4) == 0 ? n : head))] ^= (uint8_t)(1 + storm_below(&p->rnd, 255));
	if (storm_below(&p->rnd, 8) == 0)
		n = WIRE_ETH_BYTES + storm_below(&p->rnd, (uint32_t)(n - WIRE_ETH_BYTES) + 1);
	p->changed++;
	return n;
}

size_t
packets_next(struct packets *p, uint8_t *frame)
{
	uint32_t dice = storm_below(&p->rnd, HUNDRED);
	enum kind kind;
	size_t n = 0;

	if (p->nb_seen > 0 && (dice < 30 || !packets_ready(p))) {
		kind = ANSWER;
		n = answer(p, frame);
		if (n == 0 && !packets_ready(p))
			return 0;
	} else if (!packets_ready(p))
		return 0;
	if (n == WIRE_ETH_BYTES + ARP_BYTES)
		return n;
	if (n == 0 && dice < 90) {
		kind = dice < 60 ? CRAFTED : GOLDEN;
		n = kind == CRAFTED ? crafted(p, frame) : golden(p, frame);
	} else if (n == 0) {
		kind = RANDOM;
		n = WIRE_ETH_BYTES + storm_below(&p->rnd, storm_below(&p->rnd, 8) == 0 ? STORM_FRAME_MAX - WIRE_ETH_BYTES : 128);
		fill_random(p, frame, n);
		if (dice < 96)
			put_head(p, frame);
		n = n < HEAD ? HEAD : n;
	}
	p->made[kind]++;
	/* Mostly the checksums are those of what was changed: else nothing would pass the first look. */
	if (storm_below(&p->rnd, 4) == 0)
		n = change(p, frame, n);
	if (storm_below(&p->rnd, 16) != 0)
		fuzz_frame_repair(frame, n);
	return n;
}

void
packets_print(const struct packets *p)
{
	printf("%" PRIu64 " answers, %" PRIu64 " crafted, %" PRIu64 " captured, %" PRIu64 " random, of which %" PRIu64
	       " were changed; the port sent %" PRIu64 "\n",
	       p->made[ANSWER], p->made[CRAFTED], p->made[GOLDEN], p->made[RANDOM], p->changed, p->port_sent);
}
