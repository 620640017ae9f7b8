/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm/mad.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "cm/mad_fields.h"
#include "wire/wire.h"

/* ---- Positions of the fields: byte, first bit in it, number of bits. Offsets are counted after the MAD header. ---- */
#define FIELD(type, member, byte, bit_, bits_) \
	{ .bit = (byte) * 8 + (bit_), .bits = (bits_), .offset = offsetof(struct type, member), \
	  .size = sizeof(((struct type *)0)->member) }
#define BYTES(type, member, byte) FIELD(type, member, byte, 0, sizeof(((struct type *)0)->member) * 8)

/* Every message ends with private data, which reach to the end of the MAD. */
#define PRIVATE_DATA(type) \
	BYTES(type, private_data, CM_MAD_DATA_BYTES - sizeof(((struct type *)0)->private_data))
/* Nearly every message begins with these fields. */
#define COMM_IDS(type) BYTES(type, local_comm_id, 0), BYTES(type, remote_comm_id, 4)
/* The fields that a path in a REQ and one in a LAP have at the same offsets from byte `at`. */
#define PATH(type, path, at) \
	BYTES(type, path.local_lid, (at)), BYTES(type, path.remote_lid, (at) + 2), \
	BYTES(type, path.local_gid, (at) + 4), BYTES(type, path.remote_gid, (at) + 20), \
	FIELD(type, path.flow_label, (at) + 36, 0, 20), FIELD(type, path.sl, (at) + 42, 0, 4), \
	FIELD(type, path.subnet_local, (at) + 42, 4, 1), FIELD(type, path.ack_timeout, (at) + 43, 0, 5)
#define REQ_PATH(path, at) \
	PATH(cm_req, path, at), FIELD(cm_req, path.packet_rate, (at) + 39, 2, 6), \
	BYTES(cm_req, path.traffic_class, (at) + 40), BYTES(cm_req, path.hop_limit, (at) + 41)

static const struct mad_field hdr_fields[] = {
	BYTES(cm_mad_hdr, base_version, 0),
	BYTES(cm_mad_hdr, mgmt_class, 1),
	BYTES(cm_mad_hdr, class_version, 2),
	BYTES(cm_mad_hdr, method, 3),
	BYTES(cm_mad_hdr, status, 4),
	BYTES(cm_mad_hdr, class_specific, 6),
	BYTES(cm_mad_hdr, tid, 8),
	BYTES(cm_mad_hdr, attr_id, 16),
	BYTES(cm_mad_hdr, attr_mod, 20),
};

static const struct mad_field req_fields[] = {
	BYTES(cm_req, local_comm_id, 0),
	BYTES(cm_req, service_id, 8),
	BYTES(cm_req, ca_guid, 16),
	BYTES(cm_req, qkey, 28),
	FIELD(cm_req, qpn, 32, 0, 24),
	BYTES(cm_req, responder_resources, 35),
	FIELD(cm_req, local_eecn, 36, 0, 24),
	BYTES(cm_req, initiator_depth, 39),
	FIELD(cm_req, remote_eecn, 40, 0, 24),
	FIELD(cm_req, remote_response_timeout, 43, 0, 5),
	FIELD(cm_req, transport, 43, 5, 2),
	FIELD(cm_req, flow_control, 43, 7, 1),
	FIELD(cm_req, starting_psn, 44, 0, 24),
	FIELD(cm_req, local_response_timeout, 47, 0, 5),
	FIELD(cm_req, retry_count, 47, 5, 3),
	BYTES(cm_req, pkey, 48),
	FIELD(cm_req, path_mtu, 50, 0, 4),
	FIELD(cm_req, rdc_exists, 50, 4, 1),
	FIELD(cm_req, rnr_retry_count, 50, 5, 3),
	FIELD(cm_req, max_cm_retries, 51, 0, 4),
	FIELD(cm_req, srq, 51, 4, 1),
	FIELD(cm_req, ext_transport, 51, 5, 3),
	REQ_PATH(primary, 52),
	REQ_PATH(alternate, 96),
	FIELD(cm_req, sap_supported, 139, 5, 1),
	PRIVATE_DATA(cm_req),
};

static const struct mad_field mra_fields[] = {
	COMM_IDS(cm_mra),
	FIELD(cm_mra, msg_mraed, 8, 0, 2),
	FIELD(cm_mra, service_timeout, 9, 0, 5),
	PRIVATE_DATA(cm_mra),
};

