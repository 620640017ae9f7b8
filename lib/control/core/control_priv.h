/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/control share: the control state, sessions, objects, requests.
 *
 * Thread: control, or another one that holds control_lock(), unless a line says otherwise.
 */
#ifndef UROCE_CONTROL_PRIV_H
#define UROCE_CONTROL_PRIV_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <rte_log.h>

#include "base/burst.h"
#include "control/control.h"
#include "ring/ctl.h"
#include "engine/engine.h"
#include "control/cma/gsi.h"
#include "control/core/handles.h"
#include "mem/mem.h"
#include "mem/mw.h"
#include "control/memory/shm.h"

extern int control_logtype;
#define CTL_LOG(level, fmt, ...) rte_log(RTE_LOG_##level, control_logtype, "uroced: " fmt "\n", ##__VA_ARGS__)

enum {
	/** Mappings of one session's memory. */
	SESSION_MAX_MAPS = 4096,
	/** Mappings of all sessions' memory; the kernel gives a process 65530 (vm.max_map_count), malloc() needs some too. */
	CONTROL_MAX_MAPS = 49152,
	SESSION_COMP_VECTORS = 64,
	SESSION_AH_BUCKETS = 256,
	/** Size of the memfd for converted memory, log2; sparse, never used twice. */
	SESSION_MEM_SHIFT = 46,
	/** Converted memory is mapped in windows of this size, log2, so that many MRs share one mapping. */
	SESSION_WINDOW_SHIFT = 30,
	CONTROL_LINK_POLL_MS = 500,
	/** Events of one engine in a turn: who floods us with ARP or MADs must not keep programs waiting. */
	CONTROL_EVENT_BURST = 256,
	/** QPs destroyed in one message to an engine, so that other programs' traffic goes on in between. */
	CONTROL_DESTROY_BURST = 32,
	/** Lines about ended sessions per second. */
	CONTROL_LOG_BURST = 20,
};

/** A descriptor in epoll. */
struct watch {
	void (*fn)(struct watch *w, uint32_t events);
	int fd;
};

/** The descriptor of an engine's events. */
struct engine_watch {
	struct watch watch;
	struct control *control;
	struct engine *engine;
};

enum obj_type { OBJ_PD, OBJ_MR, OBJ_MW, OBJ_CQ, OBJ_SRQ, OBJ_QP, OBJ_AH, OBJ_XRCD, OBJ_CM_ID, OBJ_CM_GROUP, OBJ_TYPES };

/** First member of every object. */
struct obj {
	uint32_t handle;
	uint32_t users; /**< objects that refer to it; it can't go before them */
};

struct obj_pd {
	struct obj obj;
	uint32_t id; /**< unique in the daemon: what transport and memory compare */
};

struct obj_cq {
	struct obj obj;
	uint64_t number; /**< never used twice */
	struct cq *cq;
	struct shm_block block;     /**< struct ring_cq_shared, the ring, the completions' times */
	struct shm_block ring_block; /**< after a resize: the ring and the times in use */
	struct shm_block old_block;  /**< and those before it, from which the client moves its completions */
	uint32_t order;
	bool stamps, moderated;
	int channel_fd;
};

struct session;

/** An XRC domain, of one session or of all that open it through one file. */
struct xrcd {
	LIST_ENTRY(xrcd) link;
	struct net_port *port;
	uint32_t id;         /**< what the transport compares */
	unsigned int engine; /**< of its SRQs and targets */
	uint32_t opens;      /**< obj_xrcd of it */
	bool shared;         /**< by the file of this number: */
	uint64_t dev, ino;
	LIST_HEAD(, xrc_target) targets;
};

