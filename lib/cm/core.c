/* SPDX-License-Identifier: BSD-3-Clause */
/* Used by all files of lib/cm: sending a MAD, preparing an event, private data. */
#include "cm/cm_priv.h"

void
cm_send(struct cm *cm, const struct cm_av *av, const uint8_t *mad)
{
	CM_COUNT(cm, tx_mads);
	cm->cfg.ops.send(cm->cfg.arg, av, mad);
}

void
cm_send_msg(struct cm *cm, const struct cm_av *av, const struct cm_msg *m)
{
	uint8_t mad[CM_MAD_BYTES];

	cm_mad_encode(m, mad);
	cm_send(cm, av, mad);
}

void
cm_event_set(struct cm_event *ev, enum cm_event_type type, struct cm_conn *c)
{
	*ev = (struct cm_event){ .type = type, .state = c->state, .conn = c, .owner = c->owner };
}

void
cm_event_set_msg(struct cm_event *ev, enum cm_event_type type, struct cm_conn *c, const struct cm_av *way,
		 const struct cm_msg *m)
{
	cm_event_set(ev, type, c);
	ev->av = way;
	ev->msg = m;
}

bool
cm_private_ok(const struct cm_private *p, uint32_t room)
{
	return p->len_bytes <= room && (p->len_bytes == 0 || p->data != NULL);
}

void
cm_private_put(const struct cm_private *p, uint8_t *to)
{
	if (p->len_bytes != 0)
		memcpy(to, p->data, p->len_bytes);
}
