/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Verbs objects that the user created, by name: pd1, mr1, qp1 ... The numbers of a kind increase, and start again only
 * when all objects of that kind are destroyed.
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
	OBJECT_UD_QKEY = 0x11111111, /**< Q_Key of UD QPs if the user gives none */
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
	struct object *qp; /**< if it is in this process, else NULL */
	uint32_t qpn, psn;
	struct gid gid;
	uint64_t addr; /**< memory of the peer that may be read and written; 0: unknown */
	uint64_t length;
	uint32_t rkey;
};

struct object {
	char name[OBJECT_NAME_BYTES];
	enum object_kind kind;
	struct host *host;
	struct object *pd, *cq, *recv_cq, *srq, *xrcd; /**< the objects that it uses; NULL: none of that kind */
	unsigned int users;                     /**< number of objects that use it */
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
	uint64_t number;      /**< the CQ's number in the stack; 0: unknown */
	/* QP */
	struct object_peer peer;
	struct connect_attr connect; /**< attributes that it was connected with */
	uint32_t psn;         /**< its first PSN */
	uint32_t recv_wr;     /**< depth of its receive queue */
	uint32_t busy;        /**< number of workloads that use it */
};

/** @return "pd", "mr" ... */
const char *object_kind_name(enum object_kind k);
/**
 * Register a new object under a name.
 * @return NULL: there are OBJECTS_MAX objects.
 */
struct object *object_new(enum object_kind k, struct host *h);
/**
 * Destroy the verbs object and then @p o.
 * @return 0; an errno value: it wasn't destroyed.
 */
int object_destroy(struct object *o);
/** Destroy all objects in an order that respects their dependencies. */
void objects_destroy_all(void);
/** @return NULL: there is none with that name. */
struct object *object_find(enum object_kind k, const char *name);
/**
 * @return the name of the QP with QPN @p number, the MR with that key or the CQ with that number in the stack; "-" if
 * there is none.
 */
const char *object_name(enum object_kind k, const struct host *h, uint64_t number);
/** @return the @p i-th of its kind, NULL: no more. */
struct object *object_at(enum object_kind k, unsigned int i);
/**
 * Note that a new object uses @p of, which may be NULL.
 * @return @p of.
 */
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

/* ---- connect.c: moving a QP to RTS ---- */
/** Attributes for most uses. */
extern const struct connect_attr connect_defaults;
/**
 * Move a QP from RESET to RTS.
 * @param peer  NULL for UD.
 * @param psn  Its own first PSN.
 * @param step  Set to the state that couldn't be entered.
 * @return 0 or an errno value.
 */
int connect_qp(struct ibv_qp *qp, const struct connect_attr *a, uint32_t psn, const struct object_peer *peer, const char **step);

#endif /* UROCE_TEST_OBJECTS_H */
