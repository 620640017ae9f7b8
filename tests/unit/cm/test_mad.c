/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats of the CM's MADs: against themselves, and against what Linux puts on the wire (tests/golden). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/mad.h"
#include "cm/mad_fields.h"
#include "../wire/pcap.h"
#include "wire/wire.h"

#define ATTR_END (CM_ATTR_FIRST + CM_ATTR_COUNT)

/* ---- Captures ---- */
/* What the captures hold, counted with tshark. */
static const unsigned int golden_counts[CM_ATTR_COUNT] = {
	[CM_ATTR_REQ - CM_ATTR_FIRST] = 24,
	[CM_ATTR_REJ - CM_ATTR_FIRST] = 1,
	[CM_ATTR_REP - CM_ATTR_FIRST] = 23,
	[CM_ATTR_RTU - CM_ATTR_FIRST] = 23,
	[CM_ATTR_DREQ - CM_ATTR_FIRST] = 29,
	[CM_ATTR_DREP - CM_ATTR_FIRST] = 27,
	[CM_ATTR_SIDR_REQ - CM_ATTR_FIRST] = 4,
	[CM_ATTR_SIDR_REP - CM_ATTR_FIRST] = 4,
};

static bool
is_gsi(const uint8_t *frame, uint32_t len, struct wire_pkt *p)
{
	return wire_parse(frame, len, true, p) == WIRE_OK && p->bth.dqpn == CM_GSI_QPN;
}

static void
check_roundtrip(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	unsigned int *counts = arg;
	uint8_t out[CM_MAD_BYTES];
	struct wire_pkt p;
	struct cm_msg m;

	if (!is_gsi(frame, len, &p))
		return;
	if (cm_mad_decode(p.payload, p.payload_bytes, &m) != CM_MAD_OK)
		fail_msg("%s, packet %u: no CM MAD", file, number);
	memset(out, 0xa5, sizeof(out));
	cm_mad_encode(&m, out);
	for (unsigned int i = 0; i < sizeof(out); i++)
		if (out[i] != p.payload[i])
			fail_msg("%s, packet %u (%s): byte %u is %02x, encoded %02x", file, number,
				 cm_attr_name(m.hdr.attr_id), i, p.payload[i], out[i]);
	counts[m.hdr.attr_id - CM_ATTR_FIRST]++;
}

static void
every_captured_mad_decodes_and_encodes_byte_for_byte(void **state)
{
	unsigned int counts[CM_ATTR_COUNT] = { 0 };

	golden_for_each(check_roundtrip, counts);
	for (unsigned int i = 0; i < CM_ATTR_COUNT; i++)
		if (counts[i] != golden_counts[i])
			fail_msg("%u of %s, expected %u", counts[i], cm_attr_name(CM_ATTR_FIRST + i), golden_counts[i]);
}

static void
check_ip_hdr(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	const uint8_t *data;
	uint8_t out[CM_IP_HDR_BYTES];
	unsigned int *seen = arg, addr_bytes;
	uint32_t data_bytes;
	struct cm_ip_hdr h;
	struct wire_pkt p;
	struct cm_msg m;

	if (!is_gsi(frame, len, &p) || cm_mad_decode(p.payload, p.payload_bytes, &m) != CM_MAD_OK)
		return;
	if (m.hdr.attr_id != CM_ATTR_REQ && m.hdr.attr_id != CM_ATTR_SIDR_REQ)
		return;
	data = cm_msg_private(&m, &data_bytes);
	if (!cm_ip_hdr_get(data, data_bytes, &h))
		fail_msg("%s, packet %u: no IP header", file, number);
	assert_int_equal(h.ip_version, p.ip_version);
	addr_bytes = h.ip_version == 4 ? 4 : 16;
	assert_int_equal(gid_is_v4(&h.src), h.ip_version == 4);
	assert_int_equal(gid_is_v4(&h.dst), h.ip_version == 4);
	assert_memory_equal(gid_ip(&h.src), p.l3 + (h.ip_version == 4 ? 12 : 8), addr_bytes);
	assert_memory_equal(gid_ip(&h.dst), p.l3 + (h.ip_version == 4 ? 16 : 24), addr_bytes);
	cm_ip_hdr_put(&h, out);
	assert_memory_equal(out, data, sizeof(out));
	seen[h.ip_version == 6]++;
}

