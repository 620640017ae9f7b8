/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What librdmacm asks of the daemon, by hand: event channels, ids and connections between two of them.
 */
#ifndef TEST_CHANNEL_H
#define TEST_CHANNEL_H

#include <stdbool.h>

#include "ring/ctl.h"

enum {
	CHANNEL_PORT = 7471,
	CHANNEL_EVENT_MS = 5000, /**< an event that doesn't come by then doesn't come */
};

/** 198.18.0.1, the daemon's own, as a GID. */
static const uint8_t own[16] = { [10] = 0xff, 0xff, 198, 18, 0, 1 };
static const uint8_t own6[16] = { 0xfd, 0, 0, 0x18, [15] = 1 };
/** On no network of the daemon's. */
static const uint8_t elsewhere[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

/** An event channel. */
struct channel {
	int sock, events;
	uint64_t token;
};

/** Both ends of a connection, established. */
struct conn {
	struct channel server, client;
	uint32_t listener, s, c;
	uint32_t s_qpn, c_qpn;
};

/** Open one. */
void channel_open(struct channel *ch);
/** Its ids go with it. */
void channel_close(struct channel *ch);
/** Send @p q and wait for the reply. @return its status. */
int channel_call(struct channel *ch, struct ctl_req *q, struct ctl_rsp *r);
/** @return false: none came within @p ms. */
bool channel_event(struct channel *ch, int ms, struct ctl_cm_event *ev);
/** The next event must be this one. @p id doesn't matter for requests. */
struct ctl_cm_event channel_expect(struct channel *ch, uint32_t id, enum ctl_cm_event_type type, int status);
/** None comes. */
void channel_quiet(struct channel *ch);
/** @return a new id. */
uint32_t channel_create(struct channel *ch, uint32_t ps, uint32_t type);
/** An address as the protocol has it. */
struct ctl_cm_addr channel_addr(const uint8_t gid[16], uint16_t port);
/** @return the status of the request. */
int channel_bind(struct channel *ch, uint32_t id, struct ctl_cm_addr a, struct ctl_rsp *r);
/** @return the status of the request. */
int channel_listen(struct channel *ch, uint32_t id, uint32_t backlog);
/** @return the status of the request. */
int channel_resolve(struct channel *ch, uint32_t id, struct ctl_cm_addr dst, uint32_t ms);
/** An id on its way to one of the daemon's own addresses. */
uint32_t channel_routed(struct channel *ch, uint32_t ps, uint32_t type, const uint8_t gid[16], uint16_t port);
/** @param op  CTL_CM_CONNECT or CTL_CM_ACCEPT. @return the status of the request. */
int channel_connect(struct channel *ch, uint32_t op, uint32_t id, uint32_t qpn, const char *data);
/** An id that listens on CHANNEL_PORT. */
uint32_t channel_listener(struct channel *ch, uint32_t ps, uint32_t type, const uint8_t gid[16]);
enum { CHANNEL_QPS = 1024 /**< for DAEMON_TESTS() */ };
/** For DAEMON_TESTS(). */
void channel_begin(void);
/** The number of a new QP, which no connection had yet: those that had are kept from others for a while (12.4). */
uint32_t channel_qpn(void);
/** Connect @p t's ends by the address @p gid. */
void conn_open(struct conn *t, const uint8_t gid[16]);
/** Both programs end. */
void conn_close(struct conn *t);

#endif /* TEST_CHANNEL_H */
