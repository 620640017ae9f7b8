/* SPDX-License-Identifier: BSD-3-Clause */
/* What a transport's timers are for. */
#include "transport/timers_priv.h"
#include "transport/cc/cc_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/req/loss_priv.h"

uint64_t
timer_due_ns(const struct wheel_entry *e)
{
	const uint8_t *at = (const uint8_t *)e;

	if (e->kind == TP_TIMER_PACE)
		return ((const struct cc *)(at - offsetof(struct cc, pace)))->next_ns;
	return ((const struct qp *)(at - offsetof(struct qp, loss.timer)))->loss.deadline_ns;
}

void
timer_fired(struct wheel_entry *e, void *arg)
{
	struct transport *tp = arg;
	struct qp *qp;

	if (e->kind == TP_TIMER_PACE) {
		cc_timer(tp, e);
		return;
	}
	qp = (struct qp *)((uint8_t *)e - offsetof(struct qp, loss.timer));
	loss_timer(tp, qp);
	if (unlikely(tp->journal != NULL))
		journal_stepped(tp, qp);
}