static void
the_ip_header_of_captured_requests_holds_the_packets_addresses(void **state)
{
	unsigned int seen[2] = { 0 };

	golden_for_each(check_ip_hdr, seen);
	assert_int_equal(seen[0], 23);
	assert_int_equal(seen[1], 5);
}

struct first {
	const char *file;
	enum cm_attr attr;
	struct cm_msg m;
	bool found;
};

static void
find_first(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	struct first *f = arg;
	struct wire_pkt p;
	struct cm_msg m;

	if (f->found || strcmp(file, f->file) != 0 || !is_gsi(frame, len, &p))
		return;
	if (cm_mad_decode(p.payload, p.payload_bytes, &m) == CM_MAD_OK && m.hdr.attr_id == f->attr) {
		f->m = m;
		f->found = true;
	}
}

/* Values read off the capture's bytes by hand. */
static void
fields_of_rpings_REQ_are_where_the_specification_has_them(void **state)
{
	static const uint8_t a[16] = { [10] = 0xff, [11] = 0xff, 198, 18, 0, 1 };
	static const uint8_t b[16] = { [10] = 0xff, [11] = 0xff, 198, 18, 0, 2 };
	struct first f = { .file = "rping_v4.pcap", .attr = CM_ATTR_REQ };
	const struct cm_req *r = &f.m.req;

	golden_for_each(find_first, &f);
	assert_true(f.found);
	assert_int_equal(f.m.hdr.tid, UINT64_C(0x00000002611c74ea));
	assert_int_equal(r->local_comm_id, 0xea741c61);
	assert_int_equal(r->service_id, cm_service_id(CM_PS_TCP, 7174));
	assert_int_equal(r->ca_guid, UINT64_C(0x505400fffe180002));
	assert_int_equal(r->qpn, 0x27);
	assert_int_equal(r->responder_resources, 1);
	assert_int_equal(r->initiator_depth, 1);
	assert_int_equal(r->remote_response_timeout, 20);
	assert_int_equal(r->local_response_timeout, 20);
	assert_int_equal(r->transport, CM_TRANSPORT_RC);
	assert_int_equal(r->starting_psn, 0xdf81b3);
	assert_int_equal(r->retry_count, 7);
	assert_int_equal(r->rnr_retry_count, 7);
	assert_int_equal(r->pkey, 0xffff);
	assert_int_equal(r->path_mtu, 5);
	assert_int_equal(r->max_cm_retries, 15);
	assert_int_equal(r->primary.local_lid, CM_LID_PERMISSIVE);
	assert_memory_equal(&r->primary.local_gid, b, 16);
	assert_memory_equal(&r->primary.remote_gid, a, 16);
	assert_int_equal(r->primary.flow_label, 0x3c3d5);
	assert_int_equal(r->primary.packet_rate, 0);
	assert_int_equal(r->primary.hop_limit, 64);
	assert_int_equal(r->primary.ack_timeout, 19);
	assert_int_equal(r->alternate.local_lid, 0);
}

static void
fields_of_rpings_REP_are_where_the_specification_has_them(void **state)
{
	struct first f = { .file = "rping_v4.pcap", .attr = CM_ATTR_REP };
	const struct cm_rep *r = &f.m.rep;

	golden_for_each(find_first, &f);
	assert_true(f.found);
	assert_int_equal(r->local_comm_id, 0x8ab855ab);
	assert_int_equal(r->remote_comm_id, 0xea741c61);
	assert_int_equal(r->qpn, 0x27);
	assert_int_equal(r->starting_psn, 0xf24663);
	assert_int_equal(r->target_ack_delay, 15);
	assert_int_equal(r->failover, CM_FAILOVER_ACCEPTED);
	assert_int_equal(r->rnr_retry_count, 7);
	assert_int_equal(r->srq, 0);
	assert_int_equal(r->ca_guid, UINT64_C(0x505400fffe180001));
}

