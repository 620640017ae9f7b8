/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The formats of the IB connection manager: its eleven MADs, service IDs, and the IP header of the RDMA CM.
 *
 * Owns: no state. Called by: lib/cm, its owner, tests, on any thread. Depends on libc and lib/wire only.
 * Formats are those of the IBTA specification, volume 1: MAD header 13.4.3, messages 12.6 to 12.11, IP header
 * annex A11.
 *
 * One table of fields per message (mad.c) is used for both decoding and encoding. Decoding ignores reserved bits,
 * encoding sets them to zero. Structs are in host byte order.
 */
#ifndef UROCE_CM_MAD_H
#define UROCE_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gid.h"

/* ---- Sizes, in bytes ---- */
enum {
	CM_MAD_BYTES = 256,
	CM_MAD_HDR_BYTES = 24,
	CM_MAD_DATA_BYTES = CM_MAD_BYTES - CM_MAD_HDR_BYTES,
	CM_REQ_PRIVATE_BYTES = 92,
	CM_MRA_PRIVATE_BYTES = 222,
	CM_REJ_PRIVATE_BYTES = 148,
	CM_REP_PRIVATE_BYTES = 196,
	CM_RTU_PRIVATE_BYTES = 224,
	CM_DREQ_PRIVATE_BYTES = 220,
	CM_DREP_PRIVATE_BYTES = 224,
	CM_LAP_PRIVATE_BYTES = 168,
	CM_APR_PRIVATE_BYTES = 148,
	CM_SIDR_REQ_PRIVATE_BYTES = 216,
	CM_SIDR_REP_PRIVATE_BYTES = 136,
	/** Additional rejection information of REJ, additional information of APR and SIDR_REP. */
	CM_ARI_BYTES = 72,
	CM_IP_HDR_BYTES = 36,
};

/* ---- MAD header ---- */
enum {
	CM_MAD_BASE_VERSION = 1,
	CM_MAD_CLASS = 0x07,
	CM_MAD_CLASS_VERSION = 2,
	CM_MAD_METHOD_SEND = 0x03,
};
/** The GSI's QP and its Q_Key: these MADs are sent from and to it. */
#define CM_GSI_QPN 1
#define CM_GSI_QKEY 0x80010000u
/** RoCE has no LIDs: paths contain the permissive LID. */
#define CM_LID_PERMISSIVE 0xffff

/** Attribute IDs. */
enum cm_attr {
	CM_ATTR_REQ = 0x10,
	CM_ATTR_MRA = 0x11,
	CM_ATTR_REJ = 0x12,
	CM_ATTR_REP = 0x13,
	CM_ATTR_RTU = 0x14,
	CM_ATTR_DREQ = 0x15,
	CM_ATTR_DREP = 0x16,
	CM_ATTR_SIDR_REQ = 0x17,
	CM_ATTR_SIDR_REP = 0x18,
	CM_ATTR_LAP = 0x19,
	CM_ATTR_APR = 0x1a,
};
#define CM_ATTR_FIRST CM_ATTR_REQ
#define CM_ATTR_COUNT (CM_ATTR_APR - CM_ATTR_FIRST + 1)

struct cm_mad_hdr {
	uint8_t base_version, mgmt_class, class_version, method;
	uint16_t status, class_specific;
	uint64_t tid;
	uint16_t attr_id;
	uint32_t attr_mod;
};

/* ---- Values of fields ---- */
/** REQ.transport; for the value 3 ext_transport says which. */
enum cm_transport {
	CM_TRANSPORT_RC = 0,
	CM_TRANSPORT_UC = 1,
	CM_TRANSPORT_RD = 2,
	CM_TRANSPORT_EXTENDED = 3, /**< XRC if ext_transport is CM_EXT_TRANSPORT_XRC */
};
/** REQ.ext_transport */
#define CM_EXT_TRANSPORT_XRC 1

/** MRA.msg_mraed and REJ.msg_rejected. */
enum cm_msg_of {
	CM_MSG_OF_REQ = 0,
	CM_MSG_OF_REP = 1,
	CM_MSG_OF_OTHER = 2, /**< REJ: none of the others; MRA: LAP */
};

