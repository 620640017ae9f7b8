/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/saving_priv.h"

#include "control/core/session_priv.h"

int
saving_start(struct control *c, const struct checkpoint_host *host, const struct saved_kind *kinds, unsigned int nb_kinds)
{
	struct saving *v = &c->saving;

	TAILQ_INIT(&v->changed);
	saved_owner_init(&v->stack, NULL);
	v->kinds = kinds;
	v->nb_kinds = nb_kinds;
	v->out.live = true;
	if (host == NULL)
		return 0;
	v->host_complete = host->complete;
	v->host_arg = host->arg;
	v->checkpoint = checkpoint_create(host);
	return v->checkpoint != NULL ? 0 : errno;
}

void
saving_stop(struct control *c)
{
	struct saving *v = &c->saving;

	if (v->checkpoint == NULL)
		return;
	saved_owner_end(c, &v->stack);
	checkpoint_commit(v->checkpoint);
	checkpoint_destroy(v->checkpoint);
	v->checkpoint = NULL;
	stream_free(&v->out);
}

void
saved_owner_init(struct saved_owner *o, struct session *s)
{
	TAILQ_INIT(&o->clean);
	TAILQ_INIT(&o->dirty);
	o->session = s;
}

/** Have @p v looked at when the owner's changes are written. */
static void
make_dirty(struct saving *v, struct saved *i)
{
	struct saved_owner *o = i->owner;

	if (i->dirty)
		return;
	if (TAILQ_EMPTY(&o->dirty))
		TAILQ_INSERT_TAIL(&v->changed, o, link);
	TAILQ_REMOVE(&o->clean, i, link);
	TAILQ_INSERT_TAIL(&o->dirty, i, link);
	i->dirty = true;
}

/** There is no room for what the owner has: take its slots away, so that the next daemon doesn't find half of it. The items stay, as others refer to them. */
static void
lose(struct control *c, struct saved_owner *o, int rc)
{
	struct saving *v = &c->saving;
	struct saved *i;

	o->lost = true;
	v->sessions_lost++;
	if (o->session != NULL)
		CTL_LOG(WARNING, "session of %s (pid %d) will not survive a crash of this daemon: %s", o->session->program, (int)o->session->pid,
			rc == ENOSPC ? "its state is too large" : strerror(rc));
	else
		CTL_LOG(ERR, "no program will survive a crash of this daemon: %s", strerror(rc));
	TAILQ_FOREACH(i, &o->clean, link)
		checkpoint_drop(v->checkpoint, &i->entry);
	TAILQ_FOREACH(i, &o->dirty, link)
		checkpoint_drop(v->checkpoint, &i->entry);
}

static bool
is_written(const struct saving *v, unsigned int type)
{
	for (unsigned int i = 0; i < v->nb_kinds; i++)
		if (v->kinds[i].type == type)
			return true;
	return false;
}

struct saved *
saved_new(struct control *c, struct saved_owner *o, unsigned int type, void *what)
{
	struct saving *v = &c->saving;
	struct saved *i;

	if (v->checkpoint == NULL || o->lost || (o->session != NULL && o->session->own) || !is_written(v, type))
		return NULL;
	i = calloc(1, sizeof(*i));
	if (i == NULL) {
		lose(c, o, ENOMEM);
		return NULL;
	}
	*i = (struct saved){ .owner = o, .type = type, .what = what, .order = ++v->last_order };
	TAILQ_INSERT_TAIL(&o->clean, i, link);
	make_dirty(v, i);
	return i;
}

void
saved_touch(struct control *c, struct saved *i)
{
	if (i != NULL)
		make_dirty(&c->saving, i);
}

void
saved_end(struct control *c, struct saved **i)
{
	if (*i == NULL)
		return;
	(*i)->gone = true;
	make_dirty(&c->saving, *i);
	*i = NULL;
}

void
saved_end_all(struct control *c, struct saved_owner *o, unsigned int type)
{
	struct saved *i, *next;

	TAILQ_FOREACH(i, &o->dirty, link)
		i->gone |= i->type == type;
	for (i = TAILQ_FIRST(&o->clean); i != NULL; i = next) {
		next = TAILQ_NEXT(i, link);
		if (i->type != type)
			continue;
		i->gone = true;
		make_dirty(&c->saving, i);
	}
}

