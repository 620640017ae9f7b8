/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The layout of slots of an SQ, RQ or SRQ. Programs write slots with the put helpers and engines read them with the get
 * helpers; no other code computes positions in a slot. Part of the ABI of ring.h; tests/unit/ring/test_wqe.c checks
 * every byte.
 *
 *	SQ    struct ring_sq_wqe, 32 bytes
 *	      block of operands, 16 bytes, for opcodes in WR_OPS_WITH_BLOCK
 *	      SGEs, 16 bytes each, or inline data
 *	RQ    struct ring_rq_wqe, 16 bytes
 *	      SGEs, 16 bytes each
 *
 * A field that a program can still change while an engine uses it is read once, by a volatile access, so that the value
 * checked is the value used. The control word says what a slot contains; it is read and stored as a whole.
 *
 * Owns: constants and formats only. Thread: put helpers: the queue's owner, before the slot's control word is stored;
 * get helpers: the engine, after it has loaded that word.
 */
#ifndef UROCE_WQE_H
#define UROCE_WQE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ring/abi.h"

/** A scatter/gather entry in a slot. */
struct ring_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* ---- SQ ---- */
/** Control word of an SQ slot; stored last. */
union ring_sq_ctl {
	struct {
		uint8_t opcode;     /**< enum uroce_wr_op */
		uint8_t flags;      /**< UROCE_SEND_* */
		uint16_t count;     /**< num_sge, or with UROCE_SEND_INLINE the bytes of inline data */
		uint32_t phase : 8; /**< ring_phase() */
		uint32_t srqn : 24; /**< XRC: the remote SRQ */
	};
	uint64_t word;
};

/** Where the phase is in that word. */
#define RING_SQ_PHASE_SHIFT 32

/** @return a control word without its phase, made as one word (ring_cqe_ctl_make()). @param srqn  24 bits */
static inline union ring_sq_ctl
ring_sq_ctl_make(uint8_t opcode, uint8_t flags, uint16_t count, uint32_t srqn)
{
	return (union ring_sq_ctl){ .word = opcode | (uint32_t)flags << 8 | (uint32_t)count << 16 | (uint64_t)srqn << 40 };
}

/** Header of an SQ slot. The stride is a power of two, at least 64. */
struct ring_sq_wqe {
	uint64_t wr_id;
	uint64_t remote_addr; /**< RDMA, atomics; UD: AH handle in the low, remote QPN in the high half; BIND_MW: address */
	uint32_t rkey;        /**< RDMA, atomics; UD: remote Q_Key; BIND_MW: the MW's new key */
	uint32_t imm;         /**< network byte order; SEND_WITH_INV, LOCAL_INV: the key, host byte order */
	_Atomic uint64_t ctl; /**< union ring_sq_ctl */
};

/** Operands of atomics. */
struct ring_atomic {
	uint64_t compare_add;
	uint64_t swap;
};

/** Operands of BIND_MW. */
struct ring_bind {
	uint64_t length; /**< bytes */
	uint32_t lkey;   /**< of the MR that the MW gives access to */
	uint32_t access; /**< UROCE_ACCESS_* */
};

/** Operands of FLUSH, which has no SGEs. */
struct ring_flush {
	uint32_t length; /**< bytes of the range at remote_addr; ignored with UROCE_FLUSH_MR */
	uint8_t type;    /**< UROCE_FLUSH_GLOBAL, UROCE_FLUSH_PERSISTENT */
	uint8_t level;   /**< UROCE_FLUSH_RANGE, UROCE_FLUSH_MR */
	uint8_t reserved[10];
};

/** The destination of a UD message. */
struct ring_ud {
	uint32_t ah;   /**< handle */
	uint32_t qpn;
	uint32_t qkey;
};

/** @return true if the opcode has a block of operands between header and SGEs. Any number may be passed. */
static inline bool
wqe_has_block(uint8_t opcode)
{
	return opcode < UROCE_WR_OPS && (WR_OPS_WITH_BLOCK >> opcode & 1) != 0;
}

/** @return the size in bytes of an SQ slot for @p max_sge SGEs or @p max_inline bytes: a power of two, at least 64. */
static inline uint32_t
ring_sq_stride(uint32_t max_sge, uint32_t max_inline)
{
	uint32_t need = sizeof(struct ring_sq_wqe) + sizeof(struct ring_atomic) + max_sge * sizeof(struct ring_sge);
	uint32_t stride = 64;

	if (max_inline + sizeof(struct ring_sq_wqe) > need)
		need = max_inline + sizeof(struct ring_sq_wqe);
	while (stride < need)
		stride <<= 1;
	return stride;
}

/** Put: remote address and key of RDMA, atomics and FLUSH; for BIND_MW the range's address and the MW's new key. */
static inline void
wqe_put_remote(struct ring_sq_wqe *w, uint64_t addr, uint32_t rkey)
{
	w->remote_addr = addr;
	w->rkey = rkey;
}

/** Put: operands of an atomic, in addition to remote address and key; fetch-and-add has one. */
static inline void
wqe_put_atomic(struct ring_sq_wqe *w, uint64_t compare_add, uint64_t swap)
{
	*(struct ring_atomic *)(w + 1) = (struct ring_atomic){ compare_add, swap };
}

/** Put: operands of BIND_MW, in addition to the range's address and the MW's new key. */
static inline void
wqe_put_bind(struct ring_sq_wqe *w, uint64_t length, uint32_t lkey, uint32_t access)
{
	*(struct ring_bind *)(w + 1) = (struct ring_bind){ .length = length, .lkey = lkey, .access = access };
}

