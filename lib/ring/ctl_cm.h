/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Connection management between librdmacm and uroced: part of the control protocol (ctl.h).
 *
 * A connection manager's session is a session like any other and begins with CTL_HELLO. CTL_CM_OPEN makes it an event
 * channel; it may also open a device (CTL_DEVICE_OPEN), but needn't. The daemon holds the state of every id: addresses,
 * port spaces, the IB CM's state machine. The client modifies its QPs itself, with the attributes that it gets from
 * CTL_CM_QP_ATTR, as rdma-core's library does with the kernel's, or has the daemon do it (CTL_CM_ACCEPT_QP).
 *
 * Requests are answered at once; what takes time (resolving, connecting) ends with an event. Events are records (struct
 * ctl_cm_event) sent on a socket (ctl.h) whose receiving end comes with the reply to CTL_CM_OPEN.
 * A record for which the socket has no room waits in the daemon; none is lost. If a session leaves CTL_CM_MAX_QUEUED
 * records unread, requests that would cause another event are refused (EAGAIN), and so are connection requests of peers
 * to its listeners; operations started before may add a few more for each id.
 *
 * When the session ends, the daemon ends its ids in an orderly way: listeners are removed, connected peers get a DREQ
 * at once, peers that wait for an answer a REJ.
 *
 * Addresses are struct ctl_cm_addr. Ports are in host byte order.
 */
#ifndef UROCE_CTL_CM_H
#define UROCE_CTL_CM_H

#include "ring/abi.h"

enum {
	CTL_CM_PRIVATE_BYTES = 256, /**< largest private data of an event */
	CTL_CM_REQ_PRIVATE_BYTES = 196, /**< largest private data of a request; each message has its own, lower limit */
	CTL_CM_MAX_QUEUED = 16384, /**< unread events of one session */
	CTL_CM_MAX_IDS = 65536,    /**< ids of one session */
	CTL_CM_UDP_QKEY = 0x01234567, /**< of UD QPs that rdma_cm set up: RDMA_UDP_QKEY */
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
	uint8_t gid[16];   /**< an IPv6 address, or a mapped IPv4 address; zeros: the wildcard */
	uint16_t family;   /**< 4, 6, or 0: none */
	uint16_t port;
	uint32_t reserved;
};

/** CTL_CM_OPEN: reply fd 0 is the socket that receives struct ctl_cm_event records. */
struct ctl_cm_open_rsp {
	uint64_t token; /**< a secret: with it a session may move ids out of this one (CTL_CM_MIGRATE) */
};

/** CTL_CM_CREATE_ID. Reply: struct ctl_handle, the id. */
struct ctl_cm_create_req {
	uint32_t ps;       /**< CTL_CM_PS_* */
	uint32_t qp_type;  /**< enum uroce_qp_type */
};
/**
 * CTL_CM_DESTROY_ID. If it is a listener, connection requests to it whose events the client has not read are refused at
 * once. The id's events may still be in the socket; none is sent after the reply. A handle isn't reused for another id
 * for a long time, so the library can recognise such events.
 */

struct ctl_cm_destroy_req {
	uint32_t id;
	uint32_t taken;    /**< for a listener: how many of its CONNECT_REQUESTs the client has read */
};

/**
 * CTL_CM_BIND: rdma_bind_addr(). Port 0: the daemon chooses one. EADDRINUSE, EADDRNOTAVAIL (taken, and one of both addresses is a wildcard),
 * ENODEV (no port of ours has it).
 * Reply: struct ctl_cm_id_info.
 */
struct ctl_cm_bind_req {
	uint32_t id;
	uint32_t reserved;
	struct ctl_cm_addr addr;
};
/** What an id is bound to. */
struct ctl_cm_id_info {
	struct ctl_cm_addr local, remote;
	uint32_t device;       /**< index of the device; UINT32_MAX: none yet (wildcard) */
	uint32_t pkey;
	uint8_t sgid[16], dgid[16];
	uint8_t sgid_index, hop_limit, traffic_class, path_mtu; /**< path_mtu: UROCE_MTU_* */
	uint8_t packet_life, reserved[3];
};

/**
 * CTL_CM_RESOLVE_ADDR: ends with ADDR_RESOLVED or ADDR_ERROR (status: -ETIMEDOUT, -EHOSTUNREACH, -ENOBUFS). @c src with
 * family 0: the daemon chooses it.
 */
struct ctl_cm_resolve_addr_req {
	uint32_t id;
	uint32_t timeout_ms;
	struct ctl_cm_addr src, dst;
};
/** CTL_CM_RESOLVE_ROUTE: ends with ROUTE_RESOLVED or ROUTE_ERROR. */
struct ctl_cm_resolve_route_req {
	uint32_t id;
	uint32_t timeout_ms;
};
/** CTL_CM_QUERY (request: struct ctl_handle; reply: struct ctl_cm_id_info). */

/** CTL_CM_LISTEN. Reply: struct ctl_cm_id_info (with the chosen port). */
struct ctl_cm_listen_req {
	uint32_t id;
	uint32_t backlog;
};

