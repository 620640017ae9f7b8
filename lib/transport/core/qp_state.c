/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ibv_modify_qp() may do to a QP: the state table (11.2.5.2, table 91; man ibv_modify_qp; the same
 * facts as drivers/infiniband/core/verbs.c has for every Linux device) and the attributes' ranges.
 */
#include <errno.h>

#include "transport/transport.h"
#include "wire/wire.h"

#define QP_STATES(X) X(RESET) X(INIT) X(RTR) X(RTS) X(SQD) X(SQE) X(ERR)

const char *
qp_state_name(enum uroce_qp_state s)
{
	static const char *const names[UROCE_QPS_STATES] = {
#define X(n) [UROCE_QPS_##n] = #n,
		QP_STATES(X)
#undef X
	};

	return (unsigned int)s < UROCE_QPS_STATES ? names[s] : "?";
}

static const char *const bad_transition[UROCE_QPS_STATES][UROCE_QPS_STATES] = {
#define X(from) [UROCE_QPS_##from] = { \
	[UROCE_QPS_RESET] = #from " to RESET is not a legal transition", \
	[UROCE_QPS_INIT] = #from " to INIT is not a legal transition", \
	[UROCE_QPS_RTR] = #from " to RTR is not a legal transition", \
	[UROCE_QPS_RTS] = #from " to RTS is not a legal transition", \
	[UROCE_QPS_SQD] = #from " to SQD is not a legal transition", \
	[UROCE_QPS_SQE] = #from " to SQE is not a legal transition", \
	[UROCE_QPS_ERR] = #from " to ERR is not a legal transition", },
	QP_STATES(X)
#undef X
};

/* Columns of the transition table. */
enum qp_column { COL_RC, COL_UC, COL_UD, COL_GSI, COL_XRC_SEND, COL_XRC_RECV, COLS };

static int
qp_column(enum uroce_qp_type type)
{
	switch (type) {
	case UROCE_QPT_RC:
		return COL_RC;
	case UROCE_QPT_UC:
		return COL_UC;
	case UROCE_QPT_UD:
		return COL_UD;
	case UROCE_QPT_GSI:
		return COL_GSI;
	case UROCE_QPT_XRC_SEND:
		return COL_XRC_SEND;
	case UROCE_QPT_XRC_RECV:
		return COL_XRC_RECV;
	}
	return -1;
}

/* Abbreviations to keep the tables readable. */
enum {
	CUR = UROCE_QP_CUR_STATE,
	SQDN = UROCE_QP_EN_SQD_ASYNC_NOTIFY,
	ACC = UROCE_QP_ACCESS_FLAGS,
	PKEY = UROCE_QP_PKEY_INDEX,
	PORT = UROCE_QP_PORT,
	QKEY = UROCE_QP_QKEY,
	AV = UROCE_QP_AV,
	MTU = UROCE_QP_PATH_MTU,
	TMO = UROCE_QP_TIMEOUT,
	RETRY = UROCE_QP_RETRY_CNT,
	RNR = UROCE_QP_RNR_RETRY,
	RPSN = UROCE_QP_RQ_PSN,
	MRD = UROCE_QP_MAX_QP_RD_ATOMIC,
	ALT = UROCE_QP_ALT_PATH,
	RNRT = UROCE_QP_MIN_RNR_TIMER,
	SPSN = UROCE_QP_SQ_PSN,
	MDRD = UROCE_QP_MAX_DEST_RD_ATOMIC,
	MIG = UROCE_QP_PATH_MIG_STATE,
	DQPN = UROCE_QP_DEST_QPN,
};

/* One transition: the QP types that have it, its required and its optional attributes. */
struct qp_transition {
	uint8_t columns; /* bit per enum qp_column */
	uint32_t req[COLS], opt[COLS];
};
#define ALL_TYPES ((1 << COLS) - 1)

/* What RESET to INIT requires, INIT to INIT may change. */
#define INIT_ATTRS \
	{ \
		[COL_RC] = PKEY | PORT | ACC, \
		[COL_UC] = PKEY | PORT | ACC, \
		[COL_UD] = PKEY | PORT | QKEY, \
		[COL_GSI] = PKEY | QKEY, \
		[COL_XRC_SEND] = PKEY | PORT | ACC, \
		[COL_XRC_RECV] = PKEY | PORT | ACC, \
	}

