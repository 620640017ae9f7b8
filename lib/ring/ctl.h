/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The control protocol between the client libraries and uroced.
 *
 * A SOCK_SEQPACKET unix socket; one connection is one session (one open device context). The client sends a request
 * (struct ctl_req with the member for its op filled in) and waits for its reply (struct ctl_rsp); file descriptors
 * accompany either as SCM_RIGHTS. Requests are answered in order. A daemon that goes on after a crash of the one before
 * may answer a request a second time: replies have the numbers of their requests, and a client that numbers its requests
 * drops those with another number than the last. Completion events, asynchronous events and those of rdma_cm are not sent on this socket: each is a record, sent as one message of a connected pair of SOCK_SEQPACKET
 * sockets that the daemon makes. The client gets the end that receives and gives it to the program, which may poll it,
 * read it and set its flags. The daemon sends with MSG_DONTWAIT, and what a reader does never makes it wait.
 *
 * The first request is CTL_HELLO. If its version isn't the daemon's, the reply has status EPROTO and the daemon's
 * version (struct ctl_hello_rsp; every other error has a message instead), so that the client can say what to do; then
 * the daemon closes the connection. A daemon with too many sessions sends a reply with EMFILE without waiting for a
 * request, and closes.
 *
 * A malformed request (wrong size, unknown op, unterminated string, handle that isn't the session's) gets EINVAL and
 * changes nothing. When the connection closes, everything that the session had is destroyed.
 *
 * Used by: lib/verbs and lib/control. libc only. All integers in host byte order.
 */
#ifndef UROCE_CTL_H
#define UROCE_CTL_H

#include "ring/ctl_cm.h"
#include "ring/ring.h"

#define CTL_DEFAULT_SOCKET "/run/uroce/uroced.sock"
#define CTL_MAGIC UINT32_C(0x6f727543) /* "Curo" */

enum {
	CTL_MAX_FDS = 8,
	CTL_MAX_KICKS = 4,           /**< kick eventfds of a session */
	CTL_SEGS_PER_MSG = 1024, /**< MR segments in one request */
	CTL_NAME_BYTES = 64,
};

/** Requests. The structs below describe each request and its reply. */
enum ctl_op {
	CTL_HELLO = 1,
	CTL_MEMORY,
	CTL_DEVICE_GET,
	CTL_DEVICE_OPEN,
	CTL_DEVICE_QUERY,
	CTL_PORT_QUERY,
	CTL_GID_TABLE,
	CTL_PD_ALLOC,
	CTL_PD_FREE,
	CTL_MR_REG,
	CTL_MR_SEGS,
	CTL_MR_DEREG,
	CTL_CQ_CREATE,
	CTL_CQ_RESIZE,
	CTL_CQ_MODIFY,
	CTL_CQ_DESTROY,
	CTL_SRQ_CREATE,
	CTL_SRQ_MODIFY,
	CTL_SRQ_QUERY,
	CTL_SRQ_DESTROY,
	CTL_QP_CREATE,
	CTL_QP_MODIFY,
	CTL_QP_QUERY,
	CTL_QP_DESTROY,
	CTL_AH_CREATE,
	CTL_AH_DESTROY,
	CTL_MCAST_ATTACH,
	CTL_MCAST_DETACH,
	CTL_MW_ALLOC,
	CTL_MW_FREE,
	CTL_XRCD_OPEN,
	CTL_XRCD_CLOSE,
	CTL_QP_OPEN,
	CTL_CHANNEL_CREATE,
	CTL_CHANNEL_DESTROY,
	CTL_MR_NULL,
	CTL_DM_ALLOC,
	CTL_DM_FREE,
	CTL_DM_REG,
	CTL_CM_OPEN, /* from here on: ctl_cm.h */
	CTL_CM_CREATE_ID,
	CTL_CM_DESTROY_ID,
	CTL_CM_BIND,
	CTL_CM_RESOLVE_ADDR,
	CTL_CM_RESOLVE_ROUTE,
	CTL_CM_QUERY,
	CTL_CM_LISTEN,
	CTL_CM_CONNECT,
	CTL_CM_ACCEPT,
	CTL_CM_REJECT,
	CTL_CM_ESTABLISH,
	CTL_CM_DISCONNECT,
	CTL_CM_QP_ATTR,
	CTL_CM_SET_OPTION,
	CTL_CM_JOIN,
	CTL_CM_LEAVE,
	CTL_CM_MIGRATE,
	CTL_HAND_OVER,
	CTL_DEVICE_IMPORT, /* at the end, so that running programs and older daemons keep their numbers */
	CTL_PD_IMPORT,
	CTL_MR_IMPORT,
	CTL_CM_ACCEPT_QP,
	CTL_CM_DISCONNECT_QP,
	CTL_OPS,
};

