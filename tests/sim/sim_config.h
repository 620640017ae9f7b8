/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a seed of the simulator says: the network, the programs and what goes wrong; and the simulator's limits.
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "transport/transport.h"

enum {
	SIM_MAX_EPS = 4,
	SIM_MAX_CONNS = 6,
	SIM_MAX_ENGINES = 2,        /**< per endpoint */
	SIM_MAX_PORTS = 2,          /**< per endpoint */
	SIM_MAX_CQS = 3,            /**< per endpoint */
	SIM_MAX_SHARES = 4,  /**< of an engine */
	SIM_MAX_SRQS = 2,           /**< per endpoint */
	SIM_MAX_WINDOWS = 3,        /**< per QP */
	SIM_MAX_XSRQS = 2,          /**< XRC SRQs per endpoint */
	SIM_MAX_GROUPS = 2,
	SIM_MAX_MADS = 32,
	SIM_CAME = 64,
	SIM_STALE = 16,              /**< packets of a QP's former connection */
	SIM_STALE_HEADERS = 48,
	SIM_STALE_DATA = 40,
	SIM_SACKED = 256,           /**< PSNs that a SACK speaks of */
	SIM_MAX_SGE = 8,
	SIM_MAX_INLINE = 256,
	SIM_CANARY_BYTES = 32,      /**< zeros kept around every buffer that the transport may write */
	SIM_ATOMIC_WORDS = 4,       /**< per endpoint; every QP may use them */
	SIM_WR_ID_RECV = 1 << 30,   /**< marks wr_ids of receives */
	SIM_WR_ID_ROUND_SHIFT = 48,
	SIM_NO_STATUS = 255,
	SIM_PD = 1,
	/* A daemon that is replaced is away for up to 100 ms, both hosts' twice: 400 ms. Eight tries of 67 ms and more take longer. */
	SIM_RESTART_TIMEOUT = 5,    /**< added to ACK timeouts */
	SIM_QP_TABLE_SIZE = 64,
};
#define SIM_ARENA_BYTES (UINT64_C(96) << 20)   /**< memory of all programs of a seed */
#define SIM_PATTERN_BYTES (UINT32_C(4) << 20)  /**< random bytes that messages are made of; never written */
#define SIM_MAX_EVENTS 20000000                /**< a seed that needs more is running in circles */
#define SIM_NS_PER_MS UINT64_C(1000000)
#define SIM_NS_PER_S UINT64_C(1000000000)
#define SIM_HOSTILE_COOKIE 1                   /**< of objects of hostile.c: nobody waits for their events */
#define SIM_NO_BINDING UINT32_MAX
#define SIM_THIS_PSN (UINT32_C(1) << 31)      /**< marks a PSN in tables where most places are empty */
#define SIM_SECOND_PD 77                       /**< a PD that no QP has */

/** What can go wrong in a seed. Shrinking takes them away one by one. */
#define SIM_FAULTS(X) \
	X(LOSS) X(BURST) X(REORDER) X(DUP) X(JITTER) X(CORRUPT) X(PARTITION) X(ECN) \
	X(SLOW_RECV) X(SLOW_POLL) X(SLOW_TX) X(PLANT_LOCAL) X(PLANT_REMOTE) X(PLANT_RECV) X(ERR) X(SQD) X(SMALL_RQ) \
	X(EVENTS) X(LOOPBACK) X(REMOTE_MEM) X(STALL) X(NO_MBUF) X(DEREG) X(RECONNECT) X(ENGINES) X(SRQ) X(CQ_SMALL) \
	X(UNRELIABLE) X(HOSTILE) X(WINDOWS) X(ANY) X(QUEUE) X(DEATH) X(CQ_GROW) X(XRC) \
	X(MCAST) X(APM) X(MODERATE) X(PKEYS) X(GSI) X(STALE) X(FOREIGN) X(RESTART) X(PORTS) X(HUGE) X(CM) X(MOVES) X(CRASH)