/* What may change on the way to RTS, from RTR, RTS and SQD. */
#define RTS_OPTIONAL_ATTRS \
	{ \
		[COL_RC] = CUR | ALT | ACC | RNRT | MIG, \
		[COL_UC] = CUR | ALT | ACC | MIG, \
		[COL_UD] = CUR | QKEY, \
		[COL_GSI] = CUR | QKEY, \
		[COL_XRC_SEND] = CUR | ALT | ACC | MIG, \
		[COL_XRC_RECV] = CUR | ALT | ACC | RNRT | MIG, \
	}

/* RESET and ERR can be entered from every state, without attributes; they aren't in this table. */
static const struct qp_transition transitions[UROCE_QPS_STATES][UROCE_QPS_STATES] = {
	[UROCE_QPS_RESET][UROCE_QPS_INIT] = {
		.columns = ALL_TYPES,
		.req = INIT_ATTRS,
	},
	[UROCE_QPS_INIT][UROCE_QPS_INIT] = {
		.columns = ALL_TYPES,
		.opt = INIT_ATTRS,
	},
	[UROCE_QPS_INIT][UROCE_QPS_RTR] = {
		.columns = ALL_TYPES,
		.req = {
			[COL_RC] = AV | MTU | DQPN | RPSN | MDRD | RNRT,
			[COL_UC] = AV | MTU | DQPN | RPSN,
			[COL_XRC_SEND] = AV | MTU | DQPN | RPSN,
			[COL_XRC_RECV] = AV | MTU | DQPN | RPSN | MDRD | RNRT,
		},
		.opt = {
			[COL_RC] = ALT | ACC | PKEY,
			[COL_UC] = ALT | ACC | PKEY,
			[COL_UD] = PKEY | QKEY,
			[COL_GSI] = PKEY | QKEY,
			[COL_XRC_SEND] = ALT | ACC | PKEY,
			[COL_XRC_RECV] = ALT | ACC | PKEY,
		},
	},
	[UROCE_QPS_RTR][UROCE_QPS_RTS] = {
		.columns = ALL_TYPES,
		.req = {
			[COL_RC] = TMO | RETRY | RNR | SPSN | MRD,
			[COL_UC] = SPSN,
			[COL_UD] = SPSN,
			[COL_GSI] = SPSN,
			[COL_XRC_SEND] = TMO | RETRY | RNR | SPSN | MRD,
			[COL_XRC_RECV] = TMO | SPSN,
		},
		.opt = RTS_OPTIONAL_ATTRS,
	},
	[UROCE_QPS_RTS][UROCE_QPS_RTS] = {
		.columns = ALL_TYPES,
		.opt = RTS_OPTIONAL_ATTRS,
	},
	[UROCE_QPS_RTS][UROCE_QPS_SQD] = {
		.columns = ALL_TYPES,
		.opt = {
			[COL_RC] = SQDN,
			[COL_UC] = SQDN,
			[COL_UD] = SQDN,
			[COL_GSI] = SQDN,
			[COL_XRC_SEND] = SQDN,
			[COL_XRC_RECV] = SQDN,
		},
	},
	[UROCE_QPS_SQD][UROCE_QPS_RTS] = {
		.columns = ALL_TYPES,
		.opt = RTS_OPTIONAL_ATTRS,
	},
	[UROCE_QPS_SQD][UROCE_QPS_SQD] = {
		.columns = ALL_TYPES,
		.opt = {
			[COL_RC] = PORT | AV | TMO | RETRY | RNR | MRD | MDRD | ALT | ACC | PKEY | RNRT | MIG,
			[COL_UC] = AV | ALT | ACC | PKEY | MIG,
			[COL_UD] = PKEY | QKEY,
			[COL_GSI] = PKEY | QKEY,
			[COL_XRC_SEND] = PORT | AV | TMO | RETRY | RNR | MRD | ALT | ACC | PKEY | MIG,
			[COL_XRC_RECV] = PORT | AV | TMO | MDRD | ALT | ACC | PKEY | RNRT | MIG,
		},
	},
	/* QP types whose send errors lead to ERR are never in SQE. */
	[UROCE_QPS_SQE][UROCE_QPS_RTS] = {
		.columns = 1 << COL_UC | 1 << COL_UD | 1 << COL_GSI,
		.opt = {
			[COL_UC] = CUR | ACC,
			[COL_UD] = CUR | QKEY,
			[COL_GSI] = CUR | QKEY,
		},
	},
};

