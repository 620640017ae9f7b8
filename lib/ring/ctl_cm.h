/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Connection management between librdmacm and uroced: part of the control protocol (ctl.h).
 *
 * A connection manager's session is a session like any other: CTL_HELLO first; CTL_CM_OPEN makes it one (instead of
 * CTL_DEVICE_OPEN, which it may also do later or never). One per event channel. The daemon holds the state of every
 * id: addresses, port spaces, the IB CM's state machine. The client moves its QPs itself, with the attributes that
 * CTL_CM_QP_ATTR hands out, as rdma-core's library does with the kernel's.
 *
 * Requests are answered at once; what takes time (resolving, connecting) ends in an event. Events are records
 * (struct ctl_cm_event) in a pipe whose write end the client hands over at CTL_CM_OPEN, O_NONBLOCK; its read end is what
 * programs poll. A record that the pipe has no room for waits in the daemon, nothing is lost. Of a session that leaves
 * CTL_CM_MAX_QUEUED records unread, requests that would bring another are refused (EAGAIN), and so is who asks its listeners
 * for a connection; what was begun before may bring a few more for each id.
 *
 * When the session ends, the daemon ends its ids in an orderly way: listeners vanish, connected peers get a DREQ at
 * once, peers that wait for an answer a REJ.
 *
 * Addresses are struct ctl_cm_addr. Ports are in host byte order.
 */
#ifndef UROCE_CTL_CM_H
#define UROCE_CTL_CM_H

#include "ring/abi.h"

enum {
	CTL_CM_PRIVATE_BYTES = 256, /**< most private data of an event */
	CTL_CM_REQ_PRIVATE_BYTES = 196, /**< most private data of a request; each message has its own, lower, limit */
	CTL_CM_MAX_QUEUED = 16384, /**< events of one session that nobody has read */
	CTL_CM_MAX_IDS = 65536,    /**< of one session */
};

/** Port spaces: enum rdma_port_space. */
enum { CTL_CM_PS_IPOIB = 0x0002, CTL_CM_PS_TCP = 0x0106, CTL_CM_PS_UDP = 0x0111, CTL_CM_PS_IB = 0x013f };

/** Events: enum rdma_cm_event_type. */
enum ctl_cm_event_type {
	CTL_CM_EV_ADDR_RESOLVED = 0,
	CTL_CM_EV_ADDR_ERROR,
	CTL_CM_EV_ROUTE_RESOLVED,
	CTL_CM_EV_ROUTE_ERROR,
	CTL_CM_EV_CONNECT_REQUEST,
	CTL_CM_EV_CONNECT_RESPONSE,
	CTL_CM_EV_CONNECT_ERROR,
	CTL_CM_EV_UNREACHABLE,
	CTL_CM_EV_REJECTED,
	CTL_CM_EV_ESTABLISHED,
	CTL_CM_EV_DISCONNECTED,
	CTL_CM_EV_DEVICE_REMOVAL,
	CTL_CM_EV_MULTICAST_JOIN,
	CTL_CM_EV_MULTICAST_ERROR,
	CTL_CM_EV_ADDR_CHANGE,
	CTL_CM_EV_TIMEWAIT_EXIT,
	CTL_CM_EVENTS,
};

struct ctl_cm_addr {
	uint8_t gid[16];   /**< the IPv6 address, IPv4 mapped into it; zeros: any of the family */
	uint16_t family;   /**< 4, 6, or 0: none */
	uint16_t port;
	uint32_t reserved;
};

/** CTL_CM_OPEN: fd 0 is the write end of the pipe for struct ctl_cm_event. */
struct ctl_cm_open_rsp {
	uint64_t token; /**< a secret: who knows it may move ids out of this session (CTL_CM_MIGRATE) */
};

/** CTL_CM_CREATE_ID. Reply: struct ctl_handle, the id. */
struct ctl_cm_create_req {
	uint32_t ps;       /**< CTL_CM_PS_* */
	uint32_t qp_type;  /**< enum uroce_qp_type */
};
/**
 * CTL_CM_DESTROY_ID. Of a listener: who asked and is still in the pipe, unread, is refused at once. The id's events may still be
 * in the pipe; none is written after the reply. A handle
 * isn't given again to another id for a long time, so the library can tell.
 */

struct ctl_cm_destroy_req {
	uint32_t id;
	uint32_t taken;    /**< of a listener: how many CONNECT_REQUESTs of its the client has read */
};

/**
 * CTL_CM_BIND: rdma_bind_addr(). Port 0: the daemon chooses one. EADDRINUSE, EADDRNOTAVAIL (no port of ours has it).
 * Reply: struct ctl_cm_id_info.
 */
struct ctl_cm_bind_req {
	uint32_t id;
	uint32_t reserved;
	struct ctl_cm_addr addr;
};
/** What an id is bound to now. */
struct ctl_cm_id_info {
	struct ctl_cm_addr local, remote;
	uint32_t device;       /**< index of the device, UINT32_MAX: none yet (wildcard) */
	uint32_t pkey;
	uint8_t sgid[16], dgid[16];
	uint8_t sgid_index, hop_limit, traffic_class, path_mtu; /**< path_mtu: UROCE_MTU_* */
	uint8_t packet_life, reserved[3];
};

/**
 * CTL_CM_RESOLVE_ADDR: ends in ADDR_RESOLVED or ADDR_ERROR (status: -ETIMEDOUT, -EHOSTUNREACH, -ENOBUFS). @c src family
 * 0: choose.
 */
