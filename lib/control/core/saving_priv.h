/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the checkpoint (checkpoint.h) has to know: which objects there are, and which have changed since their records were written.
 *
 * A session's changes count together with the answer to the request that made them: while a request is under way nothing of the session is written,
 * unless its handler says so.
 * Without a checkpoint every function here returns at once.
 *
 * Owns: struct saved, from saved_new() to saved_end(); struct saving. Called by: all of lib/control. Thread: control, or another one that holds control_lock().
 */
#ifndef UROCE_CONTROL_SAVING_PRIV_H
#define UROCE_CONTROL_SAVING_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "control/core/checkpoint.h"

struct control;
struct request;
struct saved_owner;
struct session;

/** Something with records of its own. */
struct saved {
	TAILQ_ENTRY(saved) link; /**< in saved_owner.clean or dirty */
	struct saved_owner *owner;
	unsigned int type;
	bool dirty;
	bool gone;  /**< it is destroyed, its slot is still there */
	void *what;
	uint64_t order;
	struct checkpoint_entry entry;
};
TAILQ_HEAD(saved_list, saved);

/** A session, or what sessions share. */
struct saved_owner {
	struct saved_list clean, dirty;
	TAILQ_ENTRY(saved_owner) link; /**< in saving.changed, if `dirty` isn't empty */
	struct session *session;       /**< NULL: the stack */
	bool lost;                     /**< it doesn't survive a crash: there was no room */
};

/** What is saved besides objects with handles, whose types are those of enum obj_type. */
enum saved_type {
	SAVED_STACK = 64,
	SAVED_SESSION,
	SAVED_SEGMENT,  /**< of queues; what: its number */
	SAVED_MR_SEGS,  /**< of an MR that is being registered; what: the number of the first */
	SAVED_ANSWER,
	SAVED_CM_CHANNEL,
	SAVED_CM_EVENT,
	SAVED_XRC_TARGET,
};

/**
 * How to write something: a type has one or several, of which each object uses one.
 * @param s  NULL: it belongs to no session.
 * @return 0, with the records in @p o, or none: this isn't the one, or the object isn't complete; EBUSY: not now; ENOMEM.
 */
typedef int saved_write_fn(struct session *s, void *what, struct stream_out *o);
struct saved_kind {
	unsigned int type;
	saved_write_fn *write;
};

/** Of a control. */
struct saving {
	struct checkpoint *checkpoint; /**< NULL: nothing is saved */
	const struct saved_kind *kinds; /**< in the order of their records in a stream */
	unsigned int nb_kinds;
	struct saved_owner stack;
	TAILQ_HEAD(, saved_owner) changed;
	uint64_t last_order;
	struct stream_out out; /**< its room is used for one object after another */
	bool complete;         /**< there was a transaction with all there is */
	void (*host_complete)(void *arg); /**< told of that */
	void *host_arg;
	uint64_t transactions, written, sessions_lost; /**< for telemetry */
};

/** Begin. @param host  NULL: nothing is saved. @return 0 or an errno value. */
int saving_start(struct control *c, const struct checkpoint_host *host, const struct saved_kind *kinds, unsigned int nb_kinds);
/** Nothing is saved any more. */
void saving_stop(struct control *c);
static inline bool
saving_is_on(const struct saving *v)
{
	return v->checkpoint != NULL;
}
void saved_owner_init(struct saved_owner *o, struct session *s);
/** Everything of the owner is gone. */
void saved_owner_end(struct control *c, struct saved_owner *o);

/** Begin to save @p what. @return what the other functions take; NULL: nothing is saved. */
struct saved *saved_new(struct control *c, struct saved_owner *o, unsigned int type, void *what);
/** It has changed. */
void saved_touch(struct control *c, struct saved *v);
/** It is destroyed. @param v  Becomes NULL. */
void saved_end(struct control *c, struct saved **v);
/** So are all of its owner of @p type. */
void saved_end_all(struct control *c, struct saved_owner *o, unsigned int type);

/** Write what has changed, but for sessions with a request under way. It counts when this returns. */
void saving_flush(struct control *c);
/** At the end of a turn: saving_flush(). At the end of the first one the checkpoint is complete, and what the daemon before has left isn't needed any more. */
void saving_turn(struct control *c);
/**
 * Write what the request, which is under way, has changed so far. If the daemon is killed before the answer, the next one knows that, and executes the
 * request from its beginning: its handler must find out what is done already.
 */
void saving_midway(struct session *s);
/** Write what the request has changed, with its answer. */
void saving_answer(struct session *s, struct request *r);

#endif /* UROCE_CONTROL_SAVING_PRIV_H */