#define QP_ACCESS_KNOWN \
	(UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | \
	 UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_MW_BIND | UROCE_ACCESS_ZERO_BASED | UROCE_ACCESS_ON_DEMAND | \
	 UROCE_ACCESS_HUGETLB | UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT | \
	 UROCE_ACCESS_OPTIONAL_RANGE)

enum {
	QP_TIMEOUT_MAX = 31,   /* 5-bit fields of the CM's messages and of the AETH */
	QP_RNR_TIMER_MAX = 31,
	QP_RETRY_MAX = 7,
	QP_SL_MAX = 7,         /* a VLAN priority */
	QP_PORT_NUM = 1,
	QP_REARM = 1,          /* IBV_MIG_REARM; before it IBV_MIG_MIGRATED */
};

static const char *
check_av(const struct uroce_ah_attr *ah)
{
	if (!ah->is_global)
		return "ah_attr.is_global must be 1: RoCE addresses are always GIDs";
	if (ah->port_num != QP_PORT_NUM)
		return "ah_attr.port_num must be 1";
	if (ah->sgid_index >= UROCE_MAX_GIDS)
		return "ah_attr.grh.sgid_index is beyond the GID table";
	if (ah->sl > QP_SL_MAX)
		return "ah_attr.sl must be 0 to 7";
	if (gid_is_zero(gid_at(ah->dgid)))
		return "ah_attr.grh.dgid must not be zero";
	return NULL;
}

static const char *
check_alternate(const struct uroce_qp_attr *a)
{
	if (check_av(&a->alt_ah) != NULL)
		return "alt_ah_attr: is_global and port_num must be 1, GID index, SL and flow label in range, dgid not zero";
	if (a->alt_pkey_index >= UROCE_MAX_PKEYS)
		return "alt_pkey_index is beyond the P_Key table";
	if (a->alt_port_num != QP_PORT_NUM)
		return "alt_port_num must be 1: a device has one port, an alternate path other addresses";
	return a->alt_timeout <= QP_TIMEOUT_MAX ? NULL : "alt_timeout must be 0 to 31";
}

/* Every attribute except STATE and CUR_STATE, with its check and the error text. */
#define RANGE(cond, text) ((cond) ? NULL : (text))
#define QP_ATTRS(X) \
	X(EN_SQD_ASYNC_NOTIFY, RANGE(a->en_sqd_async_notify <= 1, "en_sqd_async_notify must be 0 or 1")) \
	X(ACCESS_FLAGS, RANGE((a->qp_access_flags & ~(uint32_t)QP_ACCESS_KNOWN) == 0, \
			      "qp_access_flags has unknown bits")) \
	X(PKEY_INDEX, RANGE(a->pkey_index < UROCE_MAX_PKEYS, "pkey_index is beyond the P_Key table")) \
	X(PORT, RANGE(a->port_num == QP_PORT_NUM, "port_num must be 1")) \
	X(QKEY, NULL) \
	X(AV, check_av(&a->ah)) \
	X(PATH_MTU, RANGE(a->path_mtu >= UROCE_MTU_256 && a->path_mtu <= max_mtu, \
			  "path_mtu must be IBV_MTU_256 to the port's active MTU")) \
	X(TIMEOUT, RANGE(a->timeout <= QP_TIMEOUT_MAX, "timeout must be 0 to 31")) \
	X(RETRY_CNT, RANGE(a->retry_cnt <= QP_RETRY_MAX, "retry_cnt must be 0 to 7")) \
	X(RNR_RETRY, RANGE(a->rnr_retry <= QP_RETRY_MAX, "rnr_retry must be 0 to 7")) \
	X(RQ_PSN, RANGE(a->rq_psn <= WIRE_PSN_MASK, "rq_psn must have 24 bits")) \
	X(MAX_QP_RD_ATOMIC, RANGE(a->max_rd_atomic <= UROCE_MAX_RD_ATOMIC, \
				  "max_rd_atomic is more than the device's max_qp_init_rd_atom")) \
	X(ALT_PATH, check_alternate(a)) \
	X(MIN_RNR_TIMER, RANGE(a->min_rnr_timer <= QP_RNR_TIMER_MAX, "min_rnr_timer must be 0 to 31")) \
	X(SQ_PSN, RANGE(a->sq_psn <= WIRE_PSN_MASK, "sq_psn must have 24 bits")) \
	X(MAX_DEST_RD_ATOMIC, RANGE(a->max_dest_rd_atomic <= UROCE_MAX_RD_ATOMIC, \
				    "max_dest_rd_atomic is more than the device's max_qp_rd_atom")) \
	X(PATH_MIG_STATE, RANGE(a->path_mig_state <= QP_REARM, \
				"path_mig_state must be IBV_MIG_MIGRATED or IBV_MIG_REARM: the QP becomes ARMED by itself")) \
	X(CAP, NULL) \
	X(DEST_QPN, RANGE(a->dest_qp_num <= WIRE_PSN_MASK, "dest_qp_num must have 24 bits")) \
	X(RATE_LIMIT, NULL)

