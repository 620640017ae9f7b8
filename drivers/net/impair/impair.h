/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A bad network on purpose: loses, duplicates, reorders, delays, corrupts, marks and rate-limits what an ethdev receives.
 *
 * It hooks into the port's receive path (rte_eth_add_rx_callback()) and so needs neither a thread nor DPDK's internal driver
 * headers, which distributions don't ship. Impairing what each host receives impairs both directions. One seed decides
 * everything: the same packets in the same order meet the same fate.
 *
 * Owns: struct impair, one per impaired port. The receive callbacks run on the engines' lcores; everything else is
 * called by the control thread, but for counters, which anybody may read. A port's state is behind one spinlock: this is a test
 * instrument, and its link has one order.
 */
#ifndef UROCE_IMPAIR_H
#define UROCE_IMPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	IMPAIR_RULES_MAX = 16,
	IMPAIR_HELD_MAX = 8192, /**< packets held back at once, per queue of the port */
	IMPAIR_QUEUES_MAX = 64,
	IMPAIR_TEXT_BYTES = 4096, /**< room for all settings as text */
	IMPAIR_VDEVS_MAX = 16,
	IMPAIR_NAME_BYTES = 64,
};

/** What a rule does to the packets that it matches. */
enum impair_action { IMPAIR_DROP, IMPAIR_DUP, IMPAIR_CORRUPT, IMPAIR_MARK, IMPAIR_DELAY, IMPAIR_ACTIONS };

/** Hits RoCE v2 packets by their BTH. */
struct impair_rule {
	enum impair_action action;
	int opcode;             /**< -1: any */
	int64_t qpn;            /**< destination QPN, -1: any */
	int64_t psn_min, psn_max; /**< -1: any */
	uint64_t skip;          /**< matches to let pass first */
	uint64_t count;         /**< matches to hit after that; 0: all */
};

/** All settings; probabilities are per packet. */
struct impair_params {
	double loss;            /**< 0 to 1 */
	double burst;           /**< mean length of a run of losses, packets, 1 or more */
	double dup, reorder, corrupt, ecn; /**< 0 to 1 */
	double delay_us, jitter_us; /**< 0 to 10 s; jitter is uniform in [0, jitter] */
	double gap_us;          /**< a reordered packet comes this much later */
	double rate_mbps;       /**< 0: no limit */
	uint64_t queue;         /**< packets in front of the rate limit; more are dropped */
	uint64_t ecn_queue;     /**< with a rate: mark at this queue length and above; 0: don't */
	uint64_t seed;
	struct impair_rule rules[IMPAIR_RULES_MAX];
	unsigned int nb_rules;
};

/** What was done. */
#define IMPAIR_COUNTERS(X) \
	X(received) X(passed) X(lost) X(duplicated) X(reordered) X(corrupted) X(ecn_marked) X(delayed) \
	X(queue_dropped) X(held_dropped) X(copy_failed) X(rule_hits)
struct impair_counters {
#define IMPAIR_X(name) uint64_t name;
	IMPAIR_COUNTERS(IMPAIR_X)
#undef IMPAIR_X
	uint64_t rules[IMPAIR_RULES_MAX]; /**< packets that each rule hit since it was set */
};

/**
 * Parse "loss=0.01,burst=3,dup=0.01,reorder=0.05,gap=50,delay=10,jitter=5,corrupt=0.001,ecn=0.01,rate=1000,queue=100,ecn_queue=20,seed=7,
 * rule=drop/opcode=0x04/qpn=0x11/psn=10-20/skip=1/count=3". Times are microseconds, the rate is Mbit/s. Keys may come in any order, rule more than once.
 *
 * @param p    Gets the defaults, then what @p text says.
 * @param err  Gets a message that names the key, what was wrong and the range, if it doesn't parse.
 * @return 0 or EINVAL.
 */
int impair_parse(const char *text, struct impair_params *p, char *err, size_t err_bytes);
/** Write what differs from the defaults as impair_parse() reads it; IMPAIR_TEXT_BYTES are enough. @return @p text. */
char *impair_format(const struct impair_params *p, char *text, size_t text_bytes);

/** "--vdev net_impairN,port=ETHDEV,KEY=VALUE,...": impair the ethdev with that name. */
struct impair_vdev {
	char name[IMPAIR_NAME_BYTES]; /**< net_impairN */
	char port[IMPAIR_NAME_BYTES]; /**< the ethdev's name */
	const char *settings;         /**< what stands behind port=, in memory that lives as long as the process */
	struct impair_params params;
};
struct impair_vdevs {
	unsigned int n;
	struct impair_vdev vdev[IMPAIR_VDEVS_MAX];
};
/**
 * Take every --vdev net_impairN out of EAL's arguments, before rte_eal_init() sees them: EAL has no driver of this name.
 * @param argc,argv  EAL's part of the command line, changed in place.
 * @param err  Gets a message that names the --vdev, what was wrong and what would be right.
 * @return 0, EINVAL or ENOMEM.
 */
int impair_vdevs_take(int *argc, char **argv, struct impair_vdevs *v, char *err, size_t err_bytes);

struct impair;

/**
 * [control, lcores may poll the port] Begin to impair what @p port_id receives on its first @p nb_queues queues.
 * @return 0, ENOMEM, EINVAL (too many queues), or what rte_eth_add_rx_callback() said.
 */
int impair_attach(uint16_t port_id, uint16_t nb_queues, const struct impair_params *p, struct impair **out);
/** [control] Change the settings; the random sequence starts again from the seed, packets held back stay due as they were. */
void impair_set(struct impair *im, const struct impair_params *p);
/** [control, no lcore polls the port] Remove the callbacks and free what is held. */
void impair_detach(struct impair *im);
/**
 * [control, lcores may poll the port] The first half of impair_detach(): remove the callbacks. When every lcore has ended the burst
 * that it was in, impair_detach() may follow.
 */
void impair_unhook(struct impair *im);
/** [any thread] Each counter is read whole; they may be of different moments. */
void impair_counters(const struct impair *im, struct impair_counters *out);

/**
 * Take @p nb packets that arrive at @p now_ns on @p queue and hand out those that are due, at most @p max.
 * This is what the callback does; public for tests with a clock of their own.
 *
 * @param pkts  In: arrived; out: due. Room for @p max.
 * @return packets in @p pkts.
 */
uint16_t impair_burst(struct impair *im, uint16_t queue, void **pkts, uint16_t nb, uint16_t max, uint64_t now_ns);
/** For tests: an impair that is attached to no port. */
struct impair *impair_create(uint16_t nb_queues, const struct impair_params *p);
void impair_destroy(struct impair *im);

#endif /* UROCE_IMPAIR_H */