/** REP.failover */
enum cm_failover {
	CM_FAILOVER_ACCEPTED = 0,
	CM_FAILOVER_NOT_SUPPORTED = 1,
	CM_FAILOVER_REJECTED = 2,
};

/** Reasons of a REJ (12.6.7.2, table 109): name, number, text. */
#define CM_REJ_REASONS(X) \
	X(CM_REJ_NO_QP, 1, "no QP") \
	X(CM_REJ_NO_EEC, 2, "no EE context") \
	X(CM_REJ_NO_RESOURCES, 3, "no resources") \
	X(CM_REJ_TIMEOUT, 4, "timeout") \
	X(CM_REJ_UNSUPPORTED, 5, "unsupported request") \
	X(CM_REJ_INVALID_COMM_ID, 6, "invalid communication ID") \
	X(CM_REJ_INVALID_COMM_INSTANCE, 7, "invalid communication instance") \
	X(CM_REJ_INVALID_SERVICE_ID, 8, "invalid service ID") \
	X(CM_REJ_INVALID_TRANSPORT_TYPE, 9, "invalid transport service type") \
	X(CM_REJ_STALE_CONN, 10, "stale connection") \
	X(CM_REJ_RDC_NOT_EXIST, 11, "RDC does not exist") \
	X(CM_REJ_INVALID_GID, 12, "primary remote port GID rejected") \
	X(CM_REJ_INVALID_LID, 13, "primary remote port LID rejected") \
	X(CM_REJ_INVALID_SL, 14, "invalid primary SL") \
	X(CM_REJ_INVALID_TRAFFIC_CLASS, 15, "invalid primary traffic class") \
	X(CM_REJ_INVALID_HOP_LIMIT, 16, "invalid primary hop limit") \
	X(CM_REJ_INVALID_PACKET_RATE, 17, "invalid primary packet rate") \
	X(CM_REJ_INVALID_ALT_GID, 18, "alternate remote port GID rejected") \
	X(CM_REJ_INVALID_ALT_LID, 19, "alternate remote port LID rejected") \
	X(CM_REJ_INVALID_ALT_SL, 20, "invalid alternate SL") \
	X(CM_REJ_INVALID_ALT_TRAFFIC_CLASS, 21, "invalid alternate traffic class") \
	X(CM_REJ_INVALID_ALT_HOP_LIMIT, 22, "invalid alternate hop limit") \
	X(CM_REJ_INVALID_ALT_PACKET_RATE, 23, "invalid alternate packet rate") \
	X(CM_REJ_PORT_CM_REDIRECT, 24, "port and CM redirection") \
	X(CM_REJ_PORT_REDIRECT, 25, "port redirection") \
	X(CM_REJ_INVALID_MTU, 26, "invalid path MTU") \
	X(CM_REJ_INSUFFICIENT_RESP_RESOURCES, 27, "insufficient responder resources") \
	X(CM_REJ_CONSUMER_DEFINED, 28, "consumer reject") \
	X(CM_REJ_INVALID_RNR_RETRY, 29, "RNR retry count rejected") \
	X(CM_REJ_DUPLICATE_LOCAL_COMM_ID, 30, "duplicate local communication ID") \
	X(CM_REJ_INVALID_CLASS_VERSION, 31, "invalid class version") \
	X(CM_REJ_INVALID_FLOW_LABEL, 32, "invalid primary flow label") \
	X(CM_REJ_INVALID_ALT_FLOW_LABEL, 33, "invalid alternate flow label") \
	X(CM_REJ_VENDOR_OPTION_NOT_SUPPORTED, 35, "vendor option not supported")
#define CM_REJ_REASON(name, number, words) name = number,
enum cm_rej_reason { CM_REJ_REASONS(CM_REJ_REASON) };
#undef CM_REJ_REASON
/** @return the text of a reason; "unknown reason" for an unknown number. */
const char *cm_rej_reason_name(uint16_t reason);

/** Status of an APR (12.8.2). */
enum cm_apr_status {
	CM_APR_SUCCESS = 0,
	CM_APR_INVALID_COMM_ID = 1,
	CM_APR_UNSUPPORTED = 2,
	CM_APR_REJECT = 3,
	CM_APR_REDIRECT = 4,
	CM_APR_IS_CURRENT = 5,
	CM_APR_INVALID_QPN = 6,
	CM_APR_INVALID_LID = 7,
	CM_APR_INVALID_GID = 8,
	CM_APR_INVALID_FLOW_LABEL = 9,
	CM_APR_INVALID_TRAFFIC_CLASS = 10,
	CM_APR_INVALID_HOP_LIMIT = 11,
	CM_APR_INVALID_PACKET_RATE = 12,
	CM_APR_INVALID_SL = 13,
};