static void
the_captured_REJ_says_nobody_listens(void **state)
{
	struct first f = { .file = "cm_reject.pcap", .attr = CM_ATTR_REJ };

	golden_for_each(find_first, &f);
	assert_true(f.found);
	assert_int_equal(f.m.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	assert_int_equal(f.m.rej.msg_rejected, CM_MSG_OF_REQ);
	assert_int_equal(f.m.rej.local_comm_id, 0);
	assert_string_equal(cm_rej_reason_name(f.m.rej.reason), "invalid service ID");
}

/* ---- The tables against themselves ---- */
static void
fields_dont_overlap_on_the_wire_or_in_the_struct(void **state)
{
	for (uint16_t attr = CM_ATTR_FIRST; attr < ATTR_END; attr++) {
		const struct mad_message *t = mad_message(attr);
		bool bit[CM_MAD_DATA_BYTES * 8] = { false }, byte[sizeof(struct cm_msg)] = { false };

		assert_non_null(t);
		for (unsigned int i = 0; i < t->nb_fields; i++) {
			const struct mad_field *f = &t->fields[i];

			assert_true(f->bits > 0 && f->bit + f->bits <= CM_MAD_DATA_BYTES * 8);
			assert_true(f->bits <= f->size * 8);
			for (unsigned int j = f->bit; j < f->bit + f->bits; j++) {
				if (bit[j])
					fail_msg("%s: bit %u belongs to two fields", t->name, j);
				bit[j] = true;
			}
			for (unsigned int j = f->offset; j < f->offset + f->size; j++) {
				if (byte[j])
					fail_msg("%s: byte %u of the struct belongs to two fields", t->name, j);
				byte[j] = true;
			}
		}
		/* The last field is the private data, up to the end. */
		assert_true(bit[CM_MAD_DATA_BYTES * 8 - 1]);
		assert_int_equal(t->fields[t->nb_fields - 1].offset, t->private_offset);
		assert_int_equal(t->fields[t->nb_fields - 1].size, t->private_bytes);
	}
}

static void
reserved_bits(const struct mad_message *t, uint8_t mask[CM_MAD_DATA_BYTES])
{
	memset(mask, 0, CM_MAD_DATA_BYTES);
	for (unsigned int i = 0; i < t->nb_fields; i++)
		for (unsigned int j = t->fields[i].bit; j < t->fields[i].bit + t->fields[i].bits; j++)
			mask[j / 8] |= 0x80 >> j % 8;
}

static void
any_bytes_decode_and_encode_to_themselves_but_for_reserved_bits(void **state)
{
	uint8_t in[CM_MAD_BYTES], out[CM_MAD_BYTES], mask[CM_MAD_DATA_BYTES];
	struct cm_msg m;
	unsigned int good = 0;

	srandom(7);
	for (unsigned int n = 0; n < 4000; n++) {
		uint16_t attr = CM_ATTR_FIRST + n % CM_ATTR_COUNT;

		for (unsigned int i = 0; i < sizeof(in); i++)
			in[i] = (uint8_t)random();
		cm_msg_init(&m, attr, n);
		cm_mad_encode(&m, out);
		memcpy(in, out, CM_MAD_HDR_BYTES);
		if (cm_mad_decode(in, sizeof(in), &m) == CM_MAD_BAD_FIELD)
			continue;
		cm_mad_encode(&m, out);
		reserved_bits(mad_message(attr), mask);
		for (unsigned int i = 0; i < CM_MAD_DATA_BYTES; i++)
			assert_int_equal(out[CM_MAD_HDR_BYTES + i], in[CM_MAD_HDR_BYTES + i] & mask[i]);
		good++;
	}
	assert_true(good > 2500);
}

/* ---- What is no CM MAD ---- */
static void
each_kind_of_bad_mad_has_its_verdict(void **state)
{
	static const struct {
		unsigned int byte;
		uint8_t value;
		enum cm_mad_verdict want;
	} cases[] = {
		{ 0, 2, CM_MAD_BAD_VERSION },  { 1, 0x03, CM_MAD_OTHER_CLASS }, { 2, 1, CM_MAD_BAD_VERSION },
		{ 3, 1, CM_MAD_BAD_METHOD },   { 3, 0x81, CM_MAD_BAD_METHOD },  { 17, 0x0f, CM_MAD_BAD_ATTRIBUTE },
		{ 17, 0x1b, CM_MAD_BAD_ATTRIBUTE }, { 16, 1, CM_MAD_BAD_ATTRIBUTE },
		/* REJ's length of information: 73 of 72 bytes. */
		{ CM_MAD_HDR_BYTES + 9, 73 << 1, CM_MAD_BAD_FIELD }, { CM_MAD_HDR_BYTES + 9, 72 << 1, CM_MAD_OK },
	};
	uint8_t mad[CM_MAD_BYTES + 1] = { 0 };
	struct cm_msg m;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cm_msg_init(&m, CM_ATTR_REJ, 1);
		cm_mad_encode(&m, mad);
		mad[cases[i].byte] = cases[i].value;
		assert_int_equal(cm_mad_decode(mad, CM_MAD_BYTES, &m), cases[i].want);
	}
	cm_msg_init(&m, CM_ATTR_REJ, 1);
	cm_mad_encode(&m, mad);
	for (unsigned int len = 0; len < CM_MAD_BYTES; len++)
		assert_int_equal(cm_mad_decode(mad, len, &m), CM_MAD_BAD_LENGTH);
	assert_int_equal(cm_mad_decode(mad, CM_MAD_BYTES + 1, &m), CM_MAD_BAD_LENGTH);
}