/** Location of a ring or shared block: in a memory segment of the session, which is mapped once. */
struct ctl_area {
	uint32_t segment; /**< number of the segment, from 0; a new segment's fd comes with the same reply */
	uint32_t reserved;
	uint64_t offset; /**< bytes into the segment */
	uint64_t length; /**< bytes */
};

/** A new shared-memory segment, whose fd comes with the reply. segment_bytes 0: there is none. */
struct ctl_new_segment {
	uint64_t segment_bytes;
	uint32_t segment;
	uint32_t reserved;
};

/**
 * CTL_HELLO. Until its reply, the kernel refuses messages with descriptors (EPERM, Linux 6.16 and later).
 */
struct ctl_hello_req {
	uint32_t abi_version;
	uint32_t pid; /**< for messages only */
	char program[CTL_NAME_BYTES];
};
struct ctl_hello_rsp {
	uint32_t abi_version;
	uint32_t nb_devices;
	char version[CTL_NAME_BYTES]; /**< the daemon's version, for messages */
};

/**
 * CTL_MEMORY: fd 0 is the client's own /proc/self/mem, opened O_RDWR. The daemon uses it to read and write memory that
 * can't be mapped; without it CTL_SEG_REMOTE gets EOPNOTSUPP. Fd 1 is the client's /proc, opened O_PATH: from there the
 * daemon finds out that fd 0 is what it should be, also if the client has a procfs of its own.
 */
struct ctl_memory_req {
	uint32_t pid; /**< the client's number in its /proc */
};

/** CTL_DEVICE_GET: name and identity of device @c index, 0 to nb_devices - 1. */
struct ctl_device_get_req {
	uint32_t index;
};
struct ctl_device_get_rsp {
	char name[CTL_NAME_BYTES];   /**< uroce0 ... */
	char netdev[CTL_NAME_BYTES]; /**< kernel interface that the port shares, or "" */
	uint64_t node_guid;          /**< network byte order */
};

/**
 * CTL_DEVICE_OPEN: bind the session to a device. Reply fds: nb_kicks kick eventfds; memfd of the doorbells (one struct
 * ring_db per engine); sealed memfd for converted memory; socket for struct ctl_async_event records, which reports end of
 * file when the daemon ends; /dev/userfaultfd, if have_uffd.
 */
struct ctl_device_open_req {
	uint32_t index;
};
struct ctl_device_open_rsp {
	uint32_t nb_engines;
	uint32_t have_uffd;
	uint32_t num_comp_vectors;
	uint32_t privileged; /**< 1: the daemon can map any shared memory of the client (CTL_SEG_SHARED) */
	uint64_t mem_bytes;  /**< size of the memfd for converted memory */
	uint64_t db_stride;  /**< distance in bytes between two engines' struct ring_db */
	/**
	 * Kick eventfds, the first of the descriptors: 1 to CTL_MAX_KICKS. With more than one, a client writes to that of the CPU it is
	 * on, or to the first.
	 */
	uint32_t nb_kicks;
	int32_t kick_cpus[CTL_MAX_KICKS];
};

/** CTL_DEVICE_QUERY: the parts of struct ibv_device_attr(_ex) that aren't constant. */
struct ctl_device_query_rsp {
	char fw_ver[CTL_NAME_BYTES];
	uint64_t node_guid, sys_image_guid; /**< network byte order */
	uint64_t max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	uint32_t max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	uint32_t max_qp_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, atomic_cap;
	uint32_t max_mw, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah;
	uint32_t max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt;
	uint32_t max_inline;
	uint64_t device_cap_flags_ex;
	uint64_t hca_core_clock_khz; /**< clock of completion time stamps; 0: there are none */
};

