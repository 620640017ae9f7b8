/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The control protocol between the client libraries and uroced.
 *
 * A SOCK_SEQPACKET unix socket; one connection is one session (one open device context). The client
 * sends one request (struct ctl_req, the member of its op filled in) and waits for its one reply
 * (struct ctl_rsp); file descriptors travel beside either as SCM_RIGHTS. Requests are answered in order.
 * Completion events and asynchronous events don't come this way: they are records in pipes whose
 * write ends the client hands over, so that programs can poll the read ends.
 *
 * The first request is CTL_HELLO. A version that is not the daemon's own gets status EPROTO and the
 * daemon's version in the reply (struct ctl_hello_rsp; every other error has a message instead), so that the client can
 * say what to do; then the daemon closes. A daemon that has too many sessions sends the reply EMFILE unasked and
 * closes.
 *
 * A malformed request (wrong size, unknown op, unterminated string, handle that isn't the session's)
 * gets EINVAL and changes nothing. When the connection closes, everything the session had goes.
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
	CTL_MAX_FDS = 4,
	CTL_SEGS_PER_MSG = 1024, /**< MR segments in one request */
	CTL_NAME_BYTES = 64,
};

/** Requests. What each carries and answers stands at its struct below. */
enum ctl_op {
	CTL_HELLO = 1,
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
	CTL_CM_OPEN, /* these: ctl_cm.h */
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
	CTL_OPS,
};

/** Where a ring or a shared block lies: in a memory segment of the session, mapped once. */
struct ctl_area {
	uint32_t segment; /**< number of the segment, counts from 0; a new one comes with its fd in the same reply */
	uint32_t reserved;
	uint64_t offset; /**< bytes into the segment */
	uint64_t length; /**< bytes */
};

/** A new shared-memory segment that a reply brings (fd beside the reply). segment_bytes 0: none. */
struct ctl_new_segment {
	uint64_t segment_bytes;
	uint32_t segment;
	uint32_t reserved;
};

/**
 * CTL_HELLO: fd 0 is the client's own /proc/self/mem, opened O_RDWR (the daemon reads and writes through it what can't
 * be mapped). Without it CTL_SEG_REMOTE gets EOPNOTSUPP.
 */
struct ctl_hello_req {
	uint32_t abi_version;
	uint32_t pid; /**< for messages only */
	char program[CTL_NAME_BYTES];
};
struct ctl_hello_rsp {
	uint32_t abi_version;
	uint32_t nb_devices;
	char version[CTL_NAME_BYTES]; /**< the daemon's, for messages */
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
 * CTL_DEVICE_OPEN: bind the session to a device. Fd 0: write end of the pipe for struct ctl_async_event records,
 * O_NONBLOCK. Reply fds: 0 kick eventfd; 1 memfd of the doorbells (one struct ring_db per engine); 2 sealed memfd for
 * converted memory; 3 /dev/userfaultfd, if have_uffd. The daemon opens this and other pipes anew (/proc/self/fd), so their
 * mode must let it: the flags of an open file that a program has too are in the program's hand.
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
	uint64_t db_stride;  /**< bytes from one engine's struct ring_db to the next */
};

/** CTL_DEVICE_QUERY: struct ibv_device_attr(_ex) as far as it isn't constant. */
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
	uint64_t hca_core_clock_khz; /**< completion timestamps; 0: none */
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

/** CTL_GID_TABLE: all GIDs; an entry of zeros is unused. All are RoCE v2. */
struct ctl_gid_table_rsp {
	uint8_t gid[UROCE_MAX_GIDS][16];
	uint32_t ndev_ifindex; /**< of the shared kernel interface, or 0 */
};

/** CTL_PD_ALLOC (reply: handle), CTL_PD_FREE (request: handle). */
struct ctl_handle {
	uint32_t handle;
};