/** Put: operands of FLUSH, in addition to remote address and key. */
static inline void
wqe_put_flush(struct ring_sq_wqe *w, uint32_t length, uint8_t type, uint8_t level)
{
	*(struct ring_flush *)(w + 1) = (struct ring_flush){ .length = length, .type = type, .level = level };
}

/** Put: destination of a UD message. */
static inline void
wqe_put_ud(struct ring_sq_wqe *w, uint32_t ah, uint32_t qpn, uint32_t qkey)
{
	wqe_put_remote(w, ah | (uint64_t)qpn << 32, qkey);
}

/** Put: immediate data in network byte order, or the key of SEND_WITH_INV or LOCAL_INV in host byte order. */
static inline void
wqe_put_imm(struct ring_sq_wqe *w, uint32_t imm_or_key)
{
	w->imm = imm_or_key;
}

/** @return the first SGE of an SQ slot; an engine must read it with wqe_get_sge(). */
static inline struct ring_sge *
wqe_sges(const struct ring_sq_wqe *w, uint8_t opcode)
{
	const uint8_t *p = (const uint8_t *)(w + 1);

	return (struct ring_sge *)(uintptr_t)(p + (wqe_has_block(opcode) ? sizeof(struct ring_atomic) : 0));
}

/** @return the first byte of inline data. No opcode has both inline data and a block of operands. */
static inline uint8_t *
wqe_inline(const struct ring_sq_wqe *w)
{
	return (uint8_t *)(uintptr_t)(w + 1);
}
static_assert((WR_OPS_WITH_BLOCK & WR_OPS_WITH_INLINE) == 0, "inline data begins right behind the header");

/** Get: remote address. */
static inline uint64_t
wqe_get_remote_addr(const struct ring_sq_wqe *w)
{
	return *(const volatile uint64_t *)&w->remote_addr;
}

/** Get: remote key; for BIND_MW the MW's new one. */
static inline uint32_t
wqe_get_rkey(const struct ring_sq_wqe *w)
{
	return *(const volatile uint32_t *)&w->rkey;
}

/** Get: immediate data in network byte order, or the key of SEND_WITH_INV and LOCAL_INV. */
static inline uint32_t
wqe_get_imm(const struct ring_sq_wqe *w)
{
	return *(const volatile uint32_t *)&w->imm;
}

/** Get: destination of a UD message. */
static inline struct ring_ud
wqe_get_ud(const struct ring_sq_wqe *w)
{
	uint64_t to = wqe_get_remote_addr(w);

	return (struct ring_ud){ .ah = (uint32_t)to, .qpn = to >> 32 & 0xffffff, .qkey = wqe_get_rkey(w) };
}

/** Get: operands of an atomic. */
static inline struct ring_atomic
wqe_get_atomic(const struct ring_sq_wqe *w)
{
	const volatile struct ring_atomic *a = (const void *)(w + 1);

	return (struct ring_atomic){ .compare_add = a->compare_add, .swap = a->swap };
}

/** Get: operands of BIND_MW. */
static inline struct ring_bind
wqe_get_bind(const struct ring_sq_wqe *w)
{
	const volatile struct ring_bind *b = (const void *)(w + 1);

	return (struct ring_bind){ .length = b->length, .lkey = b->lkey, .access = b->access };
}

/** Get: operands of FLUSH. */
static inline struct ring_flush
wqe_get_flush(const struct ring_sq_wqe *w)
{
	const volatile struct ring_flush *f = (const void *)(w + 1);

	return (struct ring_flush){ .length = f->length, .type = f->type, .level = f->level };
}

/** Get: an SGE of any queue. */
static inline struct ring_sge
wqe_get_sge(const struct ring_sge *sge)
{
	const volatile struct ring_sge *s = sge;

	return (struct ring_sge){ .addr = s->addr, .length = s->length, .lkey = s->lkey };
}

/** Get: only the length of an SGE. */
static inline uint32_t
wqe_get_sge_length(const struct ring_sge *sge)
{
	return *(const volatile uint32_t *)&sge->length;
}

/** Get: the peer's SRQ to which an XRC request is addressed. */
static inline uint32_t
wqe_get_srqn(const struct ring_sq_wqe *w)
{
	union ring_sq_ctl ctl = { .word = atomic_load_explicit(&w->ctl, memory_order_relaxed) };

	return ctl.srqn;
}

/* ---- RQ and SRQ ---- */
/** Control word of an RQ or SRQ slot; stored last. */
union ring_rq_ctl {
	struct {
		uint16_t num_sge;
		uint8_t reserved[5];
		uint8_t phase;
	};
	uint64_t word;
};

/** An RQ or SRQ slot. The stride is a power of two, at least 32. */
struct ring_rq_wqe {
	uint64_t wr_id;
	_Atomic uint64_t ctl; /**< union ring_rq_ctl */
	struct ring_sge sge[];
};

/** @return the size in bytes of an RQ slot for @p max_sge SGEs: a power of two, at least 32. */
static inline uint32_t
ring_rq_stride(uint32_t max_sge)
{
	uint32_t need = sizeof(struct ring_rq_wqe) + max_sge * sizeof(struct ring_sge);
	uint32_t stride = 32;

	while (stride < need)
		stride <<= 1;
	return stride;
}

static_assert(sizeof(struct ring_sge) == 16, "ABI");
static_assert(sizeof(union ring_sq_ctl) == 8 && sizeof(struct ring_sq_wqe) == 32, "ABI");
static_assert(sizeof(struct ring_atomic) == 16 && sizeof(struct ring_bind) == 16 && sizeof(struct ring_flush) == 16, "ABI");
static_assert(sizeof(union ring_rq_ctl) == 8 && sizeof(struct ring_rq_wqe) == 16, "ABI");

#endif /* UROCE_WQE_H */
