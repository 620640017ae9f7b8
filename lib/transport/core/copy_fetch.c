/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes to send that were fetched from memory that isn't mapped. */
#include "transport/core/copy_priv.h"

int
copy_fetched(const struct qp *qp, enum copy_role role, uint32_t key, uint32_t off, uint8_t *dst, uint32_t len)
{
	const struct tp_copy_slot *s;

	if (qp->copy == NULL)
		return ENOENT;
	s = &qp->copy->slots[role];
	if (s->running)
		return COPY_LATER;
	if (!s->ready)
		return ENOENT;
	for (uint32_t i = 0; s->job != NULL && i < s->job->nb_parts; i++) {
		const struct tp_copy_part *p = &s->job->parts[i];

		if (p->key != key || off < p->off || (uint64_t)off + len > (uint64_t)p->off + p->length ||
		    p->at + (off - p->off) + len > s->job->m.nb_read)
			continue;
		memcpy(dst, s->job->data + p->at + (off - p->off), len);
		if (!s->job->used)
			TAILQ_INSERT_TAIL(&s->job->share->fetched, s->job, link);
		s->job->used = true;
		return 0;
	}
	return s->rc != 0 && s->key == key ? s->rc : ENOENT;
}

bool
copy_add(struct tp_copy_job *job, uint32_t key, uint32_t off, const struct mr *mr, uint64_t va, uint32_t len)
{
	struct tp_copy_part *last = job->nb_parts > 0 ? &job->parts[job->nb_parts - 1] : NULL;
	uint64_t at = mr->addr + (va - mr->iova);
	struct mem_job *m = &job->m;

	len = RTE_MIN(len, TP_COPY_BYTES - m->length);
	if (len == 0 || m->nb_pieces == RTE_DIM(m->pieces) || job->nb_parts == RTE_DIM(job->parts) ||
	    (m->owner != NULL && m->owner != mr->owner))
		return false;
	if (m->nb_pieces > 0 && m->pieces[m->nb_pieces - 1].va + m->pieces[m->nb_pieces - 1].length == at)
		m->pieces[m->nb_pieces - 1].length += len;
	else
		m->pieces[m->nb_pieces++] = (struct mem_piece){ .va = at, .length = len };
	if (last != NULL && last->key == key && last->off + last->length == off)
		last->length += len;
	else
		job->parts[job->nb_parts++] = (struct tp_copy_part){ .key = key, .off = off, .length = len, .at = m->length };
	m->owner = mr->owner;
	m->length += len;
	return m->length < TP_COPY_BYTES;
}
