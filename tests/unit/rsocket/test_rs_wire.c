/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/rsocket/rs_wire.c */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/rs_wire.h"

/* What rdma-core's rstream sent: tests/golden/rstream.pcap, REQ. */
static const uint8_t golden[40] = {
	0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x55, 0x5e, 0xba, 0x0b, 0x50, 0x00, 0x00, 0x00, 0x2d, 0x00,
	0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x7f, 0x1e, 0x3a, 0x1f, 0x40, 0x00, 0x00, 0x00, 0x2e, 0xb2, 0x00, 0x08, 0x00, 0x00,
};

static const struct rs_hello hello = {
	.credits = 384,
	.list = { 0x555eba0b5000, 0x2d00, 2 },
	.chunk = { 0x7f1e3a1f4000, 0x2eb2, 1 << 19 },
};

static void
a_hello_is_what_rdma_core_sends(void **state)
{
	struct rs_conn_data c;

	rs_hello_put(&hello, &c);
	assert_memory_equal(&c, golden, sizeof(golden));
}

static void
rdma_cores_hello_is_understood(void **state)
{
	uint8_t padded[56] = { 0 };
	struct rs_hello h;

	memcpy(padded, golden, sizeof(golden));
	assert_int_equal(rs_hello_get(padded, sizeof(padded), &h), 0);
	assert_int_equal(h.credits, hello.credits);
	assert_memory_equal(&h.list, &hello.list, sizeof(h.list));
	assert_memory_equal(&h.chunk, &hello.chunk, sizeof(h.chunk));
	assert_int_equal(h.iomaps, 0);
	assert_false(h.swap);
}

static void
what_is_no_hello_is_refused(void **state)
{
	struct rs_conn_data c;
	struct rs_hello h;

	assert_int_equal(rs_hello_get(NULL, 0, &h), EPROTO);
	for (size_t n = 0; n < sizeof(golden); n++)
		assert_int_equal(rs_hello_get(golden, n, &h), EPROTO);
	for (int version = 0; version < 256; version++) {
		memcpy(&c, golden, sizeof(c));
		c.version = (uint8_t)version;
		assert_int_equal(rs_hello_get(&c, sizeof(c), &h), version == RS_VERSION ? 0 : EPROTO);
	}
	memcpy(&c, golden, sizeof(c));
	c.target_sgl.length = 0;
	assert_int_equal(rs_hello_get(&c, sizeof(c), &h), EPROTO);
	c.target_sgl.length = htonl(RS_REMOTE_CHUNKS_MAX + 1);
	assert_int_equal(rs_hello_get(&c, sizeof(c), &h), EPROTO);
}

static void
a_peer_of_the_other_byte_order_gets_descriptors_in_its_own(void **state)
{
	const struct rs_iomap m = { 0x0102030405060708, { 0x1112131415161718, 0x21222324, 0x31323334 } };
	struct rs_iomap swapped = rs_iomap_for(&m, true), same = rs_iomap_for(&m, false);
	struct rs_conn_data c;
	struct rs_hello h;

	memcpy(&c, golden, sizeof(c));
	c.flags ^= RS_F_BIG_ENDIAN;
	assert_int_equal(rs_hello_get(&c, sizeof(c), &h), 0);
	assert_true(h.swap);
	assert_memory_equal(&same, &m, sizeof(m));
	assert_int_equal(swapped.offset, 0x0807060504030201);
	assert_int_equal(swapped.sge.addr, 0x1817161514131211);
	assert_int_equal(swapped.sge.key, 0x24232221);
	assert_int_equal(swapped.sge.length, 0x34333231);
}

static void
numbers_of_mappings_survive_or_are_rounded_down(void **state)
{
	for (uint32_t n = 0; n <= 128; n++)
		assert_int_equal(rs_iomap_unscale(rs_iomap_scale(n)), n);
	assert_int_equal(rs_iomap_unscale(rs_iomap_scale(256)), 256);
	assert_int_equal(rs_iomap_unscale(rs_iomap_scale(1000)), 768);
	assert_int_equal(rs_iomap_unscale(rs_iomap_scale(RS_IOMAP_MAX)), RS_IOMAP_MAX);
	assert_int_equal(rs_iomap_unscale(rs_iomap_scale(UINT32_MAX)), RS_IOMAP_MAX);
	for (uint32_t n = 129; n < 40000; n += 7)
		assert_true(rs_iomap_unscale(rs_iomap_scale(n)) <= n);
}

static void
an_immediate_value_is_operation_and_operand(void **state)
{
	uint32_t m = rs_msg(RS_OP_SGL, 384);

	assert_int_equal(m, 0x80000180);
	assert_int_equal(rs_msg_op(m), RS_OP_SGL);
	assert_int_equal(rs_msg_data(m), 384);
	assert_int_equal(rs_msg(RS_OP_DATA, 1000), 1000);
	assert_int_equal(rs_msg(RS_OP_CTRL, RS_CTRL_SHUTDOWN), 0xe0000002);
	assert_int_equal(rs_msg_op(rs_msg(RS_OP_DATA, UINT32_MAX)), RS_OP_DATA);
}

static void
v4(struct sockaddr_in *sa)
{
	*sa = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(7174) };
	sa->sin_addr.s_addr = htonl(0xc6120001);
}