/** Status of a SIDR_REP (12.11.2.2). */
enum cm_sidr_status {
	CM_SIDR_SUCCESS = 0,
	CM_SIDR_UNSUPPORTED = 1, /**< nobody listens on this service ID */
	CM_SIDR_REJECT = 2,
	CM_SIDR_NO_QP = 3,
	CM_SIDR_REDIRECT = 4,
	CM_SIDR_UNSUPPORTED_VERSION = 5,
};

/* ---- Messages. The numbers are widths in bits where a field is narrower than its member. ---- */
/** A path in a REQ or LAP. */
struct cm_path {
	struct gid local_gid, remote_gid; /**< as the sender of the message sees it */
	uint32_t flow_label;   /**< 20 */
	uint16_t local_lid, remote_lid;
	uint8_t packet_rate;   /**< 6 */
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;            /**< 4 */
	uint8_t subnet_local;  /**< 1 */
	uint8_t ack_timeout;   /**< 5 */
};

struct cm_req {
	uint32_t local_comm_id;
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn;                     /**< 24 */
	uint8_t responder_resources;
	uint32_t local_eecn;              /**< 24 */
	uint8_t initiator_depth;
	uint32_t remote_eecn;             /**< 24 */
	uint8_t remote_response_timeout;  /**< 5: how long the sender waits for the answer */
	uint8_t transport;                /**< 2, enum cm_transport */
	uint8_t flow_control;             /**< 1 */
	uint32_t starting_psn;            /**< 24 */
	uint8_t local_response_timeout;   /**< 5: how soon the sender will answer */
	uint8_t retry_count;              /**< 3 */
	uint16_t pkey;
	uint8_t path_mtu;                 /**< 4: 1 is 256 bytes, 5 is 4096 */
	uint8_t rdc_exists;               /**< 1 */
	uint8_t rnr_retry_count;          /**< 3 */
	uint8_t max_cm_retries;           /**< 4 */
	uint8_t srq;                      /**< 1 */
	uint8_t ext_transport;            /**< 3 */
	struct cm_path primary, alternate;
	uint8_t sap_supported;            /**< 1 */
	uint8_t private_data[CM_REQ_PRIVATE_BYTES];
};

struct cm_mra {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t msg_mraed;                /**< 2, enum cm_msg_of */
	uint8_t service_timeout;          /**< 5 */
	uint8_t private_data[CM_MRA_PRIVATE_BYTES];
};

struct cm_rej {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t msg_rejected;             /**< 2, enum cm_msg_of */
	uint8_t ari_bytes;                /**< 7 */
	uint16_t reason;                  /**< enum cm_rej_reason */
	uint8_t ari[CM_ARI_BYTES];
	uint8_t private_data[CM_REJ_PRIVATE_BYTES];
};

struct cm_rep {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t qkey;
	uint32_t qpn;                     /**< 24 */
	uint32_t local_eecn;              /**< 24; XRC: the QP's number */
	uint32_t starting_psn;            /**< 24 */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t target_ack_delay;         /**< 5 */
	uint8_t failover;                 /**< 2, enum cm_failover */
	uint8_t flow_control;             /**< 1 */
	uint8_t rnr_retry_count;          /**< 3 */
	uint8_t srq;                      /**< 1 */
	uint64_t ca_guid;
	uint8_t private_data[CM_REP_PRIVATE_BYTES];
};

struct cm_rtu {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[CM_RTU_PRIVATE_BYTES];
};

struct cm_dreq {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn;              /**< 24 */
	uint8_t private_data[CM_DREQ_PRIVATE_BYTES];
};

struct cm_drep {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[CM_DREP_PRIVATE_BYTES];
};

struct cm_lap {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn;              /**< 24 */
	uint8_t remote_response_timeout;  /**< 5 */
	struct cm_path alternate;
	uint8_t private_data[CM_LAP_PRIVATE_BYTES];
};