/** A QP of type XRC_RECV, of all sessions that have it open. */
struct xrc_target {
	struct ring_qp_shared shared; /**< shared with nobody: the QP has no queues */
	LIST_ENTRY(xrc_target) link;
	LIST_HEAD(, obj_qp) openings;
	struct qp *qp;
	uint64_t cookie;              /**< handle in control.targets */
	uint16_t pkey_index;
};
/** The owner of targets as engines know it: no session. */
#define XRC_TARGET_OWNER ((void *)UINTPTR_MAX)

struct obj_xrcd {
	struct obj obj;
	struct xrcd *xrcd;
	int fd; /**< of its file, or -1 */
};

struct obj_srq {
	struct obj obj;
	struct obj_xrcd *xrcd; /**< NULL: not XRC; so is cq */
	struct obj_cq *cq;
	uint32_t srqn_handle;
	struct obj_pd *pd;
	struct srq *srq;
	unsigned int engine;
	struct shm_block block; /**< struct ring_srq_shared, then the ring */
	uint32_t max_wr, max_sge;
};

struct obj_qp {
	struct obj obj;
	struct obj_pd *pd;
	struct obj_cq *send_cq, *recv_cq;
	struct obj_srq *srq;
	struct qp *qp;
	unsigned int engine;
	uint32_t db_slot;
	enum uroce_qp_type type;
	uint16_t pkey_index;
	char *note; /**< why the last modify failed, or NULL */
	LIST_HEAD(, mcast_member) groups; /**< multicast groups that it is attached to */
	struct shm_block block; /**< struct ring_qp_shared, SQ, RQ */

	/* XRC_RECV: one opening of a target; it has none of the above but obj, qp, engine and type. */
	LIST_ENTRY(obj_qp) opening;
	struct session *session;
	struct obj_xrcd *xrcd;
	struct xrc_target *target; /**< NULL: another type */
	uint64_t cookie;
};

struct obj_ah {
	struct obj obj;
	LIST_ENTRY(obj_ah) link;
	struct obj_pd *pd;
	uint32_t wqe_handle; /**< the transport's: what the client knows it by */
};
LIST_HEAD(ah_list, obj_ah);

struct cma;
struct cma_session;

/** A mapping of a program's memory. */
struct mem_map {
	void *base;
	size_t bytes;
	int sigbus_id;
	uint32_t pieces; /**< mappings as the kernel counts them */
};

/** One window of the memfd for converted memory. */
struct mem_window {
	LIST_ENTRY(mem_window) link;
	uint64_t index; /**< offset >> SESSION_WINDOW_SHIFT */
	uint32_t users;
	struct mem_map map;
};

struct obj_mr {
	struct obj obj;
	struct session *session;
	struct obj_pd *pd;
	struct mr *mr;
	uint64_t length;
	uint32_t nb_maps, nb_windows;
	struct mem_map *maps;
	struct mem_window **windows;
};

struct obj_mw {
	struct obj obj;
	struct obj_pd *pd;
	struct mw *mw;
};

/** A modify or create_ah whose reply waits for a MAC address. */
struct pending {
	bool active;
	struct net_port *port;
	struct uroce_ah_attr av; /**< whose MAC address */
	uint64_t since_ns;
	struct ctl_req req;
};

/** A bucket of connections: filled with time, up to what one second gives. */
struct limit_rate {
	uint64_t at_ns; /**< 0: never used */
	double left;
};

struct user;