struct ctl_cm_resolve_addr_req {
	uint32_t id;
	uint32_t timeout_ms;
	struct ctl_cm_addr src, dst;
};
/** CTL_CM_RESOLVE_ROUTE: ends in ROUTE_RESOLVED or ROUTE_ERROR. */
struct ctl_cm_resolve_route_req {
	uint32_t id;
	uint32_t timeout_ms;
};
/** CTL_CM_QUERY (request: struct ctl_handle; reply: struct ctl_cm_id_info). */

/** CTL_CM_LISTEN. Reply: struct ctl_cm_id_info (the port that was chosen). */
struct ctl_cm_listen_req {
	uint32_t id;
	uint32_t backlog;
};

/** Of CONNECT and ACCEPT, and of the events CONNECT_REQUEST, CONNECT_RESPONSE and ESTABLISHED. */
struct ctl_cm_conn_param {
	uint32_t qp_num;
	uint32_t qkey;         /**< UD */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t qp_type;       /**< enum uroce_qp_type */
	uint8_t private_len;   /**< bytes of private data; an event's may be padded to its message's size */
};
/** CTL_CM_CONNECT; for UD a SIDR_REQ. Ends in CONNECT_RESPONSE, ESTABLISHED (UD), REJECTED, UNREACHABLE or CONNECT_ERROR. */
struct ctl_cm_connect_req {
	uint32_t id;
	uint32_t reserved;
	struct ctl_cm_conn_param param;
	uint8_t private_data[CTL_CM_REQ_PRIVATE_BYTES];
};
/**
 * CTL_CM_ACCEPT: of the passive side, QP in RTR (ends in ESTABLISHED); of the active side after CONNECT_RESPONSE, QP in RTS
 * (the RTU). For UD answers the SIDR_REQ, and no event follows. Same struct.
 */
/** CTL_CM_REJECT. */
struct ctl_cm_reject_req {
	uint32_t id;
	uint16_t reason;       /**< of the MAD; 28 (consumer defined) as rdma_reject() has it; 0: that */
	uint8_t private_len, reserved;
	uint8_t private_data[148];
};
/**
 * CTL_CM_ESTABLISH (request: struct ctl_handle): a message came before the RTU (rdma_notify() with COMM_EST). EISCONN is
 * success.
 */
/** CTL_CM_DISCONNECT (request: struct ctl_handle): DREQ, or the DREP that the peer's waits for. */

/**
 * CTL_CM_QP_ATTR: attributes and mask with which the id's QP goes to @c state (INIT, RTR or RTS). Reply: struct ctl_cm_qp_attr_rsp.
 * With those for RTR come those for RTS, which needs others, and what the peer may do (qp_access_flags), which INIT was given before
 * that was known: the library moves a QP on with one question.
 */
struct ctl_cm_qp_attr_req {
	uint32_t id;
	uint32_t state;
};
struct ctl_cm_qp_attr_rsp {
	uint32_t mask;
	uint32_t rts_mask;     /**< RTR: mask for RTS */
	struct uroce_qp_attr attr;
};

/** CTL_CM_SET_OPTION. */
enum { CTL_CM_OPT_TOS = 0, CTL_CM_OPT_REUSEADDR = 1, CTL_CM_OPT_AFONLY = 2, CTL_CM_OPT_ACK_TIMEOUT = 3 };
struct ctl_cm_option_req {
	uint32_t id, option, value, reserved;
};

/** CTL_CM_JOIN: ends in MULTICAST_JOIN or MULTICAST_ERROR. Reply: struct ctl_handle of the group. */
struct ctl_cm_join_req {
	uint32_t id;
	uint32_t join_flags;   /**< RDMA_MC_JOIN_FLAG_*: 1 full member, 2 send only full member */
	struct ctl_cm_addr addr;
};
/** CTL_CM_LEAVE (request: struct ctl_handle of the group). */

/**
 * CTL_CM_MIGRATE: the id moves from the session that @c token was given to into this one (rdma_migrate_id()). Its events that
 * nobody has read come in the new pipe, under the new handles; those that are in the old one already stay there as well, under
 * handles that mean nothing any more. With a listener come the ids of such CONNECT_REQUESTs. Whoever reads the old pipe
 * meanwhile may get an event in neither or in both. Reply: struct ctl_handle, its handle in this session.
 */
struct ctl_cm_migrate_req {
	uint64_t token;
	uint32_t id, reserved;
};

/** Record in the pipe: at most PIPE_BUF bytes, so never torn. */
struct ctl_cm_event {
	uint32_t id;           /**< handle; CONNECT_REQUEST: of the new id */
	uint32_t listener;     /**< CONNECT_REQUEST: handle of who listens */
	uint32_t group;        /**< MULTICAST_*: handle */
	uint32_t type;         /**< enum ctl_cm_event_type */
	int32_t status;        /**< 0, a negative errno value, or the reason of a REJ or status of a SIDR_REP */
	uint32_t reserved;
	struct ctl_cm_conn_param conn;
	struct uroce_ah_attr ah; /**< UD: the path to the peer or the group */
	struct ctl_cm_id_info info; /**< CONNECT_REQUEST: of the new id; ADDR_RESOLVED, ROUTE_RESOLVED: of the id now */
	uint8_t private_data[CTL_CM_PRIVATE_BYTES];
};


#endif /* UROCE_CTL_CM_H */
