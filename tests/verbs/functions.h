/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of verbs_functions share: a row for each function of libibverbs. The linker puts the rows of all files
 * together, in the order of the files.
 */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include "vt.h"

#ifndef UROCE_VERBS_H_HAS_FLUSH
/* As the headers of rdma-core 46 and later have it, for a build with older ones. */
enum { IBV_ACCESS_FLUSH_GLOBAL = 1 << 8, IBV_QP_EX_WITH_FLUSH = 1 << 11, IBV_FLUSH_GLOBAL = 1 << 0, IBV_FLUSH_RANGE = 0 };

struct qp_ex_later {
	struct ibv_qp_ex before;
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level);
};

static inline void
ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len, uint8_t type, uint8_t level)
{
	((struct qp_ex_later *)qp)->wr_flush(qp, rkey, remote_addr, len, type, level);
}
#endif

/** What a call returns beside 0 and errno values. */
enum { WRONG = -1, NONE = -2 /* an object that can't be had is its argument */ };

struct row {
	const char *name, *why;
	/** @return 0: works; an errno value: refused; WRONG; NONE. */
	int (*fn)(struct vt *t);
};
#define FN_WHY(name, why) \
	static int call_##name(struct vt *t); \
	static const struct row row_##name __attribute__((section("rows"), used, aligned(8))) = { #name, why, call_##name }; \
	static int call_##name(struct vt *t)
#define FN(name) FN_WHY(name, NULL)
#define NEED(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: " #cond ": %s\n", __FILE__, __LINE__, strerror(errno)); \
			return WRONG; \
		} \
	} while (0)
/* For a function that returns an object: refused, with errno, if it is NULL. */
#define OR_ERRNO(p) \
	do { \
		if ((p) == NULL) \
			return errno != 0 ? errno : WRONG; \
	} while (0)

/** What the calls use: two RC QPs that are connected to each other, their CQ, an AH to ourselves, eight bytes of the buffer. */
extern struct ibv_cq_ex *cq_ex;
extern struct ibv_cq *cq;
extern struct ibv_qp *qp, *peer;
extern struct ibv_qp_ex *x;
extern struct ibv_ah *ah;
extern uint64_t *word;

/** A QP in RESET. @param ops  IBV_QP_EX_WITH_*. @return NULL with errno set */
struct ibv_qp *make_qp(struct vt *t, enum ibv_qp_type type, uint64_t ops);

#endif /* FUNCTIONS_H */
