/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Foreign peers: ends of RC connections that are not uroce's, with habits of their own.
 *
 * Written from the specification, and from what captures of Soft-RoCE and of hardware show (docs/wire.md); nothing of lib/transport
 * is in it. A foreign end takes the place of the adapter under a program of the simulator: it executes the program's work
 * requests as they stand in its rings, and reports completions to the model, which checks both ends alike. Its struct qp holds
 * the QP number and the state that the program asked for, and never sees a packet or a work request. Of an XRC connection the end
 * that sends may be foreign.
 *
 *   foreign.c       habits, states, packets in and out, completions
 *   foreign_req.c   the requester
 *   foreign_resp.c  the responder
 *
 * Owns: struct foreign. One thread.
 */
#ifndef SIM_FOREIGN_H
#define SIM_FOREIGN_H

#include "model.h"

enum {
	FOREIGN_RESULTS = 64,  /**< READs and atomics that a responder remembers */
	FOREIGN_ANSWERS = 256, /**< that wait to be sent */
};

/** Who is asked for credits. */
enum foreign_credits {
	FOREIGN_UNLIMITED,   /**< says that it doesn't count (Soft-RoCE) */
	FOREIGN_HONEST,
	FOREIGN_NONE,        /**< says that it has none, whatever it has */
	FOREIGN_MOODY,       /**< says any number that is not too large, or that it doesn't count */
	FOREIGN_CREDITS
};

/** What the specification leaves to each implementation, and what some of them do in spite of it. */
struct foreign_habits {
	const char *name;
	/* As a requester. */
	uint32_t ackreq_every;     /**< AckReq on each packet whose number in its message is a multiple */
	bool ackreq_last_only;     /**< not at the end of each message, but where nothing more is sent for now */
	uint32_t window;           /**< packets in flight, at most, but for the last READ */
	uint32_t burst;            /**< packets per turn */
	uint64_t timeout_min_ns;
	bool read_whole_again;     /**< a READ whose answer stops in the middle is asked for from its beginning */
	bool obeys_credits;
	bool replays_each_implied; /**< goes back at each answer that passes a missing one, not once */
	bool migreq;
	/* As a responder. */
	bool ack_each;             /**< one ACK per request that asks, else one for all that came since */
	uint32_t ack_unasked;      /**< one packet in so many is acknowledged that didn't ask; 0: none */
	bool nak_after_rnr;        /**< a NAK for what follows a request that was told to come later */
	bool nak_each;             /**< a NAK for each packet behind a gap */
	uint32_t rnr_again;        /**< one packet in so many behind an RNR NAK is answered with the same RNR NAK; 0: none */
	uint32_t nak_again;        /**< the NAK of a gap is repeated, once, after about so many packets behind it; 0: never */
	bool dup_ack_latest;       /**< duplicates are acknowledged up to the newest, past READs that may have to be answered again */
	bool ack_read;             /**< an ACK follows the end of a READ's answer */
	bool refuses_with_op;      /**< a message longer than its receive is a remote operation error (Soft-RoCE) */
	enum foreign_credits credits;
	uint64_t answer_ns, dup_ns; /**< until requests and duplicates are answered, at most */
	uint32_t answers_per_turn;
};

struct foreign_requester {
	uint32_t una, next, sent;  /**< PSNs: the oldest without answer, the one to be sent, behind the highest sent */
	uint32_t tail, cur;        /**< operations of una and next */
	uint64_t timer_at;         /**< 0: off */
	uint64_t rnr_until;
	uint32_t tries, rnr_tries;
	bool went_back;            /**< for a missing answer, since the last progress */
	uint32_t credit_limit;     /**< receives that the peer has promised in all */
	bool credits;              /**< it has */
};

enum foreign_kind { FOREIGN_ACK, FOREIGN_NAK, FOREIGN_READ, FOREIGN_ATOMIC, FOREIGN_PLACED };

/** A READ, atomic, ATOMIC_WRITE or FLUSH that was executed. */
struct foreign_result {
	enum foreign_kind kind;
	uint32_t psn, last_psn, len, off; /**< off: READ, in the target area */
	uint64_t va, old;
	uint32_t rkey;
	bool used;
};

/** An answer on its way out. */
struct foreign_answer {
	enum foreign_kind kind;
	uint8_t syndrome;
	uint32_t psn;              /**< of the next packet */
	uint32_t end_psn, first_psn; /**< READ */
	struct foreign_result res;
	bool again;                /**< to a duplicate */
	uint64_t at;               /**< not before */
};

struct foreign_responder {
	uint32_t epsn, msn;
	bool nak_sent, nak_repeated, rnr_sent, refused;
	/* The message that has begun. */
	enum { FOREIGN_BETWEEN, FOREIGN_IN_SEND, FOREIGN_IN_WRITE } msg;
	uint32_t off, left;        /**< bytes of it so far; WRITE: bytes to come */
	uint32_t target_off;
	uint32_t taken;            /**< receives */
	uint32_t unacked;          /**< packets since the last ACK */
	struct foreign_result results[FOREIGN_RESULTS];
	uint32_t nb_results;       /**< in all */
	struct foreign_answer answers[FOREIGN_ANSWERS];
	uint32_t first_answer, nb_answers;
};

struct foreign {
	struct sim_qp *q;
	struct rng rng;
	struct foreign_habits h;
	struct wire_tmpl t;
	uint32_t round;            /**< of the program, from 1; 0: not begun */
	uint64_t run_at;           /**< when its next turn is; UINT64_MAX: none */
	struct foreign_requester req;
	struct foreign_responder resp;
};

/** A packet that a foreign end sends. */
struct foreign_packet {
	uint8_t op;                /**< of RC; XRC has the same ones */
	uint32_t psn;
	bool ackreq, solicited;
	uint32_t srqn;             /**< of XRC's requests */
	uint8_t hdr[WIRE_ATOMICETH_BYTES + WIRE_RETH_BYTES]; /**< behind the BTH; of XRC behind the XRCETH */
	const uint8_t *payload;
	uint32_t payload_bytes;
};

/* foreign.c */
void foreign_send(struct sim_world *w, struct foreign *f, struct foreign_packet *p);
/** Report the completion of send @p i or of the next receive. */
void foreign_sent(struct sim_world *w, struct foreign *f, uint32_t i, uint8_t status);
void foreign_received(struct sim_world *w, struct foreign *f, uint8_t status, const struct wire_pkt *p, uint32_t len);
/** The QP fails: what is posted comes back, and the program sees ERR. */
void foreign_error(struct sim_world *w, struct foreign *f);
/** Have a turn at @p at at the latest. */
void foreign_run_at(struct sim_world *w, struct foreign *f, uint64_t at);
uint32_t foreign_mtu_shift(const struct foreign *f);
/** Write bytes of a message, from offset @p off on, into its @p nb pieces, as far as these reach. */
void foreign_scatter(const struct sim_piece *pieces, uint32_t nb, uint32_t off, const uint8_t *data, uint32_t len);

/* foreign_req.c */
void foreign_req_begin(struct foreign *f);
/** Send what may be sent, and look at the timers. */
void foreign_req_turn(struct sim_world *w, struct foreign *f);
void foreign_req_rx(struct sim_world *w, struct foreign *f, const struct wire_pkt *p);

/* foreign_resp.c */
void foreign_resp_begin(struct foreign *f);
/** Send some of the answers that are due. */
void foreign_resp_turn(struct sim_world *w, struct foreign *f);
void foreign_resp_rx(struct sim_world *w, struct foreign *f, const struct wire_pkt *p);

#endif /* SIM_FOREIGN_H */