static const struct mad_field rej_fields[] = {
	COMM_IDS(cm_rej),
	FIELD(cm_rej, msg_rejected, 8, 0, 2),
	FIELD(cm_rej, ari_bytes, 9, 0, 7),
	BYTES(cm_rej, reason, 10),
	BYTES(cm_rej, ari, 12),
	PRIVATE_DATA(cm_rej),
};

static const struct mad_field rep_fields[] = {
	COMM_IDS(cm_rep),
	BYTES(cm_rep, qkey, 8),
	FIELD(cm_rep, qpn, 12, 0, 24),
	FIELD(cm_rep, local_eecn, 16, 0, 24),
	FIELD(cm_rep, starting_psn, 20, 0, 24),
	BYTES(cm_rep, responder_resources, 24),
	BYTES(cm_rep, initiator_depth, 25),
	FIELD(cm_rep, target_ack_delay, 26, 0, 5),
	FIELD(cm_rep, failover, 26, 5, 2),
	FIELD(cm_rep, flow_control, 26, 7, 1),
	FIELD(cm_rep, rnr_retry_count, 27, 0, 3),
	FIELD(cm_rep, srq, 27, 3, 1),
	BYTES(cm_rep, ca_guid, 28),
	PRIVATE_DATA(cm_rep),
};

static const struct mad_field rtu_fields[] = {
	COMM_IDS(cm_rtu),
	PRIVATE_DATA(cm_rtu),
};

static const struct mad_field dreq_fields[] = {
	COMM_IDS(cm_dreq),
	FIELD(cm_dreq, remote_qpn, 8, 0, 24),
	PRIVATE_DATA(cm_dreq),
};

static const struct mad_field drep_fields[] = {
	COMM_IDS(cm_drep),
	PRIVATE_DATA(cm_drep),
};

static const struct mad_field lap_fields[] = {
	COMM_IDS(cm_lap),
	FIELD(cm_lap, remote_qpn, 12, 0, 24),
	FIELD(cm_lap, remote_response_timeout, 15, 0, 5),
	PATH(cm_lap, alternate, 20),
	BYTES(cm_lap, alternate.traffic_class, 59),
	BYTES(cm_lap, alternate.hop_limit, 60),
	FIELD(cm_lap, alternate.packet_rate, 61, 2, 6),
	PRIVATE_DATA(cm_lap),
};

static const struct mad_field apr_fields[] = {
	COMM_IDS(cm_apr),
	BYTES(cm_apr, info_bytes, 8),
	BYTES(cm_apr, status, 9),
	BYTES(cm_apr, info, 12),
	PRIVATE_DATA(cm_apr),
};

static const struct mad_field sidr_req_fields[] = {
	BYTES(cm_sidr_req, request_id, 0),
	BYTES(cm_sidr_req, pkey, 4),
	BYTES(cm_sidr_req, service_id, 8),
	PRIVATE_DATA(cm_sidr_req),
};

static const struct mad_field sidr_rep_fields[] = {
	BYTES(cm_sidr_rep, request_id, 0),
	BYTES(cm_sidr_rep, status, 4),
	BYTES(cm_sidr_rep, info_bytes, 5),
	FIELD(cm_sidr_rep, qpn, 8, 0, 24),
	BYTES(cm_sidr_rep, service_id, 12),
	BYTES(cm_sidr_rep, qkey, 20),
	BYTES(cm_sidr_rep, info, 24),
	PRIVATE_DATA(cm_sidr_rep),
};

#define MESSAGE(attr, type) \
	[CM_ATTR_##attr - CM_ATTR_FIRST] = { #attr, type##_fields, sizeof(type##_fields) / sizeof(type##_fields[0]), \
		offsetof(struct cm_##type, private_data), sizeof(((struct cm_##type *)0)->private_data) }

static const struct mad_message messages[CM_ATTR_COUNT] = {
	MESSAGE(REQ, req),
	MESSAGE(MRA, mra),
	MESSAGE(REJ, rej),
	MESSAGE(REP, rep),
	MESSAGE(RTU, rtu),
	MESSAGE(DREQ, dreq),
	MESSAGE(DREP, drep),
	MESSAGE(SIDR_REQ, sidr_req),
	MESSAGE(SIDR_REP, sidr_rep),
	MESSAGE(LAP, lap),
	MESSAGE(APR, apr),
};
static const struct mad_message header = { "header", hdr_fields, sizeof(hdr_fields) / sizeof(hdr_fields[0]), 0, 0 };

const struct mad_message *
mad_message(uint16_t attr_id)
{
	if (attr_id < CM_ATTR_FIRST || attr_id >= CM_ATTR_FIRST + CM_ATTR_COUNT)
		return NULL;
	return &messages[attr_id - CM_ATTR_FIRST];
}

/* ---- Accessing one field ---- */
/** Members up to this size are numbers, larger ones byte strings. */
#define NUMBER_BYTES 8

static uint64_t
member_get(const void *member, unsigned int size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

static void
member_put(void *member, unsigned int size, uint64_t v)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)v;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)v;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)v;
		break;
	default:
		*(uint64_t *)member = v;
	}
}

