/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shares: what each session gets of a transport's time and pools. A part of transport.h, which includes it.
 *
 * Thread: as in transport.h.
 */
#ifndef UROCE_TRANSPORT_SHARE_H
#define UROCE_TRANSPORT_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct transport;

/**
 * What one user may send, by all shares that have it, whatever their engines: two token buckets, one of bits and one of packets. It may be
 * used while they are. Other members are the transport's; zero at first.
 */
struct share_rate {
	_Atomic uint64_t bits, packets;  /**< per second; 0: no limit. They may change at any time */
	_Atomic uint64_t bits_due_ns, packets_due_ns;
};
struct share;
TAILQ_HEAD(tp_share_list, share);
/** What a share, or a group, is owed for the time it was away (core/owed_priv.h). Begins as { 0 }. */
struct share_owed {
	uint64_t worked_ns;         /**< when it last had work; 0: never */
	uint64_t worked_cost;       /**< what all shares had used then */
	int64_t cost;               /**< what it is owed; not more than 0: nothing */
	int64_t paid;               /**< what it has got of that since it last had nothing to do, */
	uint32_t quanta;            /**< and in this round */
};
/**
 * Shares of one transport that together get what a single share gets: those of a user. The transport's while a share has it; share_group_init()
 * begins it.
 */
struct share_group {
	struct share_owed owed;
	struct share *first;        /**< the one that stands for the group in the schedule, or NULL: none wants a turn */
	struct tp_share_list queue; /**< those that want a turn after it */
};
/** Begin a group. */
void share_group_init(struct share_group *g);
enum { SHARE_WEIGHT_MIN = 1, SHARE_WEIGHT_USUAL = 100, SHARE_WEIGHT_MAX = 10000 };
struct share_params {
	uint32_t weight;         /**< SHARE_WEIGHT_*: its part of the time, compared with those of the others; 0: SHARE_WEIGHT_USUAL */
	struct share_rate *rate; /**< or NULL: no limit */
	struct share_group *group; /**< or NULL: it stands for itself */
};
/**
 * [engine] Make a share. QPs that are created without one have a share of the transport's own.
 * @return 0; ENOMEM; ENOSPC (there are UROCE_MAX_SESSIONS); EINVAL (weight).
 */
int share_create(struct transport *tp, const struct share_params *p, struct share **out);
/** [engine] Change weight, rate and group. @return 0 or EINVAL (weight). */
int share_set(struct transport *tp, struct share *s, const struct share_params *p);
/** [engine] Destroy a share. QPs that still have it keep it; it has neither rate nor group any more. */
void share_destroy(struct transport *tp, struct share *s);
/** What a share has used since it was made. */
struct share_stats {
	uint64_t cost;    /**< in bytes: calculated from what was sent and received, or 5 per nanosecond (core/meter_priv.h) */
	uint64_t bytes, packets; /**< sent */
	uint64_t rounds;  /**< how often it had used its part and waited for the others */
	uint64_t limited; /**< how often it waited for its rate */
	uint64_t refused; /**< how often a QP got nothing from a pool, because the rest is for others */
};
/** What a share waits for. */
enum share_wait {
	SHARE_WAIT_NOTHING = 0, /**< it has nothing to do, or its QPs themselves wait for something */
	SHARE_WAIT_TURN,        /**< the other shares are at work */
	SHARE_WAIT_TX,          /**< room in the TX vector */
	SHARE_WAIT_RATE,        /**< its rate */
	SHARE_WAITS
};
struct share_view {
	struct share_stats stats;
	uint32_t weight, qps, active_qps;
	enum share_wait wait;
	uint32_t inflight_blocks, read_blocks, reordered; /**< of the pools */
};
/** [engine] Fill in @p v. @return what all shares of @p tp have cost. */
uint64_t share_look(const struct transport *tp, const struct share *s, struct share_view *v);
/** [engine] @return whether @p s has sent little just now, and the turns of others were cut short so that it needn't wait. */
bool share_is_light(const struct transport *tp, const struct share *s);
/** @return "nothing", "turn", "tx room", "rate". */
const char *share_wait_name(enum share_wait w);

#endif /* UROCE_TRANSPORT_SHARE_H */