/** CTL_PORT_QUERY: struct ibv_port_attr. */
struct ctl_port_query_rsp {
	uint32_t state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz;
	uint32_t bad_pkey_cntr, qkey_viol_cntr;
	uint32_t pkey_tbl_len, active_speed, active_width, phys_state, link_layer, port_cap_flags2;
	uint16_t pkeys[UROCE_MAX_PKEYS];
	uint8_t mac[6];
	uint8_t reserved[2];
};

/** CTL_GID_TABLE: all GIDs, of type RoCE v2; an entry of zeros is unused. */
struct ctl_gid_table_rsp {
	uint8_t gid[UROCE_MAX_GIDS][16];
	uint32_t ndev_ifindex; /**< of the shared kernel interface, or 0 */
};

/** CTL_PD_ALLOC (reply: handle), CTL_PD_FREE (request: handle). */
struct ctl_handle {
	uint32_t handle;
};

/** How the daemon accesses a piece of the client's memory. */
enum ctl_seg_kind {
	CTL_SEG_CONVERTED = 1, /**< it is at @c offset in the session's memfd */
	CTL_SEG_SHARED = 2,    /**< it is shared memory already: the daemon maps /proc/PID/map_files */
	CTL_SEG_REMOTE = 3,    /**< through /proc/PID/mem */
	CTL_SEG_OWN = 4,       /**< at @c va: program and daemon are one process (lib/uroce); refused for other sessions */
};
struct ctl_seg {
	uint64_t va;
	uint64_t length;
	uint64_t offset;    /**< CONVERTED: into the memfd; SHARED: into the mapping [map_start, map_end) */
	uint64_t map_start; /**< SHARED: start of the mapping as in /proc/self/maps, and its end */
	uint64_t map_end;
	uint32_t kind; /**< enum ctl_seg_kind */
	uint32_t reserved;
};

/**
 * CTL_MR_REG: the segments cover [addr, addr + length) in ascending order without gaps. If nb_segs is larger than
 * CTL_SEGS_PER_MSG, the other segments were sent before by CTL_MR_SEGS requests, which the daemon collects until the
 * next CTL_MR_REG, whether that succeeds or not. The offset of a converted segment is congruent to va modulo the page
 * size. Errors for shared segments: EOPNOTSUPP, it can't be mapped, send it as CTL_SEG_REMOTE; EFAULT, the MR's access
 * includes writing, but the program may not write there. Reply: the keys and a handle.
 * With UROCE_ACCESS_ON_DEMAND there is one segment, CTL_SEG_REMOTE: nothing has to be there before it is used, or is charged as registered.
 */
struct ctl_mr_reg_req {
	uint32_t pd;
	uint32_t access;
	uint64_t addr;
	uint64_t length;
	uint64_t iova;
	uint32_t nb_segs;   /**< in total */
	uint32_t nb_in_msg; /**< in this message, which has the last ones */
	uint32_t replace;   /**< 1: the new MR replaces MR @c old and takes over its keys. EBUSY: MWs are bound to that */
	uint32_t old;
};
struct ctl_mr_segs_req {
	uint32_t nb_in_msg;
	uint32_t reserved;
};
struct ctl_mr_reg_rsp {
	uint32_t handle;
	uint32_t lkey; /**< rkey is the same */
};

/**
 * CTL_MR_NULL (request: handle of the PD): an MR that reads as zeros and drops what is written to it, at any address; peers can't use it. Reply: as
 * for CTL_MR_REG. CTL_MR_DEREG ends it; it can't be replaced.
 */

/**
 * CTL_DM_ALLOC: device memory, which is the daemon's and in a segment of the session, zeroed. A session has UROCE_MAX_DM_BYTES of it at most.
 * CTL_DM_FREE (request: handle): EBUSY while an MR of it is registered.
 */
struct ctl_dm_alloc_req {
	uint64_t length;
	uint32_t log_align; /**< at most UROCE_MAX_DM_LOG_ALIGN */
	uint32_t reserved;
};
struct ctl_dm_alloc_rsp {
	struct ctl_new_segment seg;
	uint32_t handle;
	uint32_t reserved;
	struct ctl_area memory;
};
/** CTL_DM_REG: register a part of it. @c access includes UROCE_ACCESS_ZERO_BASED. Reply: as for CTL_MR_REG; it can't be replaced. */
struct ctl_dm_reg_req {
	uint32_t pd;
	uint32_t dm;
	uint64_t offset, length;
	uint32_t access;
	uint32_t reserved;
};