enum {
#define X(n) SIM_FBIT_##n,
	SIM_FAULTS(X)
#undef X
	SIM_NB_FAULTS
};
enum {
#define X(n) SIM_F_##n = UINT64_C(1) << SIM_FBIT_##n,
	SIM_FAULTS(X)
#undef X
};
/** Faults that can lose or delay a packet, so that timers may run out. */
#define SIM_F_LINK \
	(SIM_F_LOSS | SIM_F_BURST | SIM_F_REORDER | SIM_F_DUP | SIM_F_CORRUPT | SIM_F_PARTITION | SIM_F_QUEUE | \
	 SIM_F_DEATH | SIM_F_APM | SIM_F_STALE | SIM_F_RESTART)

/** Faults that lose packets. */
#define SIM_F_LOSE \
	(SIM_F_LOSS | SIM_F_BURST | SIM_F_CORRUPT | SIM_F_PARTITION | SIM_F_QUEUE | SIM_F_DEATH | SIM_F_APM | \
	 SIM_F_RESTART)
/** Faults that end connections. */
#define SIM_F_ENDS \
	(SIM_F_ERR | SIM_F_DEREG | SIM_F_PLANT_LOCAL | SIM_F_PLANT_REMOTE | SIM_F_PLANT_RECV | SIM_F_CQ_SMALL)

struct sim_config {
	uint64_t seed;
	uint64_t faults;             /**< SIM_F_* */
	uint32_t nb_eps, nb_conns, ops;
	uint32_t nb_ports[SIM_MAX_EPS];
	uint32_t max_mtu;            /**< UROCE_MTU_* */
	uint32_t max_len;
	uint64_t delay_ns, jitter_ns;
	uint32_t gbps;
	uint32_t loss_ppm, dup_ppm, reorder_ppm, corrupt_ppm, ecn_ppm;
	uint64_t reorder_ns;
	uint64_t burst_every_ns, burst_ns;
	uint64_t partition_every_ns, partition_ns;
	uint64_t death_ns;           /**< from then on nothing gets to one host or comes from it */
	uint32_t dead_ep;
	uint64_t poll_ns;            /**< between a client's turns, on average */
	uint32_t port_gbps;          /**< of the switch's ports to hosts, with a queue each */
	uint32_t queue_bytes, mark_bytes;
	enum tp_cc cc;               /**< of all endpoints */
	struct tp_features features[SIM_MAX_EPS]; /**< of each endpoint's ports */
	struct tp_pool_sizes pools;  /**< of each transport */
	struct tp_limits limits;
	uint32_t nb_shares;          /**< of each engine, among which its QPs are divided; 0: they have none */
	bool harsh;                  /**< retries may run out though the peer lives */
	bool reorder_once;           /**< what is sent again isn't overtaken again, nor are NAKs */
	bool ordered;                /**< the network keeps packets in order and delivers them at most once */
	bool lossless;               /**< ... and loses none */
	bool wire_check;             /**< parse every packet that is sent */
};

/** Parts of the command line that replace what the seed says. */
struct sim_override {
	uint64_t faults_mask;        /**< faults that may be */
	uint32_t ops, conns;         /**< 0: as the seed says */
};

/** Deliberate mistakes in work requests. */
#define SIM_PLANTS(X) \
	X(NONE) X(LKEY) X(LKEY_STALE) X(LKEY_RANGE) X(LKEY_NOWRITE) X(OPCODE) X(SGES) X(INLINE) X(RKEY) X(RKEY_STALE) \
	X(RKEY_RANGE) X(RKEY_ACCESS) X(RKEY_PD) X(MISALIGNED) X(QP_ACCESS) X(AH) X(QKEY) X(UD_LENGTH) X(RECV_SMALL) \
	X(RECV_LKEY) X(OP_LENGTH) X(BIND) X(INV) X(WINDOW_STALE) X(WINDOW_ACCESS) X(WINDOW_RANGE) X(WINDOW_QP) \
	X(SRQN)
enum sim_plant {
#define X(n) SIM_PLANT_##n,
	SIM_PLANTS(X)
#undef X
};

/* config.c */
void config_from_seed(struct sim_config *c, uint64_t seed, const struct sim_override *o);
void config_print(const struct sim_config *c, FILE *f);
const char *fault_name(unsigned int bit);
const char *plant_name(enum sim_plant p);

#endif /* SIM_CONFIG_H */