struct session {
	TAILQ_ENTRY(session) link;
	struct watch sock, kick;
	struct control *control;
	uint64_t id; /**< never used twice: what engines know as owner */
	bool own; /**< of this process itself, by control_adopt() */
	bool hello, closing;
	_Atomic uint32_t victim; /**< its memory went away under a mapping (sigbus.c) */
	pid_t pid;
	uid_t uid;
	struct user *user;     /**< what all sessions of that uid have */
	struct limit_rate connects;
	uint32_t limits_told;  /**< what of its wishes is in the log already */
	char program[CTL_NAME_BYTES];
	int proc_fd;           /**< /proc/PID, bound to that process, or -1 */
	int async_fd;          /**< write end of the pipe of asynchronous events, or -1 */
	struct net_port *port; /**< NULL until DEVICE_OPEN */
	struct mem_owner owner;
	int mem_fd; /**< memfd of converted memory */
	LIST_HEAD(, mem_window) windows;
	uint32_t nb_maps;
	uint64_t registered;   /**< bytes of all MRs */
	struct ctl_seg *segs; /**< of CTL_MR_SEGS, until CTL_MR_REG */
	uint32_t nb_segs;
	struct shm *shm;
	uint8_t *db; /**< doorbells, db_bytes long */
	size_t db_bytes;
	int db_sigbus_id;
	struct engine_session *engine_sessions[UROCE_MAX_ENGINES];
	struct handles db_slots[UROCE_MAX_ENGINES]; /**< index: doorbell slot */
	struct handles tab[OBJ_TYPES];
	struct ah_list ahs[SESSION_AH_BUCKETS]; /**< by the low bits of wqe_handle */
	struct pending pending;
	uint64_t events_lost;
	struct cma_session *cma; /**< it is an event channel of librdmacm, else NULL */
};

/** What became of SIGHUPs. */
struct reloads {
	uint64_t done, refused;
	char error[CONFIG_ERR_BYTES]; /**< of the last one; "": it was good */
	char restart[CONFIG_ERR_BYTES]; /**< keys of the last good one that wait for a restart */
};

/** What an engine has done lately. */
struct engine_load {
	uint64_t busy_cycles, idle_cycles; /**< when it was looked at last */
	uint32_t percent;                  /**< busy, between the last two looks */
};

struct control {
	struct control_setup s;
	pthread_mutex_t lock;
	struct engine_load load[UROCE_MAX_ENGINES];
	struct reloads reloads;
	int epfd;
	bool stop;
	bool privileged; /**< map_files of programs can be opened */
	bool hugepages;
	int uffd;     /**< /dev/userfaultfd, or -1 */
	int spare_fd; /**< given up to refuse somebody when there are no descriptors */
	struct watch listen, wake, signals;
	pthread_mutex_t adopt_lock;
	int adopt[CONTROL_ADOPT_MAX]; /**< under adopt_lock: sockets of sessions that shall begin */
	unsigned int nb_adopt;
	struct engine_watch engines[UROCE_MAX_ENGINES];
	TAILQ_HEAD(session_list, session) sessions;
	TAILQ_HEAD(, session) closed; /**< freed when the events of this turn are done */
	uint32_t nb_sessions;
	LIST_HEAD(, user) users;
	uint64_t next_session, next_cq;
	uint32_t count[OBJ_TYPES], limit[OBJ_TYPES];
	struct handles pd_ids;
	LIST_HEAD(, xrcd) xrcds;
	uint32_t next_xrcd;
	struct handles srqns;   /**< of XRC SRQs */
	struct handles targets; /**< struct xrc_target */
	unsigned int next_engine;
	bool link_up[UROCE_MAX_PORTS];
	bool sysfs; /**< the files of sysfs.h are there */
	uint64_t next_link_poll_ns;
	struct exporter *exporter;
	struct capture *capture; /**< or NULL: none runs */
	struct gsi *gsi;
	struct cma *cma;
	struct burst ends;      /**< lines about ended sessions */
	uint64_t failures_unsaid[UROCE_MAX_ENGINES]; /**< that the log knows of */
	uint32_t most_conns; /**< of gsi's CM at once, since the heap was trimmed */
	uint8_t *rx; /**< buffer of one request */
};

/** A request on its way through its handler. */
struct request {
	const struct ctl_req *req;
	const struct ctl_seg *segs;
	uint32_t nb_segs;
	int fds[CTL_MAX_FDS]; /**< a handler that keeps or closes one puts -1 in its place */
	uint32_t nb_fds;
	struct ctl_rsp rsp;
	int out_fds[CTL_MAX_FDS];
	bool out_close[CTL_MAX_FDS]; /**< close it when sent */
	char message[256];
};

