/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Sessions: one per connection of a program, with all that the program has.
 *
 * Owns: struct session, from session_new() until session_end.c frees it at the end of the turn in which
 * session_close() was called. The files of obj, memory and cma own the members that bear their names. Called by: all
 * of lib/control. Thread: control, or another one that holds control_lock().
 */
#ifndef UROCE_CONTROL_SESSION_PRIV_H
#define UROCE_CONTROL_SESSION_PRIV_H

#include <sys/types.h>

#include "control/core/control_priv.h"
#include "control/core/request_priv.h"
#include "mem/mem.h"

struct cma_session;
struct obj_ah;
struct session;
struct shm;
struct user;

LIST_HEAD(ah_list, obj_ah);

/**
 * Goes on with a request that waited for a MAC address.
 * @param rc  0: @p mac is known; else the request has failed, and its message says why.
 * @return the status of the reply; EINPROGRESS: the request waits again.
 */
typedef int (*request_resume_fn)(struct session *s, struct request *r, int rc, const uint8_t mac[6]);

/** The request of a session that waits for a MAC address; obj/path.c. */
struct pending {
	bool active;
	struct net_port *port;
	struct uroce_ah_attr av; /**< whose MAC address */
	uint64_t since_ns;
	struct ctl_req req;
	request_resume_fn resume;
};

/** A token bucket for connections: filled with time, up to what one second gives. */
struct limit_rate {
	uint64_t at_ns; /**< 0: never used */
	double left;
};

struct session {
	TAILQ_ENTRY(session) link; /**< in sessions or closed */
	struct watch sock, kick;
	struct control *control;
	uint64_t id; /**< never used twice; engines know it as the owner */
	bool own;    /**< of this process itself, by control_adopt() */
	bool hello, closing;
	_Atomic uint32_t victim; /**< 1: its memory went away under a mapping (memory/sigbus_priv.h) */
	pid_t pid;
	uid_t uid;
	struct user *user; /**< what all sessions of that uid have */
	struct limit_rate connects;
	uint32_t limits_logged; /**< which of the limits that it hit are in the log already: a bit for each key, by a hash */
	char program[CTL_NAME_BYTES];
	int proc_fd; /**< /proc/PID, bound to that process, or -1 */
	uint64_t registered; /**< bytes of all MRs */

	/* The device: obj/device.c. */
	struct net_port *port; /**< NULL until DEVICE_OPEN */
	int async_fd;          /**< write end of the pipe of asynchronous events, or -1 */
	uint64_t events_lost;  /**< asynchronous events that the pipe had no room for */
	struct shm *shm;       /**< memory of queues */
	uint8_t *db;           /**< doorbells, db_bytes long */
	size_t db_bytes;
	int db_sigbus_id;
	struct engine_session *engine_sessions[UROCE_MAX_ENGINES];
	struct handles db_slots[UROCE_MAX_ENGINES]; /**< QPs by doorbell slot */

	/* The program's memory: memory/memmap.c, obj/mr.c. */
	struct mem_owner owner;
	int mem_fd; /**< memfd of converted memory */
	LIST_HEAD(, mem_view) views;
	uint32_t nb_maps;
	struct ctl_seg *segs; /**< of CTL_MR_SEGS, until CTL_MR_REG */
	uint32_t nb_segs;

	/* Objects: obj. */
	struct handles tab[OBJ_TYPES];
	struct ah_list ahs[SESSION_AH_BUCKETS]; /**< by the low bits of obj_ah.wqe_handle */
	struct pending pending;

	struct cma_session *cma; /**< NULL: it isn't an event channel of librdmacm */
};

/**
 * Begin a session.
 * @param fd  Its socket; stays the caller's if this fails.
 * @return NULL: no memory.
 */
struct session *session_new(struct control *c, int fd);
/**
 * Close it: no more requests are taken, and its objects are destroyed at the end of the turn.
 * @param why  For the log; NULL: the program closed the connection.
 */
void session_close(struct session *s, const char *why);
/** @return the session with that id, or NULL. */
struct session *session_find(struct control *c, uint64_t id);
/** @return the session as engines know the owner of an object. */
void *session_owner(const struct session *s);
/**
 * Answer @p r with @p status. The session is closed if the reply can't be sent, or says that the versions differ
 * (EPROTO).
 */
void session_reply(struct session *s, struct request *r, int status);
/** Stop or go on taking requests. */
void session_pause(struct session *s, bool pause);
/** Write an event into the session's pipe; a program that doesn't read its events loses them, and nothing else. */
void session_send_async(struct session *s, enum uroce_event type, uint64_t cookie);
/** Log how many sessions ended without a line of their own, when their second is over. */
void sessions_log_ended(struct control *c);

#endif /* UROCE_CONTROL_SESSION_PRIV_H */
