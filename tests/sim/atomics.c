/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics of all QPs on a word form one chain: each found the value that the one before it left. Addends and
 * swapped-in values are random 64-bit numbers, so no value comes twice and the chain can be followed from 0 to what is
 * in memory. An operation that didn't complete may have happened or not, but of those of a connection only the first
 * ones, in order.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MAX_QPS = 2 * SIM_MAX_CONNS, MAX_SEARCH = 200000 };

/* A word's chain as far as it has been followed. */
struct chain {
	struct sim_world *w;
	uint32_t ep, word;
	uint64_t value, final;
	uint32_t next[MAX_QPS];      /**< per QP: atomics before this one are in the chain */
	uint32_t steps;
};

static const struct sim_qp *
chain_qp(const struct chain *c, uint32_t i)
{
	return &c->w->conns[i / 2].qp[i & 1];
}

/* The next operation of QP i on this word that can have happened, or NULL. */
static const struct sim_op *
head(struct chain *c, uint32_t i)
{
	const struct sim_qp *q = chain_qp(c, i);

	if (q->peer->ep->id != c->ep)
		return NULL;
	for (; c->next[i] < q->nb_atomics; c->next[i]++) {
		const struct sim_op *op = &q->atomics[c->next[i]];

		if (op->target_off == c->word)
			return op;
	}
	return NULL;
}

void
atomics_note(struct sim_qp *q)
{
	uint32_t i;

	q->atomics = realloc(q->atomics, (q->nb_atomics + q->nb_posted + 1) * sizeof(*q->atomics));
	if (q->atomics == NULL)
		abort();
	for (i = 0; i < q->nb_posted; i++)
		if (op_atomic(&q->ops[i]) && q->ops[i].plant == SIM_PLANT_NONE)
			q->atomics[q->nb_atomics++] = q->ops[i];
}

static uint64_t
result(const struct sim_op *op, uint64_t value)
{
	if (op->opcode == UROCE_WR_ATOMIC_FETCH_AND_ADD)
		return value + op->compare_add;
	return value == op->compare_add ? op->swap : value;
}

static bool
known_left(const struct chain *c, uint32_t i)
{
	const struct sim_qp *q = chain_qp(c, i);
	uint32_t k;

	for (k = c->next[i]; q->peer->ep->id == c->ep && k < q->nb_atomics; k++)
		if (q->atomics[k].target_off == c->word && q->atomics[k].status == UROCE_WC_SUCCESS)
			return true;
	return false;
}

/* Nothing more of this connection's uncertain operations happened. @return false: there is no later connection. */
static bool
skip_round(struct chain *c, uint32_t i)
{
	const struct sim_qp *q = chain_qp(c, i);
	uint64_t round = q->atomics[c->next[i]].wr_id >> SIM_WR_ID_ROUND_SHIFT;

	while (c->next[i] < q->nb_atomics && q->atomics[c->next[i]].wr_id >> SIM_WR_ID_ROUND_SHIFT == round)
		c->next[i]++;
	return c->next[i] < q->nb_atomics;
}

/* Follow the chain to its end, trying out which uncertain operations happened. */
static bool
follow(struct chain *c)
{
	struct chain saved;
	const struct sim_op *op;
	bool left = false;
	uint32_t i, n = 2 * c->w->cfg.nb_conns;

	if (++c->steps > MAX_SEARCH)
		return true;
	/* Completed operations that saw this value and left it: no choice to be made. */
	for (i = 0; i < n; i++) {
		while ((op = head(c, i)) != NULL && op->status == UROCE_WC_SUCCESS && op->old == c->value &&
		       result(op, c->value) == c->value)
			c->next[i]++;
		left |= op != NULL && known_left(c, i);
	}
	if (!left && c->value == c->final)
		return true;
	for (i = 0; i < n; i++) {
		op = head(c, i);
		if (op == NULL || (op->status == UROCE_WC_SUCCESS && op->old != c->value))
			continue;
		saved = *c;
		c->value = result(op, c->value);
		c->next[i]++;
		if (follow(c))
			return true;
		saved.steps = c->steps;
		*c = saved;
		if (op->status != UROCE_WC_SUCCESS && skip_round(c, i) && follow(c))
			return true;
		saved.steps = c->steps;
		*c = saved;
	}
	return false;
}

static void
trace_word(const struct chain *c)
{
	const struct sim_qp *q;
	uint32_t i, k;

	for (i = 0; i < 2 * c->w->cfg.nb_conns; i++) {
		q = chain_qp(c, i);
		for (k = 0; q->peer->ep->id == c->ep && k < q->nb_atomics; k++)
			if (q->atomics[k].target_off == c->word)
				sim_trace(c->w, "QP %u round %u: opcode %u status %u 0x%" PRIx64 " 0x%" PRIx64
					  " found 0x%" PRIx64 " leaves 0x%" PRIx64, i,
					  (unsigned int)(q->atomics[k].wr_id >> SIM_WR_ID_ROUND_SHIFT),
					  q->atomics[k].opcode, q->atomics[k].status, q->atomics[k].compare_add,
					  q->atomics[k].swap, q->atomics[k].old,
					  result(&q->atomics[k], q->atomics[k].old));
	}
	sim_trace(c->w, "in memory: 0x%" PRIx64, c->final);
}

void
atomics_check(struct sim_world *w, uint32_t ep)
{
	struct chain c;
	uint32_t word;

	for (word = 0; word < SIM_ATOMIC_WORDS; word++) {
		c = (struct chain){ .w = w, .ep = ep, .word = word };
		memcpy(&c.final, w->eps[ep].atomic_mr.base + 8 * word, 8);
		if (follow(&c))
			continue;
		trace_word(&c);
		sim_fail(w, "endpoint %u, atomic word %u: no order of operations explains the values seen", ep, word);
	}
}
