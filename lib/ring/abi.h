/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Constants and structs that clients, the daemon and the transport agree on.
 *
 * Everything here has the numeric value that rdma-core gives it, so the client library can pass it through unchanged
 * (lib/verbs asserts each value against infiniband/verbs.h). The daemon includes this file and never rdma-core's
 * headers.
 *
 * Owns: constants only. Used by: every folder above lib/ring. Thread: any.
 */
#ifndef UROCE_ABI_H
#define UROCE_ABI_H

#include <stdint.h>

#include "ring/wr_op.h"

/** Version of everything in lib/ring; client and daemon must have the same. */
#define UROCE_ABI_VERSION 8

/* All limits. */
enum {
	UROCE_MAX_PORTS = 16,           /**< verbs devices per daemon */
	UROCE_MAX_ENGINES = 64,         /**< engine lcores per daemon */
	UROCE_MAX_GIDS = 16,            /**< GID table length per port */
	UROCE_MAX_PKEYS = 4,            /**< P_Key table length per port */
	UROCE_MAX_SESSIONS = 1024,      /**< open device contexts per daemon */
	UROCE_MAX_QP = 65536,           /**< QPs per daemon */
	UROCE_MAX_QP_WR = 32768,        /**< WQEs per SQ, RQ or SRQ */
	UROCE_MAX_SGE = 32,             /**< SGEs per WQE */
	UROCE_MAX_INLINE = 1024,        /**< bytes of inline data per WQE */
	UROCE_MAX_CQ = 65536,           /**< CQs per daemon */
	UROCE_MAX_CQE = 1 << 22,        /**< CQEs per CQ */
	UROCE_MAX_MR = 1 << 18,         /**< MRs and MWs per daemon */
	UROCE_MAX_PD = 65536,           /**< PDs per daemon */
	UROCE_MAX_SRQ = 65536,          /**< SRQs per daemon */
	UROCE_MAX_AH = 65536,           /**< AHs per daemon */
	UROCE_MAX_MCAST_GROUPS = 1024,  /**< multicast groups per daemon */
	UROCE_MAX_MCAST_ATTACH = 256,   /**< QPs attached to one group */
	UROCE_MAX_RD_ATOMIC = 64,       /**< outstanding READs and atomics, per QP and direction */
	UROCE_MAX_CM_ID = 65536,        /**< ids of librdmacm, listeners and connections */
	UROCE_MAX_MR_SEGS = 65536,      /**< segments of one MR */
	UROCE_MAX_DM_BYTES = 1 << 20,   /**< device memory of one session, ibv_device_attr_ex.max_dm_size */
	UROCE_MAX_DM_LOG_ALIGN = 6,     /**< alignment of device memory, log2 */
};
#define UROCE_MAX_MSG_BYTES (UINT32_C(1) << 31) /**< longest message, RC and UC */

/** FLUSH: placement types and selectivity levels, enum ibv_placement_type and enum ibv_selectivity_level. */
enum {
	UROCE_FLUSH_GLOBAL = 1 << 0,     /**< the written data is globally visible */
	UROCE_FLUSH_PERSISTENT = 1 << 1, /**< the written data survives a loss of power */
	UROCE_FLUSH_TYPES = UROCE_FLUSH_GLOBAL | UROCE_FLUSH_PERSISTENT,

	UROCE_FLUSH_RANGE = 0,
	UROCE_FLUSH_MR = 1,
};

/** WR flags: enum ibv_send_flags. */
enum {
	UROCE_SEND_FENCE = 1 << 0,
	UROCE_SEND_SIGNALED = 1 << 1,
	UROCE_SEND_SOLICITED = 1 << 2,
	UROCE_SEND_INLINE = 1 << 3,
};