/** How the daemon reaches a piece of the client's memory. */
enum ctl_seg_kind {
	CTL_SEG_CONVERTED = 1, /**< lies at @c offset in the session's memfd */
	CTL_SEG_SHARED = 2,    /**< is shared memory already: the daemon maps /proc/PID/map_files of it */
	CTL_SEG_REMOTE = 3,    /**< through /proc/PID/mem */
	CTL_SEG_OWN = 4,       /**< program and daemon are one process (lib/uroce): at @c va; other sessions may not */
};
struct ctl_seg {
	uint64_t va;
	uint64_t length;
	uint64_t offset;    /**< CONVERTED: into the memfd; SHARED: into the mapping [map_start, map_end) */
	uint64_t map_start; /**< SHARED: the mapping's bounds as /proc/self/maps has them */
	uint64_t map_end;
	uint32_t kind; /**< enum ctl_seg_kind */
	uint32_t reserved;
};

/**
 * CTL_MR_REG: segments cover [addr, addr + length) in ascending order without a gap. If nb_segs is more than
 * CTL_SEGS_PER_MSG, the rest was sent before by CTL_MR_SEGS requests, which the daemon collects until the next
 * CTL_MR_REG, whatever becomes of it. The offset of a converted segment is congruent to va modulo the page size. Errors
 * of shared segments: EOPNOTSUPP, this can't be mapped, send it as CTL_SEG_REMOTE; EFAULT, the program may not write
 * there, but the MR's access says so. Reply: the keys and a handle.
 */