/** CTL_MW_ALLOC; CTL_MW_FREE (request: handle). Work requests bind it. CTL_MR_DEREG of an MR with bound MWs: EBUSY. */
struct ctl_mw_alloc_req {
	uint32_t pd;
	uint32_t type; /**< enum ibv_mw_type: 1 or 2 */
};
struct ctl_mw_alloc_rsp {
	uint32_t handle;
	uint32_t rkey; /**< gives no access until the MW is bound */
};

/**
 * CTL_CHANNEL_CREATE: a completion channel. Reply: handle; fds: 0 the socket that receives struct ctl_comp_event records,
 * 1 the one that sends them, which the daemon's engines use too: the client raises events with it that are due when it
 * arms a CQ. CTL_CHANNEL_DESTROY (request: handle): EBUSY while CQs use it.
 */

/** CTL_CQ_CREATE. */
struct ctl_cq_create_req {
	uint32_t cqe;
	uint32_t has_channel; /**< 1: its events go to @c channel */
	uint32_t channel;     /**< handle */
	uint32_t comp_vector;
	uint32_t stamps; /**< 1: completions have a time stamp, CLOCK_MONOTONIC in ns */
	uint32_t reserved;
	uint64_t cookie; /**< returned in struct ctl_comp_event and in CQ events */
};
struct ctl_cq_create_rsp {
	struct ctl_new_segment seg;
	uint32_t handle;
	uint32_t order; /**< log2 of the CQE count */
	struct ctl_area ring;
	struct ctl_area shared; /**< struct ring_cq_shared */
	struct ctl_area stamps; /**< uint64_t per slot, or length 0 */
};
/**
 * CTL_CQ_RESIZE: what was posted before and completes without an answer of a peer has its completions when the reply arrives. The new ring,
 * which is larger, has the completions from counter @c from on. All before are in the old ring when the reply arrives; the client moves those
 * that it hasn't polled to their slots in the new ring. The old ring remains until the next resize. With @c cqe up to what the CQ has it keeps
 * its ring: the reply has only @c order.
 */
struct ctl_cq_resize_req {
	uint32_t handle;
	uint32_t cqe;
};
struct ctl_cq_resize_rsp {
	struct ctl_new_segment seg;
	uint32_t order;
	uint32_t from;
	struct ctl_area ring;
	struct ctl_area stamps;
};
/** CTL_CQ_MODIFY: raise an event after so many completions, or so long after the first; 0: this limit is off. */
struct ctl_cq_modify_req {
	uint32_t handle;
	uint16_t count, period_us;
};

/** Record of a completion channel. */
struct ctl_comp_event {
	uint64_t cookie;
};
/** Record of the socket of asynchronous events. */
struct ctl_async_event {
	uint64_t cookie; /**< of the CQ, QP or SRQ; port events: the port number */
	uint32_t type;   /**< enum uroce_event */
	uint32_t reserved;
};

/** CTL_SRQ_CREATE; CTL_SRQ_MODIFY; CTL_SRQ_QUERY. */
struct ctl_srq_create_req {
	uint64_t cookie;
	uint32_t pd, max_wr, max_sge, limit;
	uint32_t is_xrc, xrcd, cq, reserved; /**< xrcd, cq: for an XRC SRQ */
};
struct ctl_srq_create_rsp {
	struct ctl_new_segment seg;
	uint32_t handle, srqn; /**< srqn: for an XRC SRQ, else 0 */
	uint32_t order, shift, max_sge, reserved;
	struct ctl_area ring;
	struct ctl_area shared; /**< struct ring_srq_shared */
};
struct ctl_srq_modify_req {
	uint32_t handle, mask, max_wr, limit;
};
struct ctl_srq_query_rsp {
	uint32_t max_wr, max_sge, limit, reserved;
};

/**
 * CTL_XRCD_OPEN: fd 0, if present: the file through which programs share the domain, not opened with O_PATH; without it
 * the domain is the session's own. Reply: handle. Errors are those of Linux: EAGAIN, there is no domain and O_CREAT
 * isn't set; EINVAL, there is one and O_EXCL is set. CTL_XRCD_CLOSE (request: handle): EBUSY while QPs and SRQs of the
 * session use it.
 */
