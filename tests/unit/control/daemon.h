/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A daemon inside the test program, and a client that speaks the control protocol by hand, well or badly.
 *
 * The daemon is the real one less main(): EAL without hugepages, one port whose wire the test holds, an engine on a worker
 * lcore, the control loop on a thread.
 */
#ifndef TEST_DAEMON_H
#define TEST_DAEMON_H

#include <stdbool.h>

#include "control/control.h"
#include "ring/ctl.h"

struct daemon_counts {
	struct control_counts control;
	uint32_t mrs, qps, attached; /**< of the tables that engines see */
	unsigned int fds;  /**< open in the process */
};

enum { DAEMON_ENGINES_MOST = 2 };
/** Engines of the daemon; to be set before it is started. */
extern unsigned int daemon_engines;
struct checkpoint_host;
/** Who keeps what outlives the daemon, NULL: nobody; to be set before it is started. */
extern const struct checkpoint_host *daemon_checkpoint;

struct CMUnitTest;
/**
 * For main(): run @p n tests with one daemon for all of them.
 * @param max_sessions,max_qp  Limits.
 * @param begin  Called when the daemon runs, or NULL.
 * @return its status.
 */
int daemon_tests(const struct CMUnitTest *tests, size_t n, uint32_t max_sessions, uint32_t max_qp, void (*begin)(void));
#define DAEMON_TESTS(tests, max_sessions, max_qp, begin) \
	daemon_tests(tests, sizeof(tests) / sizeof((tests)[0]), max_sessions, max_qp, begin)
/** Start; fails the test if that doesn't work. @param max_sessions,max_qp  Limits. */
void daemon_start(const char *program, uint32_t max_sessions, uint32_t max_qp);
void daemon_stop(void);
const char *daemon_socket(void);
/** For rte_eal_remote_launch(): run an engine of a stack, that of the core before this one. @return its status. */
int daemon_run_engine(void *stack);
/** Wait until cores whose engines were stopped have ended. */
void daemon_wait_engines(void);
/** Stop serving and running the engine, as a daemon does that hands its programs to another one; and go on. */
struct uroce *daemon_hold(void);
void daemon_go_on(void);
/** Stop everything where it is, as if it had been killed. daemon_go_on() brings it back. */
struct uroce *daemon_kill(void);
/** Move a QP to another engine. @return as control_move_qp(). */
int daemon_move(uint32_t qpn, unsigned int engine, struct control_moved *moved);
struct daemon_counts daemon_counts(void);
/** cmocka puts its own handlers of signals in place for each test: give SIGBUS back to the daemon. */
void daemon_take_sigbus(void);
/** For its counters, which are read while it runs. */
struct control *daemon_control(void);
struct rte_mempool *daemon_pool(void);
/** The port's device is there again, after it was removed. */
void daemon_wire_again(void);
/** A frame arrives at the daemon's port. */
void daemon_wire_put(const void *frame, uint32_t bytes);
/** @return what the daemon sent, the caller's to free; NULL after @p timeout_ms. */
struct rte_mbuf *daemon_wire_take(unsigned int timeout_ms);
/** Sessions that stay while others go: those that the test has for all of its tests. */
extern unsigned int daemon_kept_sessions;
/** Wait until all other sessions are gone and what they sent is closed. @return false after 10 s. */
bool daemon_wait_empty(void);
/** The daemon answers to others as before, and has nothing left of those that are gone. */
void daemon_assert_well(void);

/* ---- The client's end ---- */
/** @return a connected socket. */
int peer_connect(void);
/** Send @p n bytes with descriptors. @return 0 or an errno value. */
int peer_send(int sock, const void *data, size_t n, const int *fds, unsigned int nb_fds);
/** Receive a reply. @return false: the connection has ended. Descriptors beyond the caller's room are closed. */
bool peer_recv(int sock, struct ctl_rsp *rsp, int *fds, unsigned int max_fds);
/** Send a request and receive its reply. @return its status, -1: the connection has ended. */
int peer_call(int sock, struct ctl_req *req, const int *fds, unsigned int nb_fds, struct ctl_rsp *rsp, int *out,
	      unsigned int max_out);
/** The same of one that must succeed. @param fd  For the one descriptor of the reply, NULL: there is none. */
void peer_must(int sock, struct ctl_req *req, struct ctl_rsp *rsp, int *fd);
/** A request about the object @p handle. @return its status. */
int peer_handle(int sock, uint32_t op, uint32_t handle);
/** @return a new PD. */
uint32_t peer_pd(int sock);
/** An empty request of @p op. */
struct ctl_req peer_req(uint32_t op);
/** HELLO, and the process's memory. */
int peer_hello(int sock);

/** A session with an open device. */
struct peer {
	int sock, async_fd, kick_fd, mem_fd, uffd;
	struct ctl_device_open_rsp dev;
	uint8_t *db;
	uint8_t *segs[64];
};
void peer_open(struct peer *p);
void peer_close(struct peer *p);
/** As peer_call(), for a session; descriptors of the reply are closed. @return the status. */
int peer_ask(struct peer *p, struct ctl_req *q, struct ctl_rsp *r);
/** peer_ask() for a CQ without a channel. */
int peer_ask_cq(struct peer *p, uint32_t cqe, struct ctl_rsp *r);
/** peer_ask() for an RC QP. */
int peer_ask_qp(struct peer *p, uint32_t pd, uint32_t cq, struct ctl_rsp *r);
/** Map the segment that a reply brought. */
void peer_segment(struct peer *p, const struct ctl_new_segment *seg, int fd);
struct ctl_cq_create_rsp peer_cq(struct peer *p, uint32_t cqe);
/** Create a QP with one CQ and as many receives as sends. @return the status. */
int peer_try_qp(struct peer *p, uint32_t type, uint32_t pd, uint32_t cq, uint32_t wr, uint32_t sge, uint32_t inl);
/** @return the number of a new QP of @p type, of a PD and CQ of its own. */
uint32_t peer_new_qp(struct peer *p, uint32_t type);
void *peer_area(const struct peer *p, const struct ctl_area *a);

#endif /* TEST_DAEMON_H */