/** Completion opcodes: enum ibv_wc_opcode. */
enum uroce_wc_op {
	UROCE_WC_SEND = 0,
	UROCE_WC_RDMA_WRITE = 1,
	UROCE_WC_RDMA_READ = 2,
	UROCE_WC_COMP_SWAP = 3,
	UROCE_WC_FETCH_ADD = 4,
	UROCE_WC_BIND_MW = 5,
	UROCE_WC_LOCAL_INV = 6,
	UROCE_WC_FLUSH = 8,
	UROCE_WC_ATOMIC_WRITE = 9,
	UROCE_WC_RECV = 1 << 7,
	UROCE_WC_RECV_RDMA_WITH_IMM = (1 << 7) + 1,
};

/** Completion status: enum ibv_wc_status. */
enum uroce_wc_status {
	UROCE_WC_SUCCESS = 0,
	UROCE_WC_LOC_LEN_ERR = 1,
	UROCE_WC_LOC_QP_OP_ERR = 2,
	UROCE_WC_LOC_EEC_OP_ERR = 3,
	UROCE_WC_LOC_PROT_ERR = 4,
	UROCE_WC_WR_FLUSH_ERR = 5,
	UROCE_WC_MW_BIND_ERR = 6,
	UROCE_WC_BAD_RESP_ERR = 7,
	UROCE_WC_LOC_ACCESS_ERR = 8,
	UROCE_WC_REM_INV_REQ_ERR = 9,
	UROCE_WC_REM_ACCESS_ERR = 10,
	UROCE_WC_REM_OP_ERR = 11,
	UROCE_WC_RETRY_EXC_ERR = 12,
	UROCE_WC_RNR_RETRY_EXC_ERR = 13,
	UROCE_WC_LOC_RDD_VIOL_ERR = 14,
	UROCE_WC_REM_INV_RD_REQ_ERR = 15,
	UROCE_WC_REM_ABORT_ERR = 16,
	UROCE_WC_FATAL_ERR = 19,
	UROCE_WC_GENERAL_ERR = 21,
};

/** Completion flags: enum ibv_wc_flags. */
enum {
	UROCE_WC_GRH = 1 << 0,
	UROCE_WC_WITH_IMM = 1 << 1,
	UROCE_WC_WITH_INV = 1 << 3,
};

/** QP types: enum ibv_qp_type; GSI is used by the daemon only. */
enum uroce_qp_type {
	UROCE_QPT_GSI = 1,
	UROCE_QPT_RC = 2,
	UROCE_QPT_UC = 3,
	UROCE_QPT_UD = 4,
	UROCE_QPT_XRC_SEND = 9,
	UROCE_QPT_XRC_RECV = 10,
};

/** QP states: enum ibv_qp_state. */
enum uroce_qp_state {
	UROCE_QPS_RESET = 0,
	UROCE_QPS_INIT = 1,
	UROCE_QPS_RTR = 2,
	UROCE_QPS_RTS = 3,
	UROCE_QPS_SQD = 4,
	UROCE_QPS_SQE = 5,
	UROCE_QPS_ERR = 6,
	UROCE_QPS_STATES = 7,
};

/** QP attribute mask: enum ibv_qp_attr_mask. */
enum {
	UROCE_QP_STATE = 1 << 0,
	UROCE_QP_CUR_STATE = 1 << 1,
	UROCE_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	UROCE_QP_ACCESS_FLAGS = 1 << 3,
	UROCE_QP_PKEY_INDEX = 1 << 4,
	UROCE_QP_PORT = 1 << 5,
	UROCE_QP_QKEY = 1 << 6,
	UROCE_QP_AV = 1 << 7,
	UROCE_QP_PATH_MTU = 1 << 8,
	UROCE_QP_TIMEOUT = 1 << 9,
	UROCE_QP_RETRY_CNT = 1 << 10,
	UROCE_QP_RNR_RETRY = 1 << 11,
	UROCE_QP_RQ_PSN = 1 << 12,
	UROCE_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	UROCE_QP_ALT_PATH = 1 << 14,
	UROCE_QP_MIN_RNR_TIMER = 1 << 15,
	UROCE_QP_SQ_PSN = 1 << 16,
	UROCE_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	UROCE_QP_PATH_MIG_STATE = 1 << 18,
	UROCE_QP_CAP = 1 << 19,
	UROCE_QP_DEST_QPN = 1 << 20,
	UROCE_QP_RATE_LIMIT = 1 << 25,
};

