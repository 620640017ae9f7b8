/* SPDX-License-Identifier: BSD-3-Clause */
/* What memory must hold, from the operations that a program posted. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { TAIL_CHECK_BYTES = 64 };

bool
op_writes(const struct sim_op *op)
{
	return (op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM ||
		op->opcode == UROCE_WR_ATOMIC_WRITE) &&
	       !op->huge && op->plant == SIM_PLANT_NONE;
}

void
op_data(const struct sim_op *op, uint32_t off, uint32_t len, uint8_t *dst)
{
	unsigned int i;
	uint32_t n;

	if (op->copy != NULL) {
		memcpy(dst, op->copy + off, len);
		return;
	}
	for (i = 0; i < op->nsge && len != 0; i++) {
		if (off >= op->pieces[i].len) {
			off -= op->pieces[i].len;
			continue;
		}
		n = op->pieces[i].len - off < len ? op->pieces[i].len - off : len;
		memcpy(dst, op->pieces[i].p + off, n);
		dst += n;
		len -= n;
		off = 0;
	}
}

uint8_t *
scratch(unsigned int which, uint32_t bytes)
{
	static uint8_t *buf[2];
	static uint32_t size[2];

	if (bytes > size[which]) {
		size[which] = 2 * bytes;
		free(buf[which]);
		buf[which] = malloc(size[which]);
		if (buf[which] == NULL)
			abort();
	}
	return buf[which];
}

/* [off, off + len) of the area that q writes to at its peer, after all its operations below upto. */
static uint8_t *
target_after(const struct sim_qp *q, uint32_t upto, uint32_t off, uint32_t len)
{
	uint8_t *img = scratch(0, len + 1);
	uint32_t i, from, to;

	memset(img, 0, len);
	for (i = 0; i < upto; i++) {
		const struct sim_op *op = &q->ops[i];

		if (!op_writes(op) || op->target_off >= off + len || op->target_off + op->len <= off)
			continue;
		from = op->target_off > off ? op->target_off : off;
		to = op->target_off + op->len < off + len ? op->target_off + op->len : off + len;
		op_data(op, from - op->target_off, to - from, img + (from - off));
	}
	return img;
}

bool
may_be_written(const struct sim_qp *q, uint32_t from, uint32_t to, uint32_t off, uint8_t val)
{
	uint8_t b = 0;

	for (; from < to; from++) {
		const struct sim_op *op = &q->ops[from];

		if (!op_writes(op) || off < op->target_off || off >= op->target_off + op->len)
			continue;
		op_data(op, off - op->target_off, 1, &b);
		if (b == val)
			return true;
	}
	return false;
}

int64_t
target_compare(const struct sim_qp *q, const uint8_t *seen, uint32_t off, uint32_t len, uint32_t upto, uint32_t later)
{
	const uint8_t *img = target_after(q, upto, off, len);
	uint32_t i;

	if (memcmp(img, seen, len) == 0)
		return -1;
	for (i = 0; i < len; i++)
		if (img[i] != seen[i] && !may_be_written(q, upto, later, off + i, seen[i]))
			return i;
	return -1;
}

void
gather(const struct sim_piece *pieces, unsigned int n, uint32_t len, uint8_t *dst)
{
	unsigned int i;
	uint32_t k;

	for (i = 0; i < n && len != 0; i++) {
		k = pieces[i].len < len ? pieces[i].len : len;
		memcpy(dst, pieces[i].p, k);
		dst += k;
		len -= k;
	}
}

bool
is_zero(const uint8_t *p, uint32_t len)
{
	while (len-- != 0)
		if (*p++ != 0)
			return false;
	return true;
}

bool
around_is_clean(const struct sim_piece *pieces, unsigned int n, uint32_t len)
{
	uint32_t used, rest;
	unsigned int i;

	for (i = 0; i < n; i++) {
		used = pieces[i].len < len ? pieces[i].len : len;
		rest = pieces[i].len - used < TAIL_CHECK_BYTES ? pieces[i].len - used : TAIL_CHECK_BYTES;
		if (!is_zero(pieces[i].p - SIM_CANARY_BYTES, SIM_CANARY_BYTES) ||
		    !is_zero(pieces[i].p + pieces[i].len, SIM_CANARY_BYTES) ||
		    !is_zero(pieces[i].p + used, rest))
			return false;
		len -= used;
	}
	return true;
}
