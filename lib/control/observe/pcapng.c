/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "control/observe/pcapng_priv.h"

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_STATISTICS = 5,
	BLOCK_PACKET = 6,
	MAGIC = 0x1a2b3c4d,
	LINKTYPE_ETHERNET = 1,
	OPT_END = 0,
	OPT_COMMENT = 1,
	OPT_SECTION_APPLICATION = 4,
	OPT_INTERFACE_NAME = 2,
	OPT_INTERFACE_TSRESOL = 9,
	OPT_PACKET_FLAGS = 2,
	OPT_STATISTICS_RECEIVED = 4,
	OPT_STATISTICS_DROPPED = 5,
	NANOSECONDS = 9, /**< value for OPT_INTERFACE_TSRESOL */
	FLAG_IN = 1,
	FLAG_OUT = 2,
	BLOCK_OVERHEAD = 12, /**< type, length, and the length again */
};

static uint32_t
padded(size_t n)
{
	return (uint32_t)((n + 3) & ~(size_t)3);
}

static void
put32(FILE *f, uint32_t v)
{
	fwrite(&v, sizeof(v), 1, f);
}

static void
put_padded(FILE *f, const void *p, size_t n)
{
	static const uint8_t zeros[4];

	fwrite(p, n, 1, f);
	fwrite(zeros, padded(n) - n, 1, f);
}

static uint32_t
option_bytes(size_t n)
{
	return 4 + padded(n);
}

static void
option(FILE *f, uint16_t code, const void *p, size_t n)
{
	put32(f, (uint32_t)n << 16 | code);
	if (n > 0)
		put_padded(f, p, n);
}

/** @param body  Bytes between the two length fields. */
static void
begin_block(FILE *f, uint32_t type, uint32_t body)
{
	put32(f, type);
	put32(f, BLOCK_OVERHEAD + body);
}

static void
end_block(FILE *f, uint32_t body)
{
	put32(f, BLOCK_OVERHEAD + body);
}

/** The format stores the high half of a time first. */
static void
put_time(FILE *f, uint64_t ns)
{
	put32(f, (uint32_t)(ns >> 32));
	put32(f, (uint32_t)ns);
}

void
pcapng_begin(FILE *f, const char *application, const char *comment)
{
	uint32_t body = 16 + option_bytes(strlen(application)) + option_bytes(strlen(comment)) + 4;

	begin_block(f, BLOCK_SECTION, body);
	put32(f, MAGIC);
	put32(f, 1); /* version 1.0 */
	put32(f, UINT32_MAX);
	put32(f, UINT32_MAX); /* length of the section: unknown */
	option(f, OPT_SECTION_APPLICATION, application, strlen(application));
	option(f, OPT_COMMENT, comment, strlen(comment));
	option(f, OPT_END, NULL, 0);
	end_block(f, body);
}

void
pcapng_interface(FILE *f, const char *name, uint32_t snap_bytes)
{
	uint32_t body = 8 + option_bytes(strlen(name)) + option_bytes(1) + 4;
	uint8_t resolution = NANOSECONDS;

	begin_block(f, BLOCK_INTERFACE, body);
	put32(f, LINKTYPE_ETHERNET);
	put32(f, snap_bytes);
	option(f, OPT_INTERFACE_NAME, name, strlen(name));
	option(f, OPT_INTERFACE_TSRESOL, &resolution, 1);
	option(f, OPT_END, NULL, 0);
	end_block(f, body);
}

void
pcapng_packet(FILE *f, const struct pcapng_packet *p)
{
	uint32_t flags = p->local ? 0 : p->tx ? FLAG_OUT : FLAG_IN;
	uint32_t comment = p->comment != NULL ? option_bytes(strlen(p->comment)) : 0;
	uint32_t body = 20 + padded(p->captured) + option_bytes(sizeof(flags)) + comment + 4;

	begin_block(f, BLOCK_PACKET, body);
	put32(f, p->interface);
	put_time(f, p->ns);
	put32(f, p->captured);
	put32(f, p->bytes);
	put_padded(f, p->data, p->captured);
	option(f, OPT_PACKET_FLAGS, &flags, sizeof(flags));
	if (p->comment != NULL)
		option(f, OPT_COMMENT, p->comment, strlen(p->comment));
	option(f, OPT_END, NULL, 0);
	end_block(f, body);
}

void
pcapng_statistics(FILE *f, uint32_t interface, uint64_t ns, uint64_t received, uint64_t dropped)
{
	uint32_t body = 12 + option_bytes(sizeof(received)) + option_bytes(sizeof(dropped)) + 4;

	begin_block(f, BLOCK_STATISTICS, body);
	put32(f, interface);
	put_time(f, ns);
	option(f, OPT_STATISTICS_RECEIVED, &received, sizeof(received));
	option(f, OPT_STATISTICS_DROPPED, &dropped, sizeof(dropped));
	option(f, OPT_END, NULL, 0);
	end_block(f, body);
}
