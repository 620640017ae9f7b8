/* SPDX-License-Identifier: BSD-3-Clause */
#include "rsocket/rs_wire.h"

#include <byteswap.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum {
	SCALE_EXACT = 128, /* numbers up to this one stand for themselves */
	SCALE_SHIFT = 8,
};

uint8_t
rs_iomap_scale(uint32_t n)
{
	if (n <= SCALE_EXACT)
		return (uint8_t)n;
	if (n > RS_IOMAP_MAX)
		n = RS_IOMAP_MAX;
	return (uint8_t)(SCALE_EXACT | n >> SCALE_SHIFT);
}

uint32_t
rs_iomap_unscale(uint8_t scaled)
{
	return scaled <= SCALE_EXACT ? scaled : (uint32_t)(scaled & ~SCALE_EXACT) << SCALE_SHIFT;
}

static struct rs_sge
big_endian(const struct rs_sge *s)
{
	return (struct rs_sge){ htobe64(s->addr), htobe32(s->key), htobe32(s->length) };
}

void
rs_hello_put(const struct rs_hello *h, struct rs_conn_data *out)
{
	*out = (struct rs_conn_data){
		.version = RS_VERSION,
		.flags = RS_F_IOMAP | (__BYTE_ORDER == __BIG_ENDIAN ? RS_F_BIG_ENDIAN : 0),
		.credits = htobe16(h->credits),
		.target_iomap_size = rs_iomap_scale(h->iomaps),
		.target_sgl = big_endian(&h->list),
		.data_buf = big_endian(&h->chunk),
	};
}

int
rs_hello_get(const void *data, size_t bytes, struct rs_hello *out)
{
	struct rs_conn_data c;

	if (!data || bytes < sizeof(c))
		return EPROTO;
	memcpy(&c, data, sizeof(c));
	if (c.version != RS_VERSION)
		return EPROTO;
	*out = (struct rs_hello){
		.credits = be16toh(c.credits),
		.swap = !!(c.flags & RS_F_BIG_ENDIAN) != (__BYTE_ORDER == __BIG_ENDIAN),
		.iomaps = c.flags & RS_F_IOMAP ? rs_iomap_unscale(c.target_iomap_size) : 0,
		.list = { be64toh(c.target_sgl.addr), be32toh(c.target_sgl.key), be32toh(c.target_sgl.length) },
		.chunk = { be64toh(c.data_buf.addr), be32toh(c.data_buf.key), be32toh(c.data_buf.length) },
	};
	if (!out->list.length || out->list.length > RS_REMOTE_CHUNKS_MAX)
		return EPROTO;
	return 0;
}

struct rs_sge
rs_sge_for(const struct rs_sge *s, bool swap)
{
	if (!swap)
		return *s;
	return (struct rs_sge){ bswap_64(s->addr), bswap_32(s->key), bswap_32(s->length) };
}

struct rs_iomap
rs_iomap_for(const struct rs_iomap *m, bool swap)
{
	return (struct rs_iomap){ swap ? bswap_64(m->offset) : m->offset, rs_sge_for(&m->sge, swap) };
}

void
rs_dgram_hdr_put(struct rs_dgram_hdr *h, const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	memset(h, 0, sizeof(*h));
	if (sa->sa_family == AF_INET) {
		h->version = 4;
		h->length = RS_DGRAM_V4_BYTES;
		h->port = in->sin_port;
		h->addr.v4 = in->sin_addr.s_addr;
	} else {
		h->version = 6;
		h->length = RS_DGRAM_V6_BYTES;
		h->port = in6->sin6_port;
		h->addr.v6.flowinfo = in6->sin6_flowinfo;
		memcpy(h->addr.v6.addr, &in6->sin6_addr, 16);
	}
}

size_t
rs_dgram_hdr_get(const void *data, size_t bytes, struct sockaddr_storage *from)
{
	struct sockaddr_in6 *in6 = (void *)from;
	struct sockaddr_in *in = (void *)from;
	struct rs_dgram_hdr h = { 0 };

	memset(from, 0, sizeof(*from));
	if (bytes < RS_DGRAM_V4_BYTES)
		return 0;
	memcpy(&h, data, bytes < sizeof(h) ? bytes : sizeof(h));
	if (h.length > bytes)
		return 0;
	if (h.version == 4 && h.length == RS_DGRAM_V4_BYTES) {
		in->sin_family = AF_INET;
		in->sin_port = h.port;
		in->sin_addr.s_addr = h.addr.v4;
	} else if (h.version == 6 && h.length == RS_DGRAM_V6_BYTES) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = h.port;
		in6->sin6_flowinfo = h.addr.v6.flowinfo;
		memcpy(&in6->sin6_addr, h.addr.v6.addr, 16);
	} else {
		return 0;
	}
	return h.length;
}

void
rs_udp_hdr_put(struct rs_udp_hdr *h, enum rs_op op, uint32_t qpn, const struct sockaddr *local)
{
	memset(h, 0, sizeof(*h));
	h->tag = htobe32(RS_UDP_TAG);
	h->op = (uint8_t)op;
	h->qpn = htobe32(qpn & RS_UDP_QPN_MASK);
	if (local->sa_family == AF_INET) {
		h->version = 4;
		h->length = RS_UDP_V4_BYTES;
		h->addr.v4 = ((const struct sockaddr_in *)(const void *)local)->sin_addr.s_addr;
	} else {
		h->version = 6;
		h->length = RS_UDP_V6_BYTES;
		memcpy(h->addr.v6, &((const struct sockaddr_in6 *)(const void *)local)->sin6_addr, 16);
	}
}

size_t
rs_udp_hdr_get(const void *data, size_t bytes, sa_family_t family, uint8_t *op, uint32_t *qpn)
{
	struct rs_udp_hdr h = { 0 };

	if (bytes < RS_UDP_V4_BYTES)
		return 0;
	memcpy(&h, data, bytes < sizeof(h) ? bytes : sizeof(h));
	if (h.tag != htobe32(RS_UDP_TAG) || h.length > bytes)
		return 0;
	if (!(h.version == 4 && h.length == RS_UDP_V4_BYTES && family == AF_INET) &&
	    !(h.version == 6 && h.length == RS_UDP_V6_BYTES && family == AF_INET6))
		return 0;
	if (h.op != RS_OP_DATA && h.op != RS_OP_CTRL)
		return 0;
	*op = h.op;
	*qpn = be32toh(h.qpn) & RS_UDP_QPN_MASK;
	return h.length;
}
