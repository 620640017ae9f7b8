/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A daemon without threads, and sessions of a client that speaks the control protocol by hand.
 *
 * The daemon is the real one less main(): EAL without hugepages, one port whose wire the target holds, one engine. Target,
 * control and engine take turns on one thread. It lives as long as the process; what an input made ends with
 * daemon_end(), which checks that nothing is left. Engine and control have a virtual clock (--wrap of engine_now() and
 * control_now_ns()), and no number is random. Descriptors that the daemon gets are closed at once (--wrap of closer_close()).
 *
 * The client is this process too: memory that a request names is the fuzz target's own. Thread: one.
 */
#ifndef UROCE_FUZZ_DAEMON_H
#define UROCE_FUZZ_DAEMON_H

#include "control/control.h"
#include "fuzz.h"
#include "requests.h"
#include "uroce/stack.h"

enum {
	DAEMON_SESSIONS = 3,
	DAEMON_SEGMENTS = 8,
	DAEMON_MEM_BYTES = 1 << 16,
};
#define DAEMON_MS UINT64_C(1000000)

/** A client. */
struct daemon_client {
	int sock;           /**< -1: none */
	int events;         /**< what it reads asynchronous and CM events from */
	bool device;        /**< it has one open */
	struct request_handles handles;
	struct ctl_rsp rsp; /**< the last reply */
	uint8_t *segments[DAEMON_SEGMENTS];
	size_t segment_bytes[DAEMON_SEGMENTS];
	uint8_t *db;
	size_t db_bytes;
	uint8_t *mem;       /**< the first DAEMON_MEM_BYTES of what is for converted memory */
};

extern struct uroce *daemon_stack;
/** The clock of engine and control. */
extern uint64_t daemon_clock_ns;

/** Create the daemon; once, from LLVMFuzzerInitialize(). */
void daemon_begin(void);
/** End of an input: end all sessions of @p clients, let timers run, check that all objects are gone. */
void daemon_end(struct daemon_client *clients, unsigned int n);
/** Turns of control and engine. */
void daemon_turns(unsigned int n);
/** Let time pass, with a turn at each step. */
void daemon_pass(uint64_t ns);
/** A frame arrives at the port. */
void daemon_frame(const uint8_t *frame, size_t size);
/** @return frames that the daemon has sent; they are freed. The first of them is copied to @p first, if there is room. */
unsigned int daemon_sent(uint8_t *first, size_t *size, size_t max);

/** Connect. */
void client_begin(struct daemon_client *c);
void client_end(struct daemon_client *c);
/** An empty request. */
struct ctl_req client_req(uint32_t op);
/**
 * Send bytes with descriptors, give the daemon turns, and take the reply.
 * @return the reply's status; -1: there is none (yet), or the session has ended.
 */
int client_call(struct daemon_client *c, const void *bytes, size_t n, const int *fds, unsigned int nb_fds);
/** Take replies that are there. @return the last one's status; -1: none. */
int client_take(struct daemon_client *c);
/** HELLO and DEVICE_OPEN as programs do. */
void client_open(struct daemon_client *c);
/** CM_OPEN. */
void client_open_cm(struct daemon_client *c);
/** @return memory of a queue that a reply named; NULL: there is none. */
void *client_area(struct daemon_client *c, const struct ctl_area *a);

#endif /* UROCE_FUZZ_DAEMON_H */
