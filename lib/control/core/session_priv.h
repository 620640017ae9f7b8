/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Sessions: one per connection of a program, with everything that the program has.
 *
 * Owns: struct session, from session_new() until session_end.c frees it at the end of the turn in which session_close()
 * was called. The members marked with a file of obj, memory or cma belong to that file. Called by: all of lib/control.
 * Thread: control, or another one that holds control_lock().
 */
#ifndef UROCE_CONTROL_SESSION_PRIV_H
#define UROCE_CONTROL_SESSION_PRIV_H

#include <sys/types.h>

#include "control/core/control_priv.h"
#include "control/core/request_priv.h"
#include "control/core/saving_priv.h"
#include "mem/mem.h"

struct cma_session;
struct map_files;
struct obj_ah;
struct session;
struct settling;
struct shm;
struct user;

LIST_HEAD(ah_list, obj_ah);

/**
 * Resumes a request that waited for a MAC address.
 * @param rc  0: @p mac is known; otherwise the request has failed, with its message set.
 * @return the status of the reply; EINPROGRESS: the request waits again.
 */
typedef int (*request_resume_fn)(struct session *s, struct request *r, int rc, const uint8_t mac[6]);

/** A session's request that waits for a MAC address; see obj/path.c. */
struct pending {
	bool active;
	struct net_port *port;
	struct uroce_ah_attr av; /**< the address vector whose MAC address is needed */
	uint64_t since_ns;
	struct ctl_req req;
	request_resume_fn resume;
};

enum question_kind { QUESTION_NONE, QUESTION_PROCESS, QUESTION_OPEN };

/** Receives the answer to a question about the session's mappings. */
typedef void question_fn(struct session *s, struct shared_answer *a);

/** A question about the session's mappings: memory/questions.c. */
struct question {
	TAILQ_ENTRY(session) link; /**< control.questions, unless kind is QUESTION_NONE */
	enum question_kind kind;
	bool asked;        /**< it is under way; false: it waits until others of its user are answered */
	bool late;         /**< the log has said that one was not answered in time */
	uint64_t number;   /**< of the last one that was asked */
	uint64_t until_ns; /**< when it is given up */
	const struct shared_range *ranges;
	unsigned int n;
	question_fn *done;
};

/** A token bucket for connections: it is filled over time, up to the amount of one second. */
struct limit_rate {
	uint64_t at_ns; /**< 0: never used */
	double left;
};

/** Asynchronous events: core/async.c. */
struct async_events {
	struct watch sock; /**< sending end of the socket, or -1; in epoll while events wait for room */
	bool watching;
	uint32_t first, nb;
	struct ctl_async_event *waiting; /**< ASYNC_WAITING, a ring from @c first; NULL: none ever waited */
	uint64_t lost;                   /**< for which there was no room here either */
};

/** The last answer that is saved: for a request that the daemon before had executed, and that is still in the socket. */
struct session_answer {
	struct saved *saved;
	struct ctl_rsp rsp;
	int fds[CTL_MAX_FDS];
	bool restored; /**< it is that of the daemon before: its descriptors are ours */
};

struct session {
	TAILQ_ENTRY(session) link; /**< in sessions or closed */
	TAILQ_ENTRY(session) stranger;
	uint64_t begun_ns;
	struct watch sock;
	int kick_fds[CTL_MAX_KICKS]; /**< by CPU; the client writes to one of them to wake its engines */
	struct control *control;
	uint64_t id; /**< never reused; engines know it as the owner of objects */
	bool own;    /**< of this process itself, from control_adopt() */
	bool hello, closing;
	bool device_gone;   /**< the device that it has open has gone since, for good: only a new session has it when it is back */
	uint32_t settled_jobs; /**< of copiers: how many had been handed over when settle_before() looked last */
	bool settle_waits;     /**< until those have come back */
	bool asks_handover; /**< it is another daemon's, which takes the programs over */
	uint64_t busy_ns; /**< time that its requests took of this thread, less what it was given in the turns since */
	uint64_t busy_turn; /**< number of the turn in which it was last given some */
	_Atomic uint32_t victim; /**< 1: memory that it shared went away under a mapping (memory/sigbus_priv.h) */
	pid_t pid;
	uid_t uid;
	struct user *user; /**< totals of all sessions with that uid */
	uint64_t used[QUOTAS]; /**< what the session has of each kind: core/quota.c */
	bool charged;          /**< for itself */
	uint32_t device_fds;   /**< descriptors charged for the open device */
	struct limit_rate connects;
	uint32_t limits_logged; /**< a bit for each kind of which the log has said that its limit is reached */
	char program[CTL_NAME_BYTES];
	int proc_fd; /**< /proc/PID of exactly that process, or -1 */
	int maps_fd; /**< its mappings, until it executes another program; or -1 */

