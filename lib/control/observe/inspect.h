/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The state of sessions, QPs, CQs, MRs and engines, as structs without pointers to the objects.
 *
 * Called by: telemetry, exporter, apps that embed the stack. Thread: any; each call takes control_lock() and queries
 * engines through their mailboxes, a few objects per message. So the data that a call returns about one object is
 * consistent, and the data path isn't involved.
 *
 * Objects have numbers that are not reused while the daemon runs, or not for a long time: sessions and CQs are counted,
 * a QP has its QPN, an MR its key.
 */
#ifndef UROCE_INSPECT_H
#define UROCE_INSPECT_H

#include <sys/types.h>

#include "control/control.h"
#include "transport/diag/diag.h"

enum {
	INSPECT_NOTE_BYTES = 256,
	INSPECT_TEXT_BYTES = DIAG_TEXT_BYTES + DIAG_LINE_BYTES, /**< size of the buffer for inspect_explain() */
};

/** PDs have their id; SRQs and ids of rdma_cm, which have no numbers of their own, the session's and below it their handle. */
enum inspect_kind { INSPECT_SESSION, INSPECT_QP, INSPECT_CQ, INSPECT_MR, INSPECT_PD, INSPECT_SRQ, INSPECT_CM_ID, INSPECT_KINDS };

/** Selects objects; start with INSPECT_ALL. */
struct inspect_filter {
	uint64_t from;    /**< numbers from this one upwards */
	uint64_t session; /**< 0: any */
	int port;         /**< index; -1: any */
	int state, type;  /**< QPs: enum uroce_qp_state, enum uroce_qp_type; -1: any */
	uint32_t dest_qpn; /**< QPs; 0: any */
	const char *program; /**< NULL: any */
};
#define INSPECT_ALL ((struct inspect_filter){ .port = -1, .state = -1, .type = -1 })

/**
 * Get the numbers of objects, in ascending order.
 * @param max  At most so many are put into @p numbers.
 * @return the number of objects, which may be larger than @p max.
 */
uint32_t inspect_list(struct control *c, enum inspect_kind kind, const struct inspect_filter *f, uint64_t *numbers,
		      uint32_t max);

struct inspect_session {
	uint64_t number;
	pid_t pid;
	uid_t uid;
	char program[CTL_NAME_BYTES];
	char device[CTL_NAME_BYTES];   /**< "": none is open */
	bool event_channel;            /**< an event channel of librdmacm: it has ids instead of a device */
	uint32_t pds, mrs, mws, dms, cqs, srqs, qps, ahs, xrcds, cm_ids;
	uint64_t ring_bytes;           /**< queues in shared memory */
	uint64_t registered_bytes;     /**< of all its MRs */
	uint32_t maps;                 /**< mappings of its memory */
	uint64_t events_lost;          /**< asynchronous events for which there was no room, since it doesn't read them */
	/** What it has of its engines, summed up; of what it waits for, the last in enum share_wait. */
	struct share_view share;
	uint32_t share_percent;        /**< of the cost of all sessions since this session was last asked for; 0: there was none */
	char waits[INSPECT_NOTE_BYTES]; /**< what its request is waiting for; "": none is waiting */
};
/** @return 0 or ENOENT. */
int inspect_session(struct control *c, uint64_t number, struct inspect_session *out);

struct inspect_qp {
	struct qp_view v;
	uint64_t session;              /**< 0: several (an XRC target) */
	pid_t pid;
	char program[CTL_NAME_BYTES];
	char device[CTL_NAME_BYTES];
	uint64_t send_cq, recv_cq;     /**< numbers; 0: none */
	/** Why the QP couldn't be connected: the last modify failed, or is waiting; "": neither. */
	char note[INSPECT_NOTE_BYTES];
};
/** @return 0 or ENOENT. */
int inspect_qp(struct control *c, uint32_t qpn, struct inspect_qp *out);
/** Get several QPs at once. @return how many were put into @p out, in ascending order. */
uint32_t inspect_qps(struct control *c, const struct inspect_filter *f, struct inspect_qp *out, uint32_t max);
/** qp_explain() plus the note. @param text  INSPECT_TEXT_BYTES long. @return @p text. */
const char *inspect_explain(const struct inspect_qp *qp, char *text);
/**
 * qp_events() of a QP's engine; for a QP that is gone, of all engines. @p now_ns receives the engine's clock. @return
 * number of events.
 */
uint32_t inspect_qp_events(struct control *c, uint32_t qpn, struct qp_event *out, uint32_t max, uint64_t *now_ns);

struct inspect_cq {
	uint64_t number, session;
	char program[CTL_NAME_BYTES];
	struct cq_view v;
};
/** @return 0 or ENOENT. */
int inspect_cq(struct control *c, uint64_t number, struct inspect_cq *out);

struct inspect_mr {
	uint32_t key;
	uint64_t session;
	char program[CTL_NAME_BYTES];
	uint32_t pd, access;           /**< UROCE_ACCESS_* */
	uint64_t addr, iova, length;
	uint64_t mapped_bytes;         /**< part of it that is mapped in the daemon; the kernel copies the rest */
	uint32_t segments, windows;    /**< number of segments; memory windows bound to it */
};
/** @return 0 or ENOENT. */
int inspect_mr(struct control *c, uint32_t key, struct inspect_mr *out);

struct inspect_engine {
	unsigned int id;
	uint64_t now_ns;
	struct engine_stats stats;
	struct tp_counters transport;
	struct engine_depths depths;   /**< what is waiting now */
	uint64_t stalls, control_stalls; /**< turns of the engine, and of the control thread, that took longer than STALL_MS */
	uint32_t load_percent;         /**< share of busy cycles between the last two calls of inspect_tick() */
};
/** @return 0 or ENOENT. */
int inspect_engine(struct control *c, unsigned int id, struct inspect_engine *out);
/** Add up what lib/net counted of a port on all engines. Any thread, without control_lock(). */
void inspect_net_counters(const struct control *c, unsigned int port, struct net_counters *sum);

#endif /* UROCE_INSPECT_H */
