/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The records of a stack and of a session. After RECORD_STACK come the transports' own, then the sessions: each RECORD_SESSION, RECORD_EVENTS,
 * RECORD_MR_SEGS and RECORD_SEGMENT if there are any, and the objects in the order in which they refer to each other; and at last the targets of XRC
 * domains, which sessions share. Owns nothing.
 */
#ifndef UROCE_HANDOVER_PRIV_H
#define UROCE_HANDOVER_PRIV_H

#include "control/core/control_priv.h"
#include "control/core/old_journals_priv.h"
#include "control/core/session_priv.h"
#include "control/handover.h"
#include "control/obj/object_priv.h"

/** No port: the session hasn't opened a device. */
#define HANDOVER_NO_PORT UINT32_MAX

struct stack_record {
	struct record_head head;
	uint64_t next_session, next_cq;
	uint64_t held_ns; /**< when the daemon stopped serving requests, CLOCK_MONOTONIC */
	uint32_t nb_engines, nb_cpus, nb_ports, listen;
	uint32_t daemons; /**< that have handed over, this one included */
	uint32_t crashes; /**< of the daemons before this one, how many have crashed */
	char socket[CONFIG_SOCKET_BYTES + 1];
	char ports[UROCE_MAX_PORTS][CTL_NAME_BYTES];
};

struct session_record {
	struct record_head head;
	uint64_t id;
	int32_t pid;
	uint32_t uid, hello, port;
	/* Numbers of descriptors. */
	uint32_t sock, proc, maps, memory, doorbells, converted, events;
	uint32_t kicks[CTL_MAX_KICKS];
	uint32_t reserved;
	char program[CTL_NAME_BYTES];
};

/** A segment of queues. */
struct segment_record {
	struct record_head head;
	uint64_t bytes;
	uint32_t number, huge, fd, reserved;
};

/** The answer to the last request that has changed something: the request may be in the socket. Only after a crash. */
struct answer_record {
	struct record_head head;
	struct ctl_rsp rsp;
	uint32_t fds[CTL_MAX_FDS]; /**< numbers of descriptors */
};

/** Objects with handles, in the order of their records: each may refer to those before. */
struct handover_kind {
	enum obj_type type;
	obj_save_fn *save; /**< writes nothing of an object that isn't its */
	obj_restore_fn *restore;
};
enum { HANDOVER_KINDS = 11 };
extern const struct handover_kind handover_kinds[HANDOVER_KINDS];

/** What the checkpoint has, in the order of a hand-over. */
enum { SAVED_KINDS = 21 };
extern const struct saved_kind saved_kinds[SAVED_KINDS];

/* ---- After a crash: journals.c. core/old_journals_priv.h ---- */
/** Open the journals of the daemon before, so that objects can be restored from them. @param from  NULL: there are none. */
void journals_begin(struct control *c, const struct journals_record *from, struct stream_in *in);
/** All that was in them is restored: tell programs of what the daemon before may not have told, and close them. */
void journals_end(struct control *c);

#endif /* UROCE_HANDOVER_PRIV_H */