/* @return the bytes that contain f as one number, in which f starts at bit *shift. */
static uint64_t
field_bytes(const uint8_t *p, const struct mad_field *f, unsigned int *shift)
{
	unsigned int first = f->bit / 8, last = (f->bit + f->bits - 1) / 8;
	uint64_t v = 0;

	for (unsigned int i = first; i <= last; i++)
		v = v << 8 | p[i];
	*shift = (last + 1) * 8 - (f->bit + f->bits);
	return v;
}

static uint64_t
field_mask(const struct mad_field *f)
{
	return UINT64_MAX >> (64 - f->bits);
}

static void
field_decode(const uint8_t *p, const struct mad_field *f, void *msg)
{
	uint8_t *member = (uint8_t *)msg + f->offset;
	unsigned int shift;
	uint64_t v;

	if (f->size > NUMBER_BYTES) {
		memcpy(member, p + f->bit / 8, f->size);
		return;
	}
	v = field_bytes(p, f, &shift);
	member_put(member, f->size, v >> shift & field_mask(f));
}

static void
field_encode(uint8_t *p, const struct mad_field *f, const void *msg)
{
	const uint8_t *member = (const uint8_t *)msg + f->offset;
	unsigned int shift, first = f->bit / 8, last = (f->bit + f->bits - 1) / 8;
	uint64_t v;

	if (f->size > NUMBER_BYTES) {
		memcpy(p + first, member, f->size);
		return;
	}
	v = field_bytes(p, f, &shift);
	v &= ~(field_mask(f) << shift);
	v |= (member_get(member, f->size) & field_mask(f)) << shift;
	for (unsigned int i = last + 1; i-- > first; v >>= 8)
		p[i] = (uint8_t)v;
}

static void
message_decode(const uint8_t *p, const struct mad_message *t, void *msg)
{
	for (unsigned int i = 0; i < t->nb_fields; i++)
		field_decode(p, &t->fields[i], msg);
}

static void
message_encode(uint8_t *p, const struct mad_message *t, const void *msg)
{
	for (unsigned int i = 0; i < t->nb_fields; i++)
		field_encode(p, &t->fields[i], msg);
}

/* ---- Messages ---- */
/* Check the lengths that a receiver of the message would rely on. */
static bool
lengths_fit(const struct cm_msg *m)
{
	switch (m->hdr.attr_id) {
	case CM_ATTR_REJ:
		return m->rej.ari_bytes <= CM_ARI_BYTES;
	case CM_ATTR_APR:
		return m->apr.info_bytes <= CM_ARI_BYTES;
	case CM_ATTR_SIDR_REP:
		return m->sidr_rep.info_bytes <= CM_ARI_BYTES;
	default:
		return true;
	}
}

enum cm_mad_verdict
cm_mad_decode(const uint8_t *mad, size_t len, struct cm_msg *m)
{
	const struct mad_message *t;

	if (len != CM_MAD_BYTES)
		return CM_MAD_BAD_LENGTH;
	message_decode(mad, &header, &m->hdr);
	if (m->hdr.base_version != CM_MAD_BASE_VERSION)
		return CM_MAD_BAD_VERSION;
	if (m->hdr.mgmt_class != CM_MAD_CLASS)
		return CM_MAD_OTHER_CLASS;
	if (m->hdr.class_version != CM_MAD_CLASS_VERSION)
		return CM_MAD_BAD_VERSION;
	if (m->hdr.method != CM_MAD_METHOD_SEND)
		return CM_MAD_BAD_METHOD;
	t = mad_message(m->hdr.attr_id);
	if (t == NULL)
		return CM_MAD_BAD_ATTRIBUTE;
	message_decode(mad + CM_MAD_HDR_BYTES, t, &m->req);
	return lengths_fit(m) ? CM_MAD_OK : CM_MAD_BAD_FIELD;
}

