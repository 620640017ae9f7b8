/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drivers/net/impair: settings and rules as text; what is accepted is written and read again, and packets pass. The input is the
 * text, and behind a zero byte packets and times.
 */
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "fuzz.h"
#include "impair.h"
#include "wire/wire.h"

enum { MBUFS = 255, BURST = 32, ROUNDS = 16, FRAME = 80, ERR = 512, WORDS = 6 };

static struct rte_mempool *pool;

/** A RoCE packet, or nothing that one knows. */
static struct rte_mbuf *
packet(struct fuzz_in *in)
{
	struct wire_addr a = { .ip_version = 4, .ttl = 64, .sport = 0xc000 };
	struct wire_bth b = { .opcode = fuzz_u8(in), .dqpn = fuzz_u8(in), .psn = fuzz_u8(in) };
	uint16_t l4 = WIRE_BTH_BYTES + WIRE_ICRC_BYTES, size;
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct wire_tmpl t;
	uint8_t *frame;

	if (m == NULL)
		return NULL;
	frame = (uint8_t *)rte_pktmbuf_append(m, FRAME);
	memset(frame, 0, FRAME);
	wire_tmpl_build(&t, &a);
	wire_tmpl_write(&t, frame, l4, 0);
	wire_put_bth(frame + t.bth_off, &b);
	wire_tmpl_seal(&t, frame, l4);
	size = fuzz_u8(in);
	rte_pktmbuf_trim(m, size < FRAME ? FRAME - size : 0);
	return m;
}

static void
pass(const struct impair_params *p, struct fuzz_in *in)
{
	struct impair *im = impair_create(1, p);
	struct impair_counters c;
	uint64_t now = 1000;
	void *pkts[BURST];
	uint16_t n, due;

	FUZZ_CHECK(im != NULL);
	for (unsigned int i = 0; i < ROUNDS && fuzz_left(in) > 0; i++) {
		uint16_t want = fuzz_u8(in) % (BURST / 2);

		for (n = 0; n < want; n++)
			if ((pkts[n] = packet(in)) == NULL)
				break;
		now += (uint64_t)fuzz_u8(in) << fuzz_u8(in) % 24;
		due = impair_burst(im, 0, pkts, n, BURST, now);
		FUZZ_CHECK(due <= BURST);
		while (due-- > 0)
			rte_pktmbuf_free(pkts[due]);
	}
	impair_counters(im, &c);
	FUZZ_CHECK(c.passed <= c.received + c.duplicated);
	impair_destroy(im);
	FUZZ_CHECK(rte_mempool_in_use_count(pool) == 0);
}

/** The same as EAL's argument. */
static void
as_vdev(const char *text)
{
	char *argv[WORDS] = { (char *)(uintptr_t) "fuzz", (char *)(uintptr_t) "--vdev", (char *)(uintptr_t)text };
	static struct impair_vdevs v;
	char err[ERR];
	int argc = 3;

	v.vdev[0].settings = NULL;
	FUZZ_CHECK(impair_vdevs_take(&argc, argv, &v, err, sizeof(err)) == 0 || memchr(err, 0, sizeof(err)) != NULL);
	/* In a daemon it stays for ever. */
	free((char *)(uintptr_t)v.vdev[0].settings);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size);
	char *text = malloc(size + 1), again[IMPAIR_TEXT_BYTES], third[IMPAIR_TEXT_BYTES], err[ERR];
	static struct impair_params p, q;

	FUZZ_CHECK(text != NULL);
	fuzz_bytes(&in, text, size);
	text[size] = '\0';
	memset(&p, 0, sizeof(p));
	memset(&q, 0, sizeof(q));
	if (impair_parse(text, &p, err, sizeof(err)) == 0) {
		impair_format(&p, again, sizeof(again));
		FUZZ_CHECK(impair_parse(again, &q, err, sizeof(err)) == 0);
		FUZZ_CHECK(strcmp(impair_format(&q, third, sizeof(third)), again) == 0);
		in = fuzz_in(data, size);
		in.at += strnlen(text, size);
		fuzz_u8(&in);
		pass(&p, &in);
	} else {
		FUZZ_CHECK(memchr(err, 0, sizeof(err)) != NULL);
	}
	as_vdev(text);
	free(text);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	pool = fuzz_pool(MBUFS);
	return 0;
}