struct ctl_xrcd_open_req {
	uint32_t oflags; /**< O_CREAT, O_EXCL */
	uint32_t reserved;
};
/** CTL_QP_OPEN: open a QP of type XRC_RECV in the domain, possibly another program's. Reply: as for CTL_QP_CREATE. */
struct ctl_qp_open_req {
	uint64_t cookie;
	uint32_t xrcd, qpn, type, reserved;
};
/**
 * CTL_QP_CREATE: with the handles of PD, CQs, SRQ and XRC domain. XRC_SEND: recv_cq and srq are ignored. XRC_RECV: only
 * xrcd is used, the reply has only handle and qpn, and the QP has no doorbell.
 */
struct ctl_qp_create_req {
	uint64_t cookie; /**< returned in the QP's events */
	uint32_t type;   /**< enum uroce_qp_type */
	uint32_t pd, send_cq, recv_cq;
	uint32_t srq; /**< UINT32_MAX: none */
	uint32_t sq_sig_all;
	uint32_t xrcd;
	/** 1: for rdma_cm, in INIT: P_Key index 0, no access, CTL_CM_UDP_QKEY. Its shared state (ring.h) says whether it is; the client moves it otherwise. */
	uint32_t in_init;
	struct uroce_qp_cap cap;
};
struct ctl_qp_create_rsp {
	struct ctl_new_segment seg;
	uint32_t handle, qpn;
	uint32_t engine;  /**< engine whose struct ring_db has the QP's doorbell */
	uint32_t db_slot; /**< the QP's bit in it */
	uint32_t sq_order, sq_shift, rq_order, rq_shift;
	struct uroce_qp_cap cap; /**< granted */
	struct ctl_area sq, rq;  /**< rq.length 0 with an SRQ */
	struct ctl_area shared;  /**< struct ring_qp_shared */
};
/**
 * CTL_QP_MODIFY: answered when done; to RTR this includes resolving the peer's MAC address (ETIMEDOUT, EHOSTUNREACH).
 * To RESET: the engine skips what is posted; neither side resets counters or slots.
 */
struct ctl_qp_modify_req {
	uint32_t handle;
	uint32_t mask; /**< UROCE_QP_* */
	struct uroce_qp_attr attr;
};
/** CTL_QP_QUERY (request: handle). */
struct ctl_qp_query_rsp {
	struct uroce_qp_attr attr;
};

/** CTL_AH_CREATE: answered when the MAC address is resolved. Reply: the handle to put into WQEs. */
struct ctl_ah_create_req {
	uint32_t pd;
	uint32_t reserved;
	struct uroce_ah_attr attr;
};
struct ctl_mcast_req {
	uint32_t qp;
	uint32_t reserved;
	uint8_t mgid[16];
};

/**
 * CTL_HAND_OVER: another daemon takes the programs of this one over, with all their objects. For root and the daemon's own user. An error is answered
 * as ever; otherwise what follows on the socket is lib/uroce/talk.h's.
 */

/**
 * Importing: programs share PDs and MRs, as by ibv_import_device(). Whoever has a descriptor of the client's end of a session's socket may do it.
 * Nobody sends or receives on a socket that he was given: the descriptor only shows the right.
 *
 * CTL_DEVICE_IMPORT: fd 0 is the client's end of another session's socket. It is recognized by its name: the client has bound it, without an address
 * (unix(7), autobind), before it connected. Reply: the other session's device's index, in @c handle. Once in a session. From then on:
 * CTL_PD_IMPORT (request: handle in the other session): a PD of this session that is the same as that one: keys and QPs of both go together. Reply:
 * handle; CTL_PD_FREE ends it. While objects of it are left, CTL_PD_FREE of the other one gets EBUSY. No memory window belongs to a PD that is shared.
 * CTL_MR_IMPORT: the key of an MR of the other session, whose PD is a shared one. It remains the other session's, which may deregister it at any time.
 */
struct ctl_mr_import_req {
	uint32_t pd; /**< of this session */
	uint32_t mr; /**< of the other one */
};
struct ctl_mr_import_rsp {
	uint32_t lkey; /**< rkey is the same */
	uint32_t reserved;
	uint64_t length;
};

