/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Verbs objects that the user made, by their names: pd1, mr1, qp1 ... Numbers of a kind count up and are used again only after
 * everything of that kind is gone.
 *
 * Thread: main lcore.
 */
#ifndef UROCE_TEST_OBJECTS_H
#define UROCE_TEST_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "uroce_verbs.h"

#include "hosts.h"
#include "transport/diag/diag.h"

enum object_kind { OBJECT_PD, OBJECT_MR, OBJECT_CQ, OBJECT_SRQ, OBJECT_QP, OBJECT_AH, OBJECT_MW, OBJECT_XRCD, OBJECT_KINDS };
enum {
	OBJECTS_MAX = 4096, /**< of all kinds */
	OBJECT_NAME_BYTES = 16,
	PSN_MASK = 0xffffff,
	OBJECT_UD_QKEY = 0x11111111, /**< of UD QPs that nobody gave another */
};

/** How a QP is connected. */
struct connect_attr {
	enum ibv_mtu mtu;      /**< 0: the port's */
	unsigned int sgid_index;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t rd_atomic;
	int access;            /**< IBV_ACCESS_* */
};

/** The other end of a QP. */
struct object_peer {
	bool known;
	struct object *qp; /**< in this process, else NULL */
	uint32_t qpn, psn;
	struct gid gid;
	uint64_t addr; /**< memory that may be read and written there; 0: not known */
	uint64_t length;
	uint32_t rkey;
};

struct object {
	char name[OBJECT_NAME_BYTES];
	enum object_kind kind;
	struct host *host;
	struct object *pd, *cq, *recv_cq, *srq, *xrcd; /**< what it was made of; NULL: nothing of that kind */
	unsigned int users;                     /**< objects made of it */
	union {
		void *any;
		struct ibv_pd *pd;
		struct ibv_mr *mr;
		struct ibv_cq *cq;
		struct ibv_srq *srq;
		struct ibv_qp *qp;
		struct ibv_ah *ah;
		struct ibv_mw *mw;
		struct ibv_xrcd *xrcd;
	} v;
	/* MR */
	uint8_t *memory;
	size_t bytes;
	/* CQ */
	uint64_t number;      /**< the stack's; 0: not known */
	/* QP */
	struct object_peer peer;
	struct connect_attr connect; /**< how it was connected with peer */
	uint32_t psn;         /**< its first */
	uint32_t recv_wr;     /**< depth of its receive queue */
	uint32_t busy;        /**< workloads that run on it */
};

/** @return "pd", "mr" ... */
const char *object_kind_name(enum object_kind k);
/** Give a new object a name. @return NULL: OBJECTS_MAX are there. */
struct object *object_new(enum object_kind k, struct host *h);
/** Destroy what is behind it, then itself. @return 0 or an errno value: it stays. */
int object_destroy(struct object *o);
/** In the order in which they can go. */
void objects_destroy_all(void);
/** @return NULL: there is none. */
struct object *object_find(enum object_kind k, const char *name);
/** @return the name of the QP with QPN @p number, the MR with that key or the CQ that has it in the stack; "-": there is none. */
const char *object_name(enum object_kind k, const struct host *h, uint64_t number);
/** @return the @p i-th of its kind, NULL: no more. */
struct object *object_at(enum object_kind k, unsigned int i);
/** Note that @p o was made of @p of, which may be NULL. @return @p of. */
struct object *object_use(struct object *of);

/* Names of each kind, for tables of arguments. */
const char *pd_names(unsigned int i);
const char *mr_names(unsigned int i);
const char *cq_names(unsigned int i);
const char *srq_names(unsigned int i);
const char *qp_names(unsigned int i);
const char *ah_names(unsigned int i);
const char *mw_names(unsigned int i);
const char *xrcd_names(unsigned int i);

/** "RESET" ... @return "?" for a wrong number. */
#define qp_state_text(s) qp_state_name((enum uroce_qp_state)(s))
/** "RC" ... */
#define qp_type_text(t) qp_type_name((enum uroce_qp_type)(t))
enum ibv_qp_state object_qp_state(const struct object *qp);

/* ---- connect.c: taking a QP to RTS ---- */
/** What most people want. */
extern const struct connect_attr connect_defaults;
/**
 * Move a QP that is in RESET to RTS.
 * @param peer  NULL for UD.
 * @param psn  Its own first PSN.
 * @param step  Gets the state that couldn't be entered, if one couldn't.
 * @return 0 or an errno value.
 */
int connect_qp(struct ibv_qp *qp, const struct connect_attr *a, uint32_t psn, const struct object_peer *peer, const char **step);

#endif /* UROCE_TEST_OBJECTS_H */