/** Access flags: enum ibv_access_flags. */
enum {
	UROCE_ACCESS_LOCAL_WRITE = 1 << 0,
	UROCE_ACCESS_REMOTE_WRITE = 1 << 1,
	UROCE_ACCESS_REMOTE_READ = 1 << 2,
	UROCE_ACCESS_REMOTE_ATOMIC = 1 << 3,
	UROCE_ACCESS_MW_BIND = 1 << 4,
	UROCE_ACCESS_ZERO_BASED = 1 << 5,
	UROCE_ACCESS_ON_DEMAND = 1 << 6,
	UROCE_ACCESS_HUGETLB = 1 << 7,
	UROCE_ACCESS_FLUSH_GLOBAL = 1 << 8,
	UROCE_ACCESS_FLUSH_PERSISTENT = 1 << 9,
	UROCE_ACCESS_OPTIONAL_RANGE = 0x3ff00000,
	UROCE_ACCESS_RELAXED_ORDERING = 1 << 20,
};

/** Path MTU codes: enum ibv_mtu. Bytes = 128 << code. */
enum { UROCE_MTU_256 = 1, UROCE_MTU_512 = 2, UROCE_MTU_1024 = 3, UROCE_MTU_2048 = 4, UROCE_MTU_4096 = 5 };

/** Asynchronous events: enum ibv_event_type. */
enum uroce_event {
	UROCE_EVENT_CQ_ERR = 0,
	UROCE_EVENT_QP_FATAL = 1,
	UROCE_EVENT_QP_REQ_ERR = 2,
	UROCE_EVENT_QP_ACCESS_ERR = 3,
	UROCE_EVENT_COMM_EST = 4,
	UROCE_EVENT_SQ_DRAINED = 5,
	UROCE_EVENT_PATH_MIG = 6,
	UROCE_EVENT_PATH_MIG_ERR = 7,
	UROCE_EVENT_DEVICE_FATAL = 8,
	UROCE_EVENT_PORT_ACTIVE = 9,
	UROCE_EVENT_PORT_ERR = 10,
	UROCE_EVENT_LID_CHANGE = 11,
	UROCE_EVENT_PKEY_CHANGE = 12,
	UROCE_EVENT_SM_CHANGE = 13,
	UROCE_EVENT_SRQ_ERR = 14,
	UROCE_EVENT_SRQ_LIMIT_REACHED = 15,
	UROCE_EVENT_QP_LAST_WQE_REACHED = 16,
	UROCE_EVENT_CLIENT_REREGISTER = 17,
	UROCE_EVENT_GID_CHANGE = 18,
};

/** Attributes of an address handle: struct ibv_ah_attr without what RoCE doesn't use. */
struct uroce_ah_attr {
	uint8_t dgid[16];       /**< IPv4-mapped or IPv6 address, network byte order */
	uint32_t flow_label;    /**< 20 bits; also determines the UDP source port */
	uint8_t sgid_index;
	uint8_t hop_limit;      /**< IP TTL; 0 is sent as 64 */
	uint8_t traffic_class;  /**< IP TOS / traffic class */
	uint8_t sl;             /**< VLAN priority, 0 to 7 */
	uint8_t src_path_bits;  /**< returned as given, not used by RoCE */
	uint8_t static_rate;    /**< enum ibv_rate */
	uint8_t is_global;      /**< must be 1 */
	uint8_t port_num;       /**< 1 */
};

/** Capacities of a QP: struct ibv_qp_cap. */
struct uroce_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data; /**< bytes */
};

/** A QP's attributes: struct ibv_qp_attr. */
struct uroce_qp_attr {
	uint32_t qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	struct uroce_qp_cap cap;
	struct uroce_ah_attr ah, alt_ah;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt;
	uint8_t rnr_retry, alt_port_num, alt_timeout, reserved;
	uint32_t rate_limit; /**< kbit/s; 0: no limit */
};

#endif /* UROCE_ABI_H */