/** Parameters of CONNECT and ACCEPT, and of the events CONNECT_REQUEST, CONNECT_RESPONSE and ESTABLISHED. */
struct ctl_cm_conn_param {
	uint32_t qp_num;
	uint32_t qkey;         /**< UD */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t qp_type;       /**< enum uroce_qp_type */
	uint8_t private_len;   /**< size of the private data; in an event it may be padded to the message's size */
};
/**
 * CTL_CM_CONNECT; for UD a SIDR_REQ. Ends with CONNECT_RESPONSE, ESTABLISHED (UD), REJECTED, UNREACHABLE or
 * CONNECT_ERROR.
 */
struct ctl_cm_connect_req {
	uint32_t id;
	uint32_t qp; /**< CTL_CM_ACCEPT_QP: the QP's handle in its session */
	struct ctl_cm_conn_param param;
	uint8_t private_data[CTL_CM_REQ_PRIVATE_BYTES];
};
/**
 * CTL_CM_ACCEPT, with the same struct. Passive side: the QP is in RTR; ends with ESTABLISHED. Active side, after
 * CONNECT_RESPONSE: the QP is in RTS, an RTU is sent. UD: answers the SIDR_REQ, no event follows.
 */
/**
 * CTL_CM_ACCEPT_QP, with the same struct: as CTL_CM_ACCEPT, but first the daemon itself moves the QP @c qp from INIT to RTS, with the attributes of
 * CTL_CM_QP_ATTR; depths that aren't UINT8_MAX replace those. The QP is that of another session of the same process. EAGAIN: nothing was done, because
 * it isn't, because a request of that session is under way, or because the MAC address of the peer isn't known: use CTL_CM_QP_ATTR and CTL_QP_MODIFY.
 */
/** CTL_CM_REJECT. */
struct ctl_cm_reject_req {
	uint32_t id;
	uint16_t reason;       /**< reason in the MAD; 0: 28 (consumer defined), as in rdma_reject() */
	uint8_t private_len, reserved;
	uint8_t private_data[148];
};
/**
 * CTL_CM_ESTABLISH (request: struct ctl_handle): a message arrived before the RTU (rdma_notify() with COMM_EST).
 * EISCONN means success.
 */
/** CTL_CM_DISCONNECT (request: struct ctl_handle): send a DREQ, or answer the peer's with a DREP. */
/** CTL_CM_DISCONNECT_QP: the same after the QP has been moved to ERR. EAGAIN: as CTL_CM_ACCEPT_QP. */
struct ctl_cm_disconnect_req {
	uint32_t id;
	uint32_t qp; /**< handle in its session */
	uint32_t qp_num;
	uint32_t reserved;
};

/**
 * CTL_CM_QP_ATTR: attributes and mask with which to move the id's QP to @c state (INIT, RTR or RTS). Reply: struct
 * ctl_cm_qp_attr_rsp. For RTR the reply also has the attributes and mask for RTS, and the access that the peer gets
 * (qp_access_flags), which wasn't known yet for INIT. So the library moves a QP to RTS with one request.
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

/** CTL_CM_JOIN: ends with MULTICAST_JOIN or MULTICAST_ERROR. Reply: struct ctl_handle of the group. */
struct ctl_cm_join_req {
	uint32_t id;
	uint32_t join_flags;   /**< RDMA_MC_JOIN_FLAG_*: 1 full member, 2 send only full member */
	struct ctl_cm_addr addr;
};
/** CTL_CM_LEAVE (request: struct ctl_handle of the group). */

/**
 * CTL_CM_MIGRATE: move the id from the session with @c token into this one (rdma_migrate_id()). Its unread events are
 * sent on the new socket, with the new handles; those that are in the old one already also remain there, with handles
 * that are no longer valid; librdmacm takes them out. With a listener, the ids of its unread CONNECT_REQUESTs move too. A thread that reads the
 * old socket meanwhile may get an event in neither, or in both. Reply: struct ctl_handle, the id's handle in this
 * session.
 */
struct ctl_cm_migrate_req {
	uint64_t token;
	uint32_t id, reserved;
};

/** Record of rdma_cm's events. */
struct ctl_cm_event {
	uint32_t id;           /**< handle; CONNECT_REQUEST: of the new id */
	uint32_t listener;     /**< CONNECT_REQUEST: handle of the listener */
	uint32_t group;        /**< MULTICAST_*: handle */
	uint32_t type;         /**< enum ctl_cm_event_type */
	int32_t status;        /**< 0, a negative errno value, or the reason of a REJ or status of a SIDR_REP */
	uint32_t number;       /**< of the event in its socket, from 1; a daemon that follows one that crashed may send an event again. 0: it has none */
	struct ctl_cm_conn_param conn;
	struct uroce_ah_attr ah; /**< UD: the path to the peer or the group */
	struct ctl_cm_id_info info; /**< CONNECT_REQUEST: of the new id; ADDR_RESOLVED, ROUTE_RESOLVED: of the id */
	uint8_t private_data[CTL_CM_PRIVATE_BYTES];
};


#endif /* UROCE_CTL_CM_H */
