/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/serving_priv.h"

#include <string.h>

#include <rte_string_fns.h>

#include "control/core/session_priv.h"

void
serving_turn(struct serving *v, const char *what, uint64_t now_ns)
{
	pthread_mutex_lock(&v->lock);
	v->since_ns = what != NULL ? now_ns : 0;
	v->session = 0;
	strlcpy(v->what, what != NULL ? what : "", sizeof(v->what));
	pthread_mutex_unlock(&v->lock);
}

void
serving_session(struct serving *v, const struct session *s, const char *what, uint64_t now_ns)
{
	pthread_mutex_lock(&v->lock);
	v->since_ns = now_ns;
	v->session = s->id;
	v->pid = s->pid;
	v->uid = s->uid;
	strlcpy(v->program, s->program, sizeof(v->program));
	strlcpy(v->what, what, sizeof(v->what));
	pthread_mutex_unlock(&v->lock);
}

struct serving
serving_look(struct serving *v)
{
	struct serving copy;

	pthread_mutex_lock(&v->lock);
	copy = *v;
	pthread_mutex_unlock(&v->lock);
	return copy;
}