/** Free an item, whose slot ends with this transaction. */
static void
drop(struct saving *v, struct saved *i)
{
	struct saved_owner *o = i->owner;

	checkpoint_drop(v->checkpoint, &i->entry);
	TAILQ_REMOVE(i->dirty ? &o->dirty : &o->clean, i, link);
	if (i->dirty && TAILQ_EMPTY(&o->dirty))
		TAILQ_REMOVE(&v->changed, o, link);
	free(i);
}

void
saved_owner_end(struct control *c, struct saved_owner *o)
{
	struct saved *i;

	while ((i = TAILQ_FIRST(&o->dirty)) != NULL || (i = TAILQ_FIRST(&o->clean)) != NULL)
		drop(&c->saving, i);
}

/** Write the records of an object. @return 0 or an errno value: EBUSY, later. */
static int
write_item(struct control *c, struct saved *i)
{
	struct saving *v = &c->saving;
	struct session *s = i->owner->session;
	struct checkpoint_key key = { .session = s != NULL ? s->id : i->type == SAVED_XRC_TARGET ? UINT64_MAX : 0, .order = i->order };
	int rc;

	for (key.kind = 0; key.kind < v->nb_kinds; key.kind++) {
		if (v->kinds[key.kind].type != i->type)
			continue;
		checkpoint_begin(v->checkpoint, &i->entry, &v->out);
		rc = v->kinds[key.kind].write(s, i->what, &v->out);
		if (rc != 0)
			return rc;
		if (v->out.n == 0)
			continue;
		v->written++;
		return checkpoint_write(v->checkpoint, &i->entry, &key, &v->out);
	}
	return EBUSY;
}

static void
write_owner(struct control *c, struct saved_owner *o)
{
	struct saving *v = &c->saving;
	struct saved *i, *next;
	int rc;

	for (i = TAILQ_FIRST(&o->dirty); i != NULL; i = next) {
		next = TAILQ_NEXT(i, link);
		if (i->gone) {
			drop(v, i);
			continue;
		}
		rc = o->lost ? 0 : write_item(c, i);
		if (rc == EBUSY)
			continue;
		if (rc != 0)
			lose(c, o, rc);
		i->dirty = false;
		TAILQ_REMOVE(&o->dirty, i, link);
		TAILQ_INSERT_TAIL(&o->clean, i, link);
		if (TAILQ_EMPTY(&o->dirty))
			TAILQ_REMOVE(&v->changed, o, link);
	}
}

static bool
may_write(const struct saved_owner *o)
{
	return o->session == NULL || o->session->closing || !o->session->queued;
}

void
saving_flush(struct control *c)
{
	struct saving *v = &c->saving;
	struct saved_owner *o, *next;

	/* Until all that the daemon before had is there, its checkpoint counts. */
	if (v->checkpoint == NULL || !v->complete)
		return;
	for (o = TAILQ_FIRST(&v->changed); o != NULL; o = next) {
		next = TAILQ_NEXT(o, link);
		if (may_write(o))
			write_owner(c, o);
	}
	if (checkpoint_commit(v->checkpoint))
		v->transactions++;
}

void
saving_turn(struct control *c)
{
	struct saving *v = &c->saving;
	bool first = v->checkpoint != NULL && !v->complete;

	v->complete |= first;
	saving_flush(c);
	if (first)
		v->host_complete(v->host_arg);
}

void
saving_midway(struct session *s)
{
	if (s->control->saving.checkpoint == NULL || s->own || s->saved.lost)
		return;
	write_owner(s->control, &s->saved);
	saving_flush(s->control);
}

void
saving_answer(struct session *s, struct request *r)
{
	struct control *c = s->control;
	struct saved_owner *o = &s->saved;
	struct session_answer *a = &s->answer;

	if (c->saving.checkpoint == NULL || s->own || o->lost)
		return;
	session_answer_forget(s);
	/* What has changed nothing is executed again. */
	if (!TAILQ_EMPTY(&o->dirty) && r->req->number != 0) {
		a->rsp = r->rsp;
		memcpy(a->fds, r->out_fds, sizeof(a->fds));
		if (a->saved == NULL)
			a->saved = saved_new(c, o, SAVED_ANSWER, s);
		else
			saved_touch(c, a->saved);
	} else {
		saved_end(c, &a->saved);
	}
	write_owner(c, o);
	/* With what others have that the request has changed as well, such as targets of XRC domains. */
	saving_flush(c);
}