static const char *
missing(uint32_t bits)
{
#define X(name, range) \
	if (bits & UROCE_QP_##name) \
		return "IBV_QP_" #name " is required for this transition";
	QP_ATTRS(X)
#undef X
	return "an attribute is missing";
}

static const char *
not_allowed(uint32_t bits)
{
	if (bits & UROCE_QP_CUR_STATE)
		return "IBV_QP_CUR_STATE is not allowed in this transition";
#define X(name, range) \
	if (bits & UROCE_QP_##name) \
		return "IBV_QP_" #name " is not allowed in this transition";
	QP_ATTRS(X)
#undef X
	return "unknown bit in the attribute mask";
}

static const char *
out_of_range(const struct uroce_qp_attr *a, uint32_t mask, uint32_t max_mtu)
{
	const char *why;

#define X(name, range) \
	if ((mask & UROCE_QP_##name) && (why = (range)) != NULL) \
		return why;
	QP_ATTRS(X)
#undef X
	return NULL;
}

static const char *
check(enum uroce_qp_type type, enum uroce_qp_state cur, const struct uroce_qp_attr *attr, uint32_t mask,
      uint32_t max_mtu)
{
	static const struct qp_transition stop = { .columns = ALL_TYPES };
	uint32_t next = (mask & UROCE_QP_STATE) ? attr->qp_state : cur;
	const struct qp_transition *t;
	int col = qp_column(type);

	if (col < 0)
		return "unknown QP type";
	if ((unsigned int)cur >= UROCE_QPS_STATES || next >= UROCE_QPS_STATES)
		return "qp_state is not a QP state";
	UROCE_ASSERT(next < UROCE_QPS_STATES);
	/* The caller's idea of the current state: lets it notice that the QP went to SQE or ERR meanwhile. */
	if ((mask & UROCE_QP_CUR_STATE) && attr->cur_qp_state != cur)
		return "cur_qp_state is not the QP's current state";

	t = next == UROCE_QPS_RESET || next == UROCE_QPS_ERR ? &stop : &transitions[cur][next];
	if ((t->columns & 1 << col) == 0)
		return bad_transition[cur][next];
	mask &= ~(uint32_t)UROCE_QP_STATE;
	if (t->req[col] & ~mask)
		return missing(t->req[col] & ~mask);
	if (mask & ~(t->req[col] | t->opt[col]))
		return not_allowed(mask & ~(t->req[col] | t->opt[col]));
	return out_of_range(attr, mask, max_mtu);
}

int
qp_modify_check(enum uroce_qp_type type, enum uroce_qp_state cur, const struct uroce_qp_attr *attr, uint32_t mask,
		uint32_t max_mtu, const char **why)
{
	const char *wrong = check(type, cur, attr, mask, max_mtu);

	if (wrong == NULL)
		return 0;
	if (why != NULL)
		*why = wrong;
	return EINVAL;
}
