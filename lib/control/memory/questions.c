/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/memory/questions_priv.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/core/quota_priv.h"

/** An answer that says of all files the same. */
static void
fill_answer(struct shared_answer *a, const struct question *q, uint32_t status)
{
	a->dir = a->maps = -1;
	a->rc = status == SHARED_LATE ? ETIMEDOUT : EPIPE;
	a->n = q->n;
	for (uint32_t i = 0; i < a->n; i++)
		a->files[i] = (struct shared_file){ .fd = -1, .status = status };
}

/** The question of @p s has the answer @p a, whose descriptors are closed unless somebody keeps them. */
static void
finish(struct session *s, struct shared_answer *a)
{
	question_fn *done = s->question.done;

	TAILQ_REMOVE(&s->control->questions, s, question.link);
	s->question.kind = QUESTION_NONE;
	s->question.done = NULL;
	if (!s->closing)
		done(s, a);
	shared_answer_close(a);
}

static void
fail(struct session *s, uint32_t status)
{
	struct shared_answer a;

	fill_answer(&a, &s->question, status);
	finish(s, &a);
}

/** @return true if there is room for another question of the session's user. */
static bool
may_ask(const struct session *s)
{
	const struct control *c = s->control;
	uint32_t of_user = 0;

	for (uint32_t i = 0; i < c->nb_asked; i++)
		of_user += c->asked[i].uid == s->user->uid;
	return c->nb_asked < SHARED_ASKED && of_user < QUESTIONS_OF_USER;
}

/** @return true if an earlier question of the session has no answer yet. */
static bool
is_unanswered(const struct session *s)
{
	for (uint32_t i = 0; i < s->control->nb_asked; i++)
		if (s->control->asked[i].number == s->question.number)
			return true;
	return false;
}

static void
lose_all(struct control *c)
{
	struct session *s;

	if (c->answers.fd >= 0) {
		CTL_LOG(ERR, "the broker has ended: shared memory of programs is copied by the kernel from now on");
		control_unwatch(c, &c->answers);
		c->answers.fd = -1;
	}
	c->nb_asked = 0;
	while ((s = TAILQ_FIRST(&c->questions)) != NULL)
		fail(s, SHARED_NO_ANSWER);
}

/** Ask, if it is the session's turn. */
static void
ask(struct session *s)
{
	struct question *q = &s->question;
	struct control *c = s->control;
	uint64_t number = c->last_question + 1;
	int rc;

	if (!may_ask(s))
		return;
	if (q->kind == QUESTION_PROCESS)
		rc = c->shared.ask_process(c->shared.arg, number, s->sock.fd);
	else
		rc = c->shared.ask_open(c->shared.arg, number, s->proc_fd, s->maps_fd, q->ranges, q->n);
	if (rc == EPIPE) {
		lose_all(c);
	} else if (rc != 0) {
		fail(s, SHARED_NO_ANSWER);
	} else {
		q->asked = true;
		q->number = c->last_question = number;
		c->asked[c->nb_asked].number = number;
		c->asked[c->nb_asked++].uid = s->user->uid;
	}
}

/** Ask for all that wait for others of their user. */
static void
ask_waiting(struct control *c)
{
	struct session *s, *next;

	for (s = TAILQ_FIRST(&c->questions); s != NULL && c->nb_asked < SHARED_ASKED; s = next) {
		next = TAILQ_NEXT(s, question.link);
		if (!s->question.asked && !s->closing)
			ask(s);
		/* The broker has ended, and the list is empty. */
		if (c->answers.fd < 0)
			return;
	}
}

static int
begin(struct session *s, enum question_kind kind, const struct shared_range *ranges, unsigned int n, question_fn *done)
{
	struct control *c = s->control;

	UROCE_ASSERT(s->question.kind == QUESTION_NONE);
	s->question.kind = kind;
	s->question.ranges = ranges;
	s->question.n = n;
	s->question.done = done;
	s->question.asked = false;
	s->question.until_ns = control_now_ns() + QUESTION_MS * UINT64_C(1000000);
	TAILQ_INSERT_TAIL(&c->questions, s, question.link);
	return EINPROGRESS;
}

