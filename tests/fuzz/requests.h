/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Requests of the control protocol (lib/ring/ctl.h) as those make them who test with random ones: which fields are handles, and which objects
 * a client has made.
 *
 * Used by the fuzz targets and by tests/verbs/hostile/storm. libc only. Thread: one for each struct request_handles.
 */
#ifndef UROCE_FUZZ_REQUESTS_H
#define UROCE_FUZZ_REQUESTS_H

#include "ring/ctl.h"

enum {
	REQUEST_HANDLES = 8,       /**< of one kind that a client remembers */
	REQUEST_REFS = 4,          /**< fields of a request that are handles, at most */
	REQUEST_SHAPES = 60,
	REQUEST_HANDLE_ANY = 0xf0, /**< from here on a byte is a handle itself, not the number of one */
};

/** What a client's handles are of. */
enum request_kind { H_PD, H_MR, H_MW, H_DM, H_CQ, H_SRQ, H_QP, H_QPN, H_AH, H_XRCD, H_ID, H_GROUP, H_CHANNEL, H_KINDS };

/** Objects that a client made, and perhaps destroyed meanwhile. */
struct request_handles {
	uint32_t of[H_KINDS][REQUEST_HANDLES];
	unsigned int nb[H_KINDS]; /**< made so far; the last REQUEST_HANDLES of them are remembered */
};

/** Which fields of a request are handles. */
struct request_shape {
	uint8_t op, n;
	struct {
		uint16_t at; /**< offset in struct ctl_req */
		uint8_t kind;
	} ref[REQUEST_REFS];
};
/** Of every request but MR_REG and MR_SEGS, which have segments. */
extern const struct request_shape request_shapes[REQUEST_SHAPES];

/** Put a handle of @p kind in the place of the byte at offset @p at of @p q: the one that this byte chooses. */
void request_put_handle(const struct request_handles *h, struct ctl_req *q, uint16_t at, enum request_kind kind);
void request_remember(struct request_handles *h, enum request_kind kind, uint32_t handle);
/** Remember what a reply without an error says: the handle of a new object. */
void request_note(struct request_handles *h, const struct ctl_rsp *r);

#endif /* UROCE_FUZZ_REQUESTS_H */