static void
v6(struct sockaddr_in6 *sa)
{
	*sa = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(7174) };
	inet_pton(AF_INET6, "fd00:18::1", &sa->sin6_addr);
}

static void
a_datagram_says_who_sends_it(void **state)
{
	static const uint8_t want[8] = { 4, 8, 0x1c, 0x06, 0xc6, 0x12, 0x00, 0x01 };
	struct sockaddr_storage from;
	struct rs_dgram_hdr h;
	struct sockaddr_in a;
	struct sockaddr_in6 b;

	v4(&a);
	rs_dgram_hdr_put(&h, (void *)&a);
	assert_memory_equal(&h, want, sizeof(want));
	assert_int_equal(rs_dgram_hdr_get(&h, RS_DGRAM_V4_BYTES, &from), RS_DGRAM_V4_BYTES);
	assert_memory_equal(&from, &a, sizeof(a));
	v6(&b);
	rs_dgram_hdr_put(&h, (void *)&b);
	assert_int_equal(rs_dgram_hdr_get(&h, sizeof(h), &from), RS_DGRAM_V6_BYTES);
	assert_memory_equal(&from, &b, sizeof(b));
}

static void
what_is_no_datagram_is_refused(void **state)
{
	struct sockaddr_storage from;
	struct rs_dgram_hdr h;
	struct sockaddr_in6 b;

	v6(&b);
	rs_dgram_hdr_put(&h, (void *)&b);
	for (size_t n = 0; n < sizeof(h); n++)
		assert_int_equal(rs_dgram_hdr_get(&h, n, &from), 0);
	for (int version = 0; version < 256; version++) {
		for (int length = 0; length < 256; length++) {
			bool ok = (version == 4 && length == RS_DGRAM_V4_BYTES) ||
				  (version == 6 && length == RS_DGRAM_V6_BYTES);

			h.version = (uint8_t)version;
			h.length = (uint8_t)length;
			assert_int_equal(rs_dgram_hdr_get(&h, sizeof(h), &from), ok ? length : 0);
		}
	}
}

static void
a_udp_packet_tells_the_qp(void **state)
{
	static const uint8_t want[16] = { 0x55, 0x55, 0x55, 0x55, 4, 7, 16, 0, 0, 0xab, 0xcd, 0xef, 0xc6, 0x12, 0x00, 0x01 };
	struct rs_udp_hdr h;
	struct sockaddr_in a;
	struct sockaddr_in6 b;
	uint32_t qpn = 0;
	uint8_t op = 99;

	v4(&a);
	rs_udp_hdr_put(&h, RS_OP_CTRL, 0xabcdef, (void *)&a);
	assert_memory_equal(&h, want, sizeof(want));
	assert_int_equal(rs_udp_hdr_get(&h, sizeof(want), AF_INET, &op, &qpn), RS_UDP_V4_BYTES);
	assert_int_equal(op, RS_OP_CTRL);
	assert_int_equal(qpn, 0xabcdef);
	v6(&b);
	rs_udp_hdr_put(&h, RS_OP_DATA, 77, (void *)&b);
	assert_int_equal(rs_udp_hdr_get(&h, sizeof(h), AF_INET6, &op, &qpn), RS_UDP_V6_BYTES);
	assert_int_equal(op, RS_OP_DATA);
	assert_int_equal(qpn, 77);
}

static void
udp_packets_of_others_are_refused(void **state)
{
	struct rs_udp_hdr h;
	struct sockaddr_in a;
	uint32_t qpn;
	uint8_t op;

	v4(&a);
	rs_udp_hdr_put(&h, RS_OP_DATA, 5, (void *)&a);
	for (size_t n = 0; n < RS_UDP_V4_BYTES; n++)
		assert_int_equal(rs_udp_hdr_get(&h, n, AF_INET, &op, &qpn), 0);
	assert_int_equal(rs_udp_hdr_get(&h, sizeof(h), AF_INET6, &op, &qpn), 0);
	h.op = RS_OP_SGL;
	assert_int_equal(rs_udp_hdr_get(&h, sizeof(h), AF_INET, &op, &qpn), 0);
	h.op = RS_OP_DATA;
	h.length = RS_UDP_V6_BYTES;
	assert_int_equal(rs_udp_hdr_get(&h, sizeof(h), AF_INET, &op, &qpn), 0);
	h.length = RS_UDP_V4_BYTES;
	h.tag ^= 1;
	assert_int_equal(rs_udp_hdr_get(&h, sizeof(h), AF_INET, &op, &qpn), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_what_rdma_core_sends),
		cmocka_unit_test(rdma_cores_hello_is_understood),
		cmocka_unit_test(what_is_no_hello_is_refused),
		cmocka_unit_test(a_peer_of_the_other_byte_order_gets_descriptors_in_its_own),
		cmocka_unit_test(numbers_of_mappings_survive_or_are_rounded_down),
		cmocka_unit_test(an_immediate_value_is_operation_and_operand),
		cmocka_unit_test(a_datagram_says_who_sends_it),
		cmocka_unit_test(what_is_no_datagram_is_refused),
		cmocka_unit_test(a_udp_packet_tells_the_qp),
		cmocka_unit_test(udp_packets_of_others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