int
question_process(struct session *s, question_fn *done)
{
	struct control *c = s->control;

	if (!c->shared.privileged || s->pid <= 0)
		return 0;
	if (c->shared.fd < 0) {
		if (s->proc_fd >= 0)
			close(s->proc_fd);
		shared_process(s->pid, &s->proc_fd, &s->maps_fd);
		return 0;
	}
	if (c->answers.fd < 0)
		return 0;
	return begin(s, QUESTION_PROCESS, NULL, 0, done);
}

int
question_open(struct session *s, const struct shared_range *ranges, unsigned int n, struct shared_answer *a, question_fn *done)
{
	struct control *c = s->control;

	if (c->shared.fd < 0) {
		*a = (struct shared_answer){ .dir = -1, .maps = -1, .n = n };
		shared_open(s->proc_fd, s->maps_fd, ranges, n, a->files);
		return 0;
	}
	if (c->answers.fd < 0 || is_unanswered(s)) {
		fill_answer(a, &(struct question){ .n = n }, c->answers.fd < 0 ? SHARED_NO_ANSWER : SHARED_LATE);
		return 0;
	}
	return begin(s, QUESTION_OPEN, ranges, n, done);
}

void
question_cancel(struct session *s)
{
	if (s->question.kind == QUESTION_NONE)
		return;
	TAILQ_REMOVE(&s->control->questions, s, question.link);
	s->question.kind = QUESTION_NONE;
}

/** @return the session that waits for the answer to question @p number, or NULL: it has ended, or has given it up. */
static struct session *
asker(struct control *c, uint64_t number)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->questions, question.link)
		if (s->question.asked && s->question.number == number)
			return s;
	return NULL;
}

static void
take(struct control *c, struct shared_answer *a)
{
	struct session *s = asker(c, a->number);
	uint32_t i = 0;

	while (i < c->nb_asked && c->asked[i].number != a->number)
		i++;
	/* Nobody has asked that. */
	if (i == c->nb_asked)
		s = NULL;
	else
		c->asked[i] = c->asked[--c->nb_asked];
	if (s != NULL && s->question.kind == QUESTION_OPEN && (a->rc != 0 || a->n != s->question.n)) {
		shared_answer_close(a);
		fill_answer(a, &s->question, SHARED_NO_ANSWER);
	}
	if (s != NULL)
		finish(s, a);
	else
		shared_answer_close(a);
}

static void
on_answers(struct watch *w, uint32_t events)
{
	struct control *c = container_of(w, struct control, answers);
	struct shared_answer a;
	int rc = 0;

	/* The rest in the next turn: an answer may lead to long work. */
	for (unsigned int i = 0; i < SHARED_ASKED && !control_turn_is_long(c); i++) {
		rc = c->shared.answer(c->shared.arg, &a);
		if (rc != 0)
			break;
		take(c, &a);
	}
	if (rc != 0 && rc != EAGAIN)
		lose_all(c);
}

static void
give_up(struct session *s)
{
	struct control *c = s->control;

	c->unread_maps++;
	if (!s->question.late) {
		s->question.late = true;
		if (burst_take(&c->refusals, CONTROL_LOG_BURST))
			CTL_LOG(NOTICE,
				"the mappings of %s (pid %d, uid %u) can't be read within %d ms: its shared memory is copied by the kernel",
				s->program, (int)s->pid, (unsigned int)s->uid, QUESTION_MS);
	}
	fail(s, SHARED_LATE);
}

uint64_t
questions_poll(struct control *c, uint64_t now_ns)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&c->questions)) != NULL && s->question.until_ns <= now_ns)
		give_up(s);
	ask_waiting(c);
	s = TAILQ_FIRST(&c->questions);
	return s != NULL ? s->question.until_ns : UINT64_MAX;
}

int
questions_start(struct control *c)
{
	c->answers = (struct watch){ on_answers, c->shared.fd };
	return c->shared.fd < 0 ? 0 : control_watch(c, &c->answers, EPOLLIN);
}

void
questions_stop(struct control *c)
{
	if (c->answers.fd >= 0)
		control_unwatch(c, &c->answers);
	c->answers.fd = -1;
}
