/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two CMs and a wire between them that the test holds in its hands: nothing moves but by rig_deliver() and
 * rig_wait().
 *
 * Owns: both CMs, what is on the wire, and a log of each end's events. Used by the tests of lib/cm.
 */
#ifndef TEST_CM_RIG_H
#define TEST_CM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm/cm.h"

enum {
	RIG_WIRE_MAX = 4096,
	RIG_EVENTS_MAX = 4096,
	RIG_QPN_A = 0x11,
	RIG_QPN_B = 0x22,
};
#define RIG_SERVICE UINT64_C(0x1000000000000042)
#define RIG_GUID_A UINT64_C(0xaaaaaaaaaaaaaaaa)
#define RIG_GUID_B UINT64_C(0xbbbbbbbbbbbbbbbb)
#define RIG_SEC UINT64_C(1000000000)
#define RIG_TICK UINT64_C(2048) /* timers are exact to a tick of the wheel */
/* After these times requests with the parameters below are repeated, and TimeWait is over. */
#define RIG_INTERVAL (cm_time_ns(CM_DEFAULT_RESPONSE_TIMEOUT) + 2 * cm_time_ns(CM_DEFAULT_PACKET_LIFE))
#define RIG_TIMEWAIT cm_time_ns(CM_DEFAULT_PACKET_LIFE + 1)

struct rig_mad {
	struct cm_av av;   /**< as the sender sees it */
	uint8_t mad[CM_MAD_BYTES];
};

/** An event and copies of what it pointed to. */
struct rig_event {
	struct cm_event ev;
	struct cm_msg msg;
	struct cm_av av;
};

struct rig_end {
	struct rig *rig;
	struct cm *cm;
	struct rig_mad out[RIG_WIRE_MAX];
	unsigned int nb_out;
	struct rig_event events[RIG_EVENTS_MAX];
	unsigned int nb_events, seen;
	struct gid gid;
};

struct rig {
	uint64_t now;
	bool qp_gone; /**< what both ends say of the QPs of connections with an owner */
	struct rig_end a, b;
};

/** @param limits  Limits of both ends, or NULL. */
struct rig *rig_new(const struct cm_config *limits);
/** Checks that both ends hold nothing any more once everything was destroyed and TimeWait is over. */
void rig_free_clean(struct rig *r);
void rig_free(struct rig *r);
/** A forgets everything and chooses other IDs than before. */
void rig_restart_a(struct rig *r);

/** @return the address vector from @p e to the other end. */
struct cm_av rig_av(struct rig_end *e);
/** Carry everything that @p from has sent to the other end. @return MADs. */
unsigned int rig_deliver(struct rig_end *from);
/** Hand one MAD to the end that it wasn't sent from. */
void rig_carry(struct rig_end *from, const struct rig_mad *m);
/** Carry until both are silent. */
void rig_settle(struct rig *r);
/** Lose what @p from has sent. @return MADs. */
unsigned int rig_lose(struct rig_end *from);
/** Let time pass; timers run as they are due, what they send stays on the wire. */
void rig_wait(struct rig *r, uint64_t ns);

/** @return the next event of @p e, which must be of this type; fails the test otherwise. */
const struct rig_event *rig_expect(struct rig_end *e, enum cm_event_type type);
void rig_expect_none(struct rig_end *e);
/** @return the only MAD on @p e's wire, which must be of this kind; it stays there. */
const struct cm_msg *rig_sent(struct rig_end *e, enum cm_attr attr, struct cm_msg *m);
void rig_sent_nothing(struct rig_end *e);

/** Parameters that do. */
struct cm_connect_param rig_connect_param(struct rig *r);
struct cm_accept_param rig_accept_param(struct rig *r);
struct cm_listener *rig_listen(struct rig *r);
/** A connects to B. @return A's connection. */
struct cm_conn *rig_connect(struct rig *r);
/** rig_connect(), deliver, and take the REQUEST. */
struct cm_conn *rig_connect_request(struct rig *r, struct cm_conn **b);
/** B accepts with rig_accept_param(). */
void rig_accept(struct rig *r, struct cm_conn *b);
/** rig_connect_request(), accept, deliver, and take the RESPONSE. */
struct cm_conn *rig_connect_response(struct rig *r, struct cm_conn **b);
/** All of it: both ends are ESTABLISHED. */
struct cm_conn *rig_establish(struct rig *r, struct cm_conn **b);

/** New ends, of which B listens and has the REQUEST of a connection; see rig_connect_request(). */
struct rig *rig_new_request(struct cm_conn **a, struct cm_conn **b);
/** New ends, of which A has the RESPONSE of a connection; see rig_connect_response(). */
struct rig *rig_new_response(struct cm_conn **a, struct cm_conn **b);
/** New ends with a connection that is ESTABLISHED. */
struct rig *rig_new_established(struct cm_conn **a, struct cm_conn **b);
/** New ends with a connection that A and B have disconnected; both are in TimeWait. */
struct rig *rig_new_disconnected(struct cm_conn **a, struct cm_conn **b);
/** Both owners leave their connection, A first. */
void rig_destroy(struct rig *r, struct cm_conn *a, struct cm_conn *b);

/** Messages by hand, from the end of connection @p from to that of @p to. */
struct cm_msg rig_dreq(struct cm_conn *from, struct cm_conn *to, uint32_t qpn);
struct cm_msg rig_rej(struct cm_conn *from, struct cm_conn *to, uint16_t reason);
struct cm_msg rig_lap(struct cm_conn *from, struct cm_conn *to, uint32_t qpn);
/** Give a message that was made by hand to the other end, as if @p from had sent it. */
void rig_forge_from(struct rig_end *from, const struct cm_msg *m);
/** rig_forge_from() A. */
void rig_forge(struct rig *r, const struct cm_msg *m);

static const struct cm_private no_data = { NULL, 0 };

#endif /* TEST_CM_RIG_H */