/** Keep the message of a request that fails. @return @p err. */
int req_fail(struct request *r, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/** Add a descriptor to the reply. */
void req_send_fd(struct request *r, int fd, bool close_it);

/* ---- control.c ---- */
uint64_t control_now_ns(void);
/** Called by a thread of ours that isn't the control: signals that others send are not for it. */
void control_thread_signals(void);
int control_watch(struct control *c, struct watch *w, uint32_t events);
void control_unwatch(struct control *c, struct watch *w);

/* ---- telemetry.c ---- */
/** Answer requests about @p c from now on. */
void telemetry_start(struct control *c);
/** From now on nobody asks about @p c. */
void telemetry_stop(struct control *c);

/* ---- inspect.c ---- */
/** Note how busy engines have been since the last call. */
void inspect_tick(struct control *c);
/** The address that a pending request asks for, as people write it. @param text  INET6_ADDRSTRLEN long. */
const char *path_pending_text(const struct pending *p, char *text);

/* ---- server.c ---- */
/** The longest request. */
#define CONTROL_RX_BYTES (CTL_REQ_BYTES + CTL_SEGS_PER_MSG * sizeof(struct ctl_seg))
/** Begin to take the session's requests. @return 0 or an errno value. */
int session_serve(struct session *s);
/** Send a reply with its descriptors. @return 0 or an errno value. */
int send_reply(int sock, const struct ctl_rsp *rsp, const int *fds, uint32_t nb_fds);
/** Answer @p r with @p status; the session is closed if that fails. */
void session_reply(struct session *s, struct request *r, int status);
/** Stop or go on taking requests. */
void session_pause(struct session *s, bool pause);

/* ---- session.c ---- */
struct session *session_create(struct control *c, int fd);
/** Mark it; it is destroyed at the end of the turn. @param why  For the log, NULL: it closed the connection. */
void session_close(struct session *s, const char *why);
/** Log how many ended that had no line of their own, when their second is over. */
void sessions_tell_ended(struct control *c);
/** Destroy what was closed. */
void sessions_reap(struct control *c);
struct session *session_find(struct control *c, uint64_t id);
int op_hello(struct session *s, struct request *r);
int op_device_open(struct session *s, struct request *r);

/** Allocate an object of @p bytes and give it a handle, within the limits. @return NULL with r failed as *@p rc says.
 */
void *obj_new(struct session *s, enum obj_type type, size_t bytes, struct request *r, int *rc);
/** Remove and free. */
void obj_free(struct session *s, enum obj_type type, struct obj *o);
/** @return the object or NULL with the request failed: call as `if (p == NULL) return EINVAL`. */
void *obj_get(struct session *s, enum obj_type type, uint32_t handle, struct request *r);
const char *obj_name(enum obj_type type);
/** The owner as engines know it. */
void *session_owner(const struct session *s);
/** Describe part of a block for the client. */
struct ctl_area area_of(const struct shm_block *b, uint64_t offset, uint64_t bytes);
/** Tell the client of the block's segment, if it is new. */
void announce(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg);
/**
 * Take the one descriptor of a request, which must be the write end of a pipe, O_NONBLOCK. It is opened anew: the program
 * keeps the open file that it sent, and could make it block.
 * @return 0 or an errno value.
 */
int take_event_pipe(struct request *r, int *out);
/** @return the smallest order with 1 << order >= @p n. */
uint32_t order_of(uint32_t n);

/* ---- objects ---- */
int op_pd_alloc(struct session *s, struct request *r);
int op_pd_free(struct session *s, struct request *r);
void obj_pd_destroy(struct session *s, struct obj_pd *pd);
int op_mr_reg(struct session *s, struct request *r);
int op_mr_segs(struct session *s, struct request *r);
int op_mr_dereg(struct session *s, struct request *r);
void obj_mr_destroy_all(struct session *s);
int op_mw_alloc(struct session *s, struct request *r);
int op_mw_free(struct session *s, struct request *r);
void obj_mw_destroy_all(struct session *s);
int op_cq_create(struct session *s, struct request *r);
int op_cq_resize(struct session *s, struct request *r);
int op_cq_modify(struct session *s, struct request *r);
int op_cq_destroy(struct session *s, struct request *r);
void obj_cq_destroy(struct session *s, struct obj_cq *cq);
int op_srq_create(struct session *s, struct request *r);
int op_srq_modify(struct session *s, struct request *r);
int op_srq_query(struct session *s, struct request *r);
int op_srq_destroy(struct session *s, struct request *r);
int obj_srq_destroy(struct session *s, struct obj_srq *srq);
int op_qp_create(struct session *s, struct request *r);
int op_qp_modify(struct session *s, struct request *r);
int op_qp_query(struct session *s, struct request *r);
int op_qp_destroy(struct session *s, struct request *r);
void obj_qp_destroy_all(struct session *s);
/** Keep why a modify failed, for who asks why it isn't connected. @param text  NULL: it succeeded. */
void obj_qp_note(struct session *s, uint32_t handle, const char *text);
/** Give a QP of @p s an alternate path, to be armed when both ends have one. @return 0 or an errno value. */
int obj_qp_load_alternate(struct session *s, struct obj_qp *qp, const struct uroce_ah_attr *ah, uint8_t timeout,
			  const uint8_t mac[6]);
int op_xrcd_open(struct session *s, struct request *r);
int op_xrcd_close(struct session *s, struct request *r);
void obj_xrcd_destroy(struct session *s, struct obj_xrcd *o);
int op_xrc_target_create(struct session *s, struct request *r);
int op_qp_open(struct session *s, struct request *r);
void obj_xrc_target_close(struct session *s, struct obj_qp *qp);
/** @return a number for an XRC SRQ, 0: none left. */
uint32_t srqn_new(struct control *c, struct obj_srq *srq);
void srqn_free(struct control *c, struct obj_srq *srq);
int op_ah_create(struct session *s, struct request *r);
int op_ah_destroy(struct session *s, struct request *r);
void obj_ah_destroy(struct session *s, struct obj_ah *ah);
int op_mcast_attach(struct session *s, struct request *r);
int op_mcast_detach(struct session *s, struct request *r);
/** Before the QP goes. */
void obj_mcast_detach_all(struct session *s, struct obj_qp *qp);
/** Go on with a request that waited for a MAC address. */
int op_ah_create_resolved(struct session *s, struct request *r, const uint8_t mac[6]);

/* ---- path.c ---- */
/**
 * Find the MAC address of an AV. @return 0: *@p mac is set; EINPROGRESS: the request waits and will go on by itself;
 * else the request has failed.
 */
int path_resolve(struct session *s, struct request *r, const struct uroce_ah_attr *av, uint8_t mac[6]);
/** Make the path of a resolved AV. */
void path_make(struct session *s, const struct uroce_ah_attr *av, const uint8_t mac[6], uint16_t pkey,
	       struct tp_path *out);
/** Forget a waiting request. */
void path_cancel(struct session *s);

/* ---- query.c ---- */
/** @return the EUI-64 of @p p, host byte order. */
uint64_t port_guid(const struct net_port *p);
int op_device_get(struct session *s, struct request *r);
int op_device_query(struct session *s, struct request *r);
int op_port_query(struct session *s, struct request *r);
int op_gid_table(struct session *s, struct request *r);

/* ---- events.c ---- */
void events_engine(struct watch *w, uint32_t events);
/** Links and neighbours. @return ms until it must be called again, at most. */
int events_poll(struct control *c);
void events_start(struct control *c);

#endif /* UROCE_CONTROL_PRIV_H */