void
cm_mad_encode(const struct cm_msg *m, uint8_t mad[CM_MAD_BYTES])
{
	const struct mad_message *t = mad_message(m->hdr.attr_id);

	UROCE_ASSERT(t != NULL);
	memset(mad, 0, CM_MAD_BYTES);
	message_encode(mad, &header, &m->hdr);
	message_encode(mad + CM_MAD_HDR_BYTES, t, &m->req);
}

void
cm_msg_init(struct cm_msg *m, enum cm_attr attr, uint64_t tid)
{
	memset(m, 0, sizeof(*m));
	m->hdr.base_version = CM_MAD_BASE_VERSION;
	m->hdr.mgmt_class = CM_MAD_CLASS;
	m->hdr.class_version = CM_MAD_CLASS_VERSION;
	m->hdr.method = CM_MAD_METHOD_SEND;
	m->hdr.tid = tid;
	m->hdr.attr_id = attr;
}

const char *
cm_attr_name(uint16_t attr_id)
{
	const struct mad_message *t = mad_message(attr_id);

	return t == NULL ? "unknown" : t->name;
}

const uint8_t *
cm_msg_private(const struct cm_msg *m, uint32_t *len_bytes)
{
	const struct mad_message *t = mad_message(m->hdr.attr_id);

	UROCE_ASSERT(t != NULL);
	*len_bytes = t->private_bytes;
	return (const uint8_t *)&m->req + t->private_offset;
}

/* ---- Names ---- */
#define REASON(name, number, words) [number] = words,
static const char *const rej_reasons[] = { CM_REJ_REASONS(REASON) };
#undef REASON

const char *
cm_rej_reason_name(uint16_t reason)
{
	if (reason < sizeof(rej_reasons) / sizeof(rej_reasons[0]) && rej_reasons[reason] != NULL)
		return rej_reasons[reason];
	return "unknown reason";
}

/* ---- What the RDMA CM adds to the private data ---- */
enum cm_port_space
cm_service_port_space(uint64_t service_id)
{
	switch (service_id >> 16) {
	case CM_PS_IPOIB:
	case CM_PS_TCP:
	case CM_PS_UDP:
	case CM_PS_IB:
		return (enum cm_port_space)(service_id >> 16);
	default:
		return (enum cm_port_space)0;
	}
}

/* Offsets in the header (annex A11.3; Linux: struct cma_hdr). */
enum {
	IP_HDR_VERSION = 0,
	IP_HDR_IP_VERSION = 1, /* upper four bits */
	IP_HDR_PORT = 2,
	IP_HDR_SRC = 4,
	IP_HDR_DST = 20,
	IP_HDR_V4 = 12, /* of an IPv4 address in a source or destination; before it are zeros */
};
static_assert(IP_HDR_DST + 16 == CM_IP_HDR_BYTES, "IP header");

bool
cm_ip_hdr_get(const uint8_t *data, size_t len_bytes, struct cm_ip_hdr *h)
{
	unsigned int at;

	if (len_bytes < CM_IP_HDR_BYTES || data[IP_HDR_VERSION] != 0)
		return false;
	h->ip_version = data[IP_HDR_IP_VERSION] >> 4;
	h->port = wire_get16(data + IP_HDR_PORT);
	at = h->ip_version == 4 ? IP_HDR_V4 : 0;
	h->src = gid_from_ip(h->ip_version, data + IP_HDR_SRC + at);
	h->dst = gid_from_ip(h->ip_version, data + IP_HDR_DST + at);
	return h->ip_version == 4 || h->ip_version == 6;
}

void
cm_ip_hdr_put(const struct cm_ip_hdr *h, uint8_t data[CM_IP_HDR_BYTES])
{
	const unsigned int at = h->ip_version == 4 ? IP_HDR_V4 : 0;

	memset(data, 0, CM_IP_HDR_BYTES);
	data[IP_HDR_IP_VERSION] = (uint8_t)(h->ip_version << 4);
	wire_put16(data + IP_HDR_PORT, h->port);
	memcpy(data + IP_HDR_SRC + at, h->src.raw + at, sizeof(h->src) - at);
	memcpy(data + IP_HDR_DST + at, h->dst.raw + at, sizeof(h->dst) - at);
}