struct ctl_mr_reg_req {
	uint32_t pd;
	uint32_t access;
	uint64_t addr;
	uint64_t length;
	uint64_t iova;
	uint32_t nb_segs;   /**< in all */
	uint32_t nb_in_msg; /**< in this message; the last ones */
	uint32_t replace;   /**< 1: the MR @c old goes, the new one takes its keys. EBUSY: MWs are bound to it */
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
 * CTL_MW_ALLOC; CTL_MW_FREE (request: handle). Work requests bind it. CTL_MR_DEREG of an MR to which MWs are bound:
 * EBUSY.
 */
struct ctl_mw_alloc_req {
	uint32_t pd;
	uint32_t type; /**< enum ibv_mw_type: 1 or 2 */
};
struct ctl_mw_alloc_rsp {
	uint32_t handle;
	uint32_t rkey; /**< opens nothing until it is bound */
};

/** CTL_CQ_CREATE: fd 0, if has_channel: write end of the channel's pipe (O_NONBLOCK) for struct ctl_comp_event records.
 */
struct ctl_cq_create_req {
	uint32_t cqe;
	uint32_t has_channel;
	uint32_t comp_vector;
	uint32_t stamps; /**< 1: completions carry a time, CLOCK_MONOTONIC in ns */
	uint64_t cookie; /**< comes back in struct ctl_comp_event and in CQ events */
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
 * CTL_CQ_RESIZE: completions from counter @c from on are in the new ring, which is larger; all before are in the old one
 * when the answer comes. The client moves those that it hasn't polled to their slots in the new ring. The old ring stays
 * until the next resize.
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
/** CTL_CQ_MODIFY: an event for so many completions or so long after the first; 0: doesn't count. */
struct ctl_cq_modify_req {
	uint32_t handle;
	uint16_t count, period_us;
};

/** Record in a channel's pipe. */
struct ctl_comp_event {
	uint64_t cookie;
};
/** Record in the pipe of asynchronous events. */
struct ctl_async_event {
	uint64_t cookie; /**< of the CQ, QP or SRQ; port events: the port number */
	uint32_t type;   /**< enum uroce_event */
	uint32_t reserved;
};

/** CTL_SRQ_CREATE; CTL_SRQ_MODIFY; CTL_SRQ_QUERY. */
struct ctl_srq_create_req {
	uint64_t cookie;
	uint32_t pd, max_wr, max_sge, limit;
	uint32_t is_xrc, xrcd, cq, reserved; /**< xrcd, cq: of an XRC SRQ */
};
struct ctl_srq_create_rsp {
	struct ctl_new_segment seg;
	uint32_t handle, srqn; /**< srqn: of an XRC SRQ, else 0 */
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
 * CTL_XRCD_OPEN: fd 0, if there is one: the file through which programs share the domain, not opened by O_PATH; without
 * it the domain is the session's own. Reply: handle. Errors are Linux's: EAGAIN, there is none and O_CREAT isn't set;
 * EINVAL, there is one and O_EXCL is set. CTL_XRCD_CLOSE (request: handle): EBUSY while QPs and SRQs of the session use it.
 */
struct ctl_xrcd_open_req {
	uint32_t oflags; /**< O_CREAT, O_EXCL */
	uint32_t reserved;
};
/** CTL_QP_OPEN: a QP of type XRC_RECV of the domain, perhaps another program's. Reply: as CTL_QP_CREATE. */
struct ctl_qp_open_req {
	uint64_t cookie;
	uint32_t xrcd, qpn, type, reserved;
};
/**
 * CTL_QP_CREATE. Handles of PD, CQs, SRQ and XRC domain as the daemon gave them. XRC_SEND: recv_cq and srq are ignored.
 * XRC_RECV: only xrcd counts, the reply has handle and qpn only, and there is nothing to ring for.
 */
struct ctl_qp_create_req {
	uint64_t cookie; /**< comes back in the QP's events */
	uint32_t type;   /**< enum uroce_qp_type */
	uint32_t pd, send_cq, recv_cq;
	uint32_t srq; /**< UINT32_MAX: none */
	uint32_t sq_sig_all;
	uint32_t xrcd, reserved;
	struct uroce_qp_cap cap;
};
struct ctl_qp_create_rsp {
	struct ctl_new_segment seg;
	uint32_t handle, qpn;
	uint32_t engine;  /**< whose struct ring_db */
	uint32_t db_slot; /**< bit in it */
	uint32_t sq_order, sq_shift, rq_order, rq_shift;
	struct uroce_qp_cap cap; /**< granted */
	struct ctl_area sq, rq;  /**< rq.length 0 with an SRQ */
	struct ctl_area shared;  /**< struct ring_qp_shared */
};
/**
 * CTL_QP_MODIFY: answered when done; to RTR this includes resolving the peer's MAC address (ETIMEDOUT, EHOSTUNREACH).
 * To RESET: the engine passes over what is posted; neither side resets counters or slots.
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

/** CTL_AH_CREATE: answered when the MAC address is known. Reply: the handle to put into WQEs. */
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

/** A request. Its length on the socket is CTL_REQ_BYTES, plus the segments of MR_REG and MR_SEGS (struct ctl_seg each).
 */
struct ctl_req {
	uint32_t magic;
	uint32_t op; /**< enum ctl_op */
	union {
		struct ctl_hello_req hello;
		struct ctl_device_get_req device_get;
		struct ctl_device_open_req device_open;
		struct ctl_handle handle; /**< of every FREE, DEREG, DESTROY and QUERY; others about one object begin with it */
		struct ctl_mr_reg_req mr_reg;
		struct ctl_mr_segs_req mr_segs;
		struct ctl_mw_alloc_req mw_alloc;
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
		struct ctl_cm_reject_req cm_reject;
		struct ctl_cm_qp_attr_req cm_qp_attr;
		struct ctl_cm_option_req cm_option;
		struct ctl_cm_join_req cm_join;
		struct ctl_cm_migrate_req cm_migrate;
		uint8_t space[256];
	};
};
#define CTL_REQ_BYTES sizeof(struct ctl_req)

/** A reply, always of this size. */
struct ctl_rsp {
	uint32_t magic;
	uint32_t op;    /**< the request's */
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
		struct ctl_mw_alloc_rsp mw_alloc;
		struct ctl_cq_create_rsp cq_create;
		struct ctl_cq_resize_rsp cq_resize;
		struct ctl_srq_create_rsp srq_create;
		struct ctl_srq_query_rsp srq_query;
		struct ctl_qp_create_rsp qp_create;
		struct ctl_qp_query_rsp qp_query;
		struct ctl_cm_open_rsp cm_open;
		struct ctl_cm_id_info cm_info;
		struct ctl_cm_qp_attr_rsp cm_qp_attr;
		char message[256]; /**< status not 0: what was wrong and what would be right, or "" */
		uint8_t space[512];
	};
};

static_assert(sizeof(struct ctl_req) == 8 + 256, "ABI");
static_assert(sizeof(struct ctl_rsp) == 16 + 512, "ABI");
static_assert(sizeof(struct ctl_seg) == 48, "ABI");

#endif /* UROCE_CTL_H */
