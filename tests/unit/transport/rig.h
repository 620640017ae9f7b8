/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two connected ends with a buffer and an MR on each side: what most tests begin with.
 */
#ifndef UROCE_TEST_RIG_H
#define UROCE_TEST_RIG_H

#include <stdlib.h>
#include <string.h>

#include "pair.h"

enum { BUF = 1 << 20 };

struct rig {
	struct pair *p;
	struct end *a, *b;
	uint8_t *abuf, *bbuf;
	struct mr *amr, *bmr;
};

/** Memory of both ends, which are connected. abuf holds random bytes, bbuf zeros. */
static inline void
rig_connect(struct rig *r, const struct conn_opts *co)
{
	r->abuf = calloc(1, BUF);
	r->bbuf = calloc(1, BUF);
	r->amr = host_mr(&r->p->h[0], r->abuf, BUF, ACCESS_ALL);
	r->bmr = host_mr(&r->p->h[1], r->bbuf, BUF, ACCESS_ALL);
	fill(r->abuf, BUF, 1);
	ends_connect(r->a, r->b, co);
}

static inline void
rig_up_cc(struct rig *r, const struct end_opts *eo, const struct conn_opts *co, const struct tp_port_config *port)
{
	r->p = pair_new_cc(port);
	r->a = end_new(&r->p->h[0], eo);
	r->b = end_new(&r->p->h[1], eo);
	rig_connect(r, co);
}

static inline void
rig_up(struct rig *r, const struct end_opts *eo, const struct conn_opts *co)
{
	rig_up_cc(r, eo, co, &(struct tp_port_config){ .features = TP_FEATURES_ALL });
}

static inline void
rig_down(struct rig *r)
{
	end_free(r->a);
	end_free(r->b);
	mr_destroy(r->p->h[0].sh.mrs, r->amr);
	if (r->bmr != NULL)
		mr_destroy(r->p->h[1].sh.mrs, r->bmr);
	free(r->abuf);
	free(r->bbuf);
	pair_free(r->p);
}

static inline void
rig_write(struct rig *r, uint64_t id, uint32_t off, uint32_t len)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r->abuf + off, len, r->amr),
				     .nb_sge = 1, .remote_addr = ADDR(r->bbuf) + off, .rkey = r->bmr->key });
}

static inline void
rig_read(struct rig *r, uint64_t id, uint32_t off, uint32_t len)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_READ, .sge = SGE(r->abuf + off, len, r->amr),
				     .nb_sge = 1, .remote_addr = ADDR(r->bbuf) + off, .rkey = r->bmr->key });
}

static inline void
rig_send(struct rig *r, uint64_t id, uint32_t off, uint32_t len)
{
	end_send(r->a,
		 &(struct wr){ .id = id, .op = UROCE_WR_SEND, .sge = SGE(r->abuf + off, len, r->amr), .nb_sge = 1 });
}

static inline void
rig_fetch_add(struct rig *r, uint64_t id, uint32_t off, uint64_t add)
{
	end_send(r->a, &(struct wr){ .id = id,
				     .op = UROCE_WR_ATOMIC_FETCH_AND_ADD,
				     .sge = SGE(r->abuf + off, 8, r->amr),
				     .nb_sge = 1,
				     .remote_addr = ADDR(r->bbuf),
				     .rkey = r->bmr->key,
				     .compare_add = add });
}

/** Loses packet number @c nth (from 0) of those from @c from with opcode @c opcode, or all from that one on. */
struct loss {
	unsigned int from;
	int opcode; /* -1: any */
	uint32_t nth, count; /* lose [nth, nth + count) */
	uint32_t seen;
};

static inline bool
lose(struct pair *p, const struct note *n, void *arg)
{
	struct loss *l = arg;
	uint32_t i;

	(void)p;
	if (n->from != l->from || (l->opcode >= 0 && n->bth.opcode != l->opcode))
		return false;
	i = l->seen++;
	return i >= l->nth && i - l->nth < l->count;
}

static inline const struct tp_counters *
counters(struct rig *r, unsigned int host)
{
	return transport_counters(r->p->h[host].tp);
}

#endif /* UROCE_TEST_RIG_H */