struct cm_apr {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t info_bytes;
	uint8_t status;                   /**< enum cm_apr_status */
	uint8_t info[CM_ARI_BYTES];
	uint8_t private_data[CM_APR_PRIVATE_BYTES];
};

struct cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[CM_SIDR_REQ_PRIVATE_BYTES];
};

struct cm_sidr_rep {
	uint32_t request_id;
	uint8_t status;                   /**< enum cm_sidr_status */
	uint8_t info_bytes;
	uint32_t qpn;                     /**< 24 */
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[CM_ARI_BYTES];
	uint8_t private_data[CM_SIDR_REP_PRIVATE_BYTES];
};

/** A decoded message; hdr.attr_id says which member of the union is valid. */
struct cm_msg {
	struct cm_mad_hdr hdr;
	union {
		struct cm_req req;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_rep rep;
		struct cm_rtu rtu;
		struct cm_dreq dreq;
		struct cm_drep drep;
		struct cm_lap lap;
		struct cm_apr apr;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
	};
};

/** Result of decoding a MAD. */
enum cm_mad_verdict {
	CM_MAD_OK = 0,
	CM_MAD_BAD_LENGTH,     /**< not 256 bytes */
	CM_MAD_BAD_VERSION,    /**< base version not 1, or class version not 2 */
	CM_MAD_OTHER_CLASS,    /**< for another agent of the GSI */
	CM_MAD_BAD_METHOD,     /**< the CM class has only Send */
	CM_MAD_BAD_ATTRIBUTE,  /**< no CM message has it */
	CM_MAD_BAD_FIELD,      /**< a length in the message exceeds the message */
};

/** Decode @p len bytes at @p mad. @param m  Filled in if the verdict is CM_MAD_OK. */
enum cm_mad_verdict cm_mad_decode(const uint8_t *mad, size_t len, struct cm_msg *m);

/**
 * Encode @p m. The caller has filled in the whole header, which cm_msg_init() does. Excess bits of a value that is too
 * large for its field are dropped.
 */
void cm_mad_encode(const struct cm_msg *m, uint8_t mad[CM_MAD_BYTES]);

/** Initialize @p m as an empty message of @p attr with transaction ID @p tid. */
void cm_msg_init(struct cm_msg *m, enum cm_attr attr, uint64_t tid);

/** @return "REQ", "MRA" ...; "unknown" for other attributes. */
const char *cm_attr_name(uint16_t attr_id);

/** @return the private data of @p m, with their size in *@p len_bytes. */
const uint8_t *cm_msg_private(const struct cm_msg *m, uint32_t *len_bytes);

/* ---- Service IDs of the RDMA CM's port spaces (annex A11; rdma_cma.h) ---- */
enum cm_port_space {
	CM_PS_IPOIB = 0x0002,
	CM_PS_TCP = 0x0106,
	CM_PS_UDP = 0x0111,
	CM_PS_IB = 0x013f,
};
static inline uint64_t
cm_service_id(enum cm_port_space ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}
/** @return the port space of @p service_id, 0 if it is in none. */
enum cm_port_space cm_service_port_space(uint64_t service_id);
static inline uint16_t
cm_service_port(uint64_t service_id)
{
	return (uint16_t)service_id;
}

/* ---- The RDMA CM's header at the beginning of the private data of REQ and SIDR_REQ ---- */
struct cm_ip_hdr {
	uint8_t ip_version;    /**< 4 or 6 */
	uint16_t port;         /**< the source's */
	struct gid src, dst;
};
/** @return false if @p data doesn't begin with a well-formed header: version 0, IP version 4 or 6. */
bool cm_ip_hdr_get(const uint8_t *data, size_t len_bytes, struct cm_ip_hdr *h);
/** Write the CM_IP_HDR_BYTES of a header. */
void cm_ip_hdr_put(const struct cm_ip_hdr *h, uint8_t data[CM_IP_HDR_BYTES]);

/* ---- Encoded times ---- */
/** @return the time of code @p t, 0 to 31: 4.096 us * 2^t. */
static inline uint64_t
cm_time_ns(unsigned int t)
{
	return UINT64_C(4096) << (t & 31);
}

#endif /* UROCE_CM_MAD_H */
