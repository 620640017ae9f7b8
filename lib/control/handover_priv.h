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
	uint32_t daemons, reserved; /**< daemons: that have handed over, this one included */
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

/** Objects in the order of their records: each may refer to those before. */
struct handover_kind {
	obj_save_fn *save;
	obj_restore_fn *restore;
};
enum { HANDOVER_KINDS = 12 };
extern const struct handover_kind handover_kinds[HANDOVER_KINDS];

#endif /* UROCE_HANDOVER_PRIV_H */
