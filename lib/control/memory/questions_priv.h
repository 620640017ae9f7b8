/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Questions to whoever opens what programs have mapped (struct shared_ops), and what becomes of them.
 *
 * To look at a program's mappings is to wait for that program: whoever changes a large one keeps all others out of the list. So nobody here waits.
 * A session has one question at a time, and pauses until it is answered or QUESTION_MS have passed. A later answer is recognized by its number, and
 * its descriptors are closed. A session whose last question was never answered asks no other one, and the sessions of a user have
 * QUESTIONS_OF_USER under way at most: whoever answers may hang with each of them.
 *
 * Owns: struct question of each session, the list of questions under way. Called by: dispatch.c, events.c, session_end.c, obj/mr.c. Thread: control.
 */
#ifndef UROCE_QUESTIONS_H
#define UROCE_QUESTIONS_H

#include "control/core/session_priv.h"

/** Begin: watch for answers. @return 0 or an errno value. */
int questions_start(struct control *c);
/**
 * Get hold of the list of what the program has mapped: s->proc_fd, s->maps_fd. Without an answer they stay as they are.
 * @return 0: done; EINPROGRESS: the session must not send requests until @p done has the answer.
 */
int question_process(struct session *s, question_fn *done);
/**
 * Open the files of a session's mappings.
 * @param ranges  They must stay until the answer.
 * @param n  SHARED_BATCH at most.
 * @param a  Receives the answer, if there is one at once.
 * @param done  Receives it otherwise, unless the session has ended. Descriptors that it wants to keep it replaces by -1.
 * @return 0: answered; EINPROGRESS: the session must be paused until @p done.
 */
int question_open(struct session *s, const struct shared_range *ranges, unsigned int n, struct shared_answer *a, question_fn *done);
/** The session ends. */
void question_cancel(struct session *s);
/** Give up questions whose time is over. @return when to call again, at the latest. */
uint64_t questions_poll(struct control *c, uint64_t now_ns);
/** The control thread ends: nobody waits for answers any more. */
void questions_stop(struct control *c);

#endif /* UROCE_QUESTIONS_H */