	/* The device: obj/device.c. */
	struct net_port *port; /**< NULL until DEVICE_OPEN */
	struct async_events async;
	uint64_t dm_bytes; /**< of device memory, at most UROCE_MAX_DM_BYTES */
	struct shm *shm;       /**< memory of queues */
	uint8_t *db;           /**< doorbells */
	size_t db_bytes;
	int db_fd;             /**< its memfd, for the daemon that comes after this one */
	int db_sigbus_id;
	struct engine_session *engine_sessions[UROCE_MAX_ENGINES];
	struct handles db_slots[UROCE_MAX_ENGINES]; /**< maps doorbell slots to QPs */
	uint64_t imported; /**< id of the session whose objects it may import; 0: none */
	bool qps_moved; /**< some QP has moved: one may be elsewhere than its doorbell */
	uint64_t cost_seen, all_cost_seen; /**< of its shares, and of all, when it was last inspected */

	/* The program's memory: memory/memmap.c, obj/mr.c. */
	struct mem_owner owner;
	uint64_t posted_until_ns; /**< until when a request waits for datagrams that are posted: obj/qp_posted.c; 0: none does */
	struct settling *settling; /**< a reply that is put off: core/settle.c; or NULL */
	struct question question;
	struct map_files *map_files; /**< of the MR that is being made */
	int mem_fd; /**< memfd of converted memory */
	LIST_HEAD(, mem_view) views;
	struct ctl_seg *segs; /**< from CTL_MR_SEGS, kept until CTL_MR_REG */
	uint32_t nb_segs;       /**< its bytes are charged as metadata */

	/* Objects: obj. */
	struct handles tab[OBJ_TYPES];
	struct ah_list ahs[SESSION_AH_BUCKETS]; /**< by the low bits of obj_ah.wqe_handle */
	struct pending pending;

	struct cma_session *cma; /**< NULL: it is no event channel of librdmacm */

	/* For the daemon after a crash: core/saving.c. */
	struct saved_owner saved;
	struct saved *record;
	struct session_answer answer;
	bool queued; /**< the request that is under way is still in the socket */
};

/**
 * Begin a session.
 * @param fd  Its socket; remains the caller's if this fails.
 * @param own  It is one of this process.
 * @return NULL: no memory.
 */
struct session *session_new(struct control *c, int fd, bool own);
/**
 * Close a session: no more requests are accepted, and its objects are destroyed at the end of the turn.
 * @param why  For the log; NULL: the program closed the connection.
 */
void session_close(struct session *s, const char *why);
/** The program has introduced itself. */
void session_greeted(struct session *s);
/** Close sessions whose HELLO is overdue. @return when to call again, at the latest. */
uint64_t sessions_close_strangers(struct control *c, uint64_t now_ns);
/** @return the session with that id, or NULL. */
struct session *session_find(struct control *c, uint64_t id);
/** @return what engines use as the owner of the session's objects. */
void *session_owner(const struct session *s);
/**
 * Answer @p r with @p status. The session is closed if the reply can't be sent, or if it says that the versions differ
 * (EPROTO).
 */
void session_reply(struct session *s, struct request *r, int status);
/** The request that is under way leaves the socket, if it is still there. */
void session_consume(struct session *s);
/** Answer a request again whose answer the daemon before has saved. @return false: it isn't that one. */
bool session_answer_again(struct session *s, const struct ctl_req *q);
/** The program has asked for something else: the answer was read. */
void session_answer_forget(struct session *s);
/** Remember that a request took this thread from @p since_ns until now, if that was more than the session's part of a turn. */
static inline void
session_took(struct session *s, uint64_t since_ns)
{
	uint64_t ns = control_now_ns() - since_ns;

	if (ns > CONTROL_SESSION_NS)
		s->busy_ns = ns;
}
/** @return true: no request of it is under way, and it may be paused without one waiting. */
bool session_is_settled(const struct session *s);
/** Stop accepting requests, or resume. */
void session_pause(struct session *s, bool pause);
/** Begin to send asynchronous events. @param theirs  Receives the program's end of the socket. @return 0 or an errno value. */
int async_open(struct session *s, int *theirs);
/** Go on sending them on @p fd, our end of a socket that was made before; -1: don't. */
void async_take(struct session *s, int fd);
/** Have an event wait for room. @return false: too many wait already, or there is no memory. */
bool async_keep(struct session *s, const struct ctl_async_event *ev);
/** Stop that, and drop the events that wait. */
void async_close(struct session *s);
/** Send an asynchronous event. A program that doesn't read its events loses events, nothing else. */
void session_send_async(struct session *s, enum uroce_event type, uint64_t cookie);
/** Once the current second is over, log how many sessions ended without a log line of their own. */
void sessions_log_ended(struct control *c);

#endif /* UROCE_CONTROL_SESSION_PRIV_H */