static void
information_is_no_longer_than_there_is_room(void **state)
{
	static const enum cm_attr attrs[] = { CM_ATTR_REJ, CM_ATTR_APR, CM_ATTR_SIDR_REP };
	uint8_t mad[CM_MAD_BYTES];
	struct cm_msg m;

	for (unsigned int i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		for (uint8_t over = 0; over < 2; over++) {
			cm_msg_init(&m, attrs[i], 1);
			*(attrs[i] == CM_ATTR_REJ ? &m.rej.ari_bytes : attrs[i] == CM_ATTR_APR ? &m.apr.info_bytes : &m.sidr_rep.info_bytes) =
				(uint8_t)(CM_ARI_BYTES + over);
			cm_mad_encode(&m, mad);
			assert_int_equal(cm_mad_decode(mad, CM_MAD_BYTES, &m), over ? CM_MAD_BAD_FIELD : CM_MAD_OK);
		}
	}
	assert_string_equal(cm_rej_reason_name(CM_REJ_VENDOR_OPTION_NOT_SUPPORTED), "vendor option not supported");
	assert_string_equal(cm_rej_reason_name(CM_REJ_VENDOR_OPTION_NOT_SUPPORTED + 1), "unknown reason");
}

/* ---- Service IDs, times ---- */
static void
service_ids_are_port_space_and_port(void **state)
{
	assert_int_equal(cm_service_id(CM_PS_TCP, 0x1234), 0x01061234);
	assert_int_equal(cm_service_id(CM_PS_UDP, 1), 0x01110001);
	assert_int_equal(cm_service_id(CM_PS_IPOIB, 2), 0x00020002);
	assert_int_equal(cm_service_id(CM_PS_IB, 3), 0x013f0003);
	assert_int_equal(cm_service_port_space(0x01061234), CM_PS_TCP);
	assert_int_equal(cm_service_port_space(UINT64_C(0x1000000001061234)), 0);
	assert_int_equal(cm_service_port(0x01061234), 0x1234);
}

static void
a_malformed_ip_header_is_none(void **state)
{
	uint8_t data[CM_IP_HDR_BYTES] = { 0, 0x40 };
	struct cm_ip_hdr h;

	assert_true(cm_ip_hdr_get(data, sizeof(data), &h));
	assert_false(cm_ip_hdr_get(data, sizeof(data) - 1, &h));
	data[1] = 0x50;
	assert_false(cm_ip_hdr_get(data, sizeof(data), &h));
	data[1] = 0x60;
	assert_true(cm_ip_hdr_get(data, sizeof(data), &h));
	data[0] = 1;
	assert_false(cm_ip_hdr_get(data, sizeof(data), &h));
}

static void
encoded_times_are_4096_ns_times_a_power_of_two(void **state)
{
	assert_int_equal(cm_time_ns(0), 4096);
	assert_int_equal(cm_time_ns(20), UINT64_C(4294967296));
	assert_int_equal(cm_time_ns(31), UINT64_C(4096) << 31);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_captured_mad_decodes_and_encodes_byte_for_byte),
		cmocka_unit_test(the_ip_header_of_captured_requests_holds_the_packets_addresses),
		cmocka_unit_test(fields_of_rpings_REQ_are_where_the_specification_has_them),
		cmocka_unit_test(fields_of_rpings_REP_are_where_the_specification_has_them),
		cmocka_unit_test(the_captured_REJ_says_nobody_listens),
		cmocka_unit_test(fields_dont_overlap_on_the_wire_or_in_the_struct),
		cmocka_unit_test(any_bytes_decode_and_encode_to_themselves_but_for_reserved_bits),
		cmocka_unit_test(each_kind_of_bad_mad_has_its_verdict),
		cmocka_unit_test(information_is_no_longer_than_there_is_room),
		cmocka_unit_test(service_ids_are_port_space_and_port),
		cmocka_unit_test(a_malformed_ip_header_is_none),
		cmocka_unit_test(encoded_times_are_4096_ns_times_a_power_of_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
