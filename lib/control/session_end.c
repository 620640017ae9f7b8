/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a session: destroys everything that the program had. */
#include <unistd.h>

#include "control/cma/cma_priv.h"
#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/core/settle_priv.h"
#include "control/loop_priv.h"
#include "control/memory/questions_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_device_priv.h"
#include "control/obj/obj_mr_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "mem/copier.h"

/** Destroy objects before those that they use, and memory last. */
static void
destroy_objects(struct session *s)
{
	struct control *c = s->control;
	void *o;

	obj_qp_destroy_all(s);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_SRQ], &pos)) != NULL;)
		obj_srq_destroy(s, o);
	if (s->tab[OBJ_CQ].used > 0)
		rcu_wait(c->s.sh.qsbr);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_CQ], &pos)) != NULL;)
		obj_cq_destroy(s, o);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_CHANNEL], &pos)) != NULL;)
		obj_channel_destroy(s, o);
	/* An MR can't be destroyed while memory windows are bound to it. */
	obj_mw_destroy_all(s);
	obj_mr_destroy_all(s);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_DM], &pos)) != NULL;)
		obj_dm_free(s, o);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_AH], &pos)) != NULL;)
		obj_ah_destroy(s, o);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_XRCD], &pos)) != NULL;)
		obj_xrcd_destroy(s, o);
	for (uint32_t pos = 0; (o = handles_next(&s->tab[OBJ_PD], &pos)) != NULL;)
		obj_pd_destroy(s, o);
}

static void
session_destroy(struct session *s)
{
	struct control *c = s->control;

	path_cancel(s);
	question_cancel(s);
	obj_mr_cancel(s);
	cma_session_end(s);
	destroy_objects(s);
	device_close(s);
	closer_close_socket(s->sock.fd, s->user->uid);
	settle_cancel(s);
	if (s->owner.lane != NULL)
		copier_lane_close(s->owner.lane);
	if (s->maps_fd >= 0)
		close(s->maps_fd);
	if (s->proc_fd >= 0)
		close(s->proc_fd);
	for (int i = 0; i < OBJ_TYPES; i++)
		handles_fini(&s->tab[i]);
	quota_give(s, QUOTA_metadata, s->nb_segs * sizeof(*s->segs));
	if (s->charged) {
		quota_give(s, QUOTA_fd, SESSION_FDS);
		quota_give(s, QUOTA_metadata, SESSION_BYTES);
	}
	quota_leave(s->user);
	session_answer_forget(s);
	saved_owner_end(c, &s->saved);
	free(s->segs);
	free(s);
	c->nb_sessions--;
}

void
sessions_reap(struct control *c, bool all)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&c->closed)) != NULL) {
		TAILQ_REMOVE(&c->closed, s, link);
		serving_session(&c->serving, s, "its end", control_now_ns());
		session_destroy(s);
		if (!all && control_turn_is_long(c))
			return;
	}
}