/** A request. Its length on the socket is CTL_REQ_BYTES, plus the segments of MR_REG and MR_SEGS (struct ctl_seg each).
 */
struct ctl_req {
	uint32_t magic;
	uint32_t op; /**< enum ctl_op */
	union {
		struct ctl_hello_req hello;
		struct ctl_memory_req memory;
		struct ctl_device_get_req device_get;
		struct ctl_device_open_req device_open;
		struct ctl_handle handle; /**< of every FREE, DEREG, DESTROY and QUERY; others about one object begin with it */
		struct ctl_mr_reg_req mr_reg;
		struct ctl_mr_segs_req mr_segs;
		struct ctl_mw_alloc_req mw_alloc;
		struct ctl_dm_alloc_req dm_alloc;
		struct ctl_dm_reg_req dm_reg;
		struct ctl_mr_import_req mr_import;
		struct ctl_cq_create_req cq_create;
		struct ctl_cq_resize_req cq_resize;
		struct ctl_cq_modify_req cq_modify;
		struct ctl_srq_create_req srq_create;
		struct ctl_srq_modify_req srq_modify;
		struct ctl_qp_create_req qp_create;
		struct ctl_qp_modify_req qp_modify;
		struct ctl_ah_create_req ah_create;
		struct ctl_mcast_req mcast;
		struct ctl_xrcd_open_req xrcd_open;
		struct ctl_qp_open_req qp_open;
		struct ctl_cm_create_req cm_create;
		struct ctl_cm_destroy_req cm_destroy;
		struct ctl_cm_bind_req cm_bind;
		struct ctl_cm_resolve_addr_req cm_resolve_addr;
		struct ctl_cm_resolve_route_req cm_resolve_route;
		struct ctl_cm_listen_req cm_listen;
		struct ctl_cm_connect_req cm_connect;
		struct ctl_cm_disconnect_req cm_disconnect;
		struct ctl_cm_reject_req cm_reject;
		struct ctl_cm_qp_attr_req cm_qp_attr;
		struct ctl_cm_option_req cm_option;
		struct ctl_cm_join_req cm_join;
		struct ctl_cm_migrate_req cm_migrate;
		uint8_t space[248];
	};
	uint64_t number; /**< one more than that of the request before; 0: requests have no numbers */
};
#define CTL_REQ_BYTES sizeof(struct ctl_req)

/** A reply, always of this size. */
struct ctl_rsp {
	uint32_t magic;
	uint32_t op;    /**< of the request */
	int32_t status; /**< 0 or an errno value */
	uint32_t nb_fds;
	union {
		struct ctl_hello_rsp hello;
		struct ctl_device_get_rsp device_get;
		struct ctl_device_open_rsp device_open;
		struct ctl_device_query_rsp device_query;
		struct ctl_port_query_rsp port_query;
		struct ctl_gid_table_rsp gid_table;
		struct ctl_handle handle;
		struct ctl_mr_reg_rsp mr_reg;
		struct ctl_mr_import_rsp mr_import;
		struct ctl_mw_alloc_rsp mw_alloc;
		struct ctl_dm_alloc_rsp dm_alloc;
		struct ctl_cq_create_rsp cq_create;
		struct ctl_cq_resize_rsp cq_resize;
		struct ctl_srq_create_rsp srq_create;
		struct ctl_srq_query_rsp srq_query;
		struct ctl_qp_create_rsp qp_create;
		struct ctl_qp_query_rsp qp_query;
		struct ctl_cm_open_rsp cm_open;
		struct ctl_cm_id_info cm_info;
		struct ctl_cm_qp_attr_rsp cm_qp_attr;
		char message[256]; /**< if status isn't 0: what is wrong and what would be right, or "" */
		uint8_t space[504];
	};
	uint64_t number; /**< of the request */
};

static_assert(sizeof(struct ctl_req) == 8 + 256 && offsetof(struct ctl_req, number) == 8 + 248, "ABI");
static_assert(sizeof(struct ctl_rsp) == 16 + 512 && offsetof(struct ctl_rsp, number) == 16 + 504, "ABI");
static_assert(sizeof(struct ctl_seg) == 48, "ABI");

#endif /* UROCE_CTL_H */
