/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One of two programs that check each other's verbs: the same on both ends of a wire, whatever the devices.
 *
 * A cell is one thing to try, a line of words (peer.c has them) that both sides read. The leader sends it to the
 * follower over TCP; both make a QP, tell each other about it, connect; the requester does it, the responder looks at
 * what arrived. Each side has one thread.
 */
#ifndef UROCE_INTEROP_PEER_H
#define UROCE_INTEROP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	AREA_BYTES = 2 << 20,   /**< what goes out, and as much for what comes in */
	GUARD_BYTES = 64,       /**< behind each message; must stay as it is */
	GUARD_BYTE = 0xee,
	GRH_BYTES = 40,
	DEPTH = 32,
	PORT = 1,
	RD_ATOMIC = 4,
	TEXT_BYTES = 256,
	ADDED = 5,              /**< what fetch-and-add adds */
	ATOMICS = 8,
	RECV_ID = 1000,         /**< wr_id of the first receive */
	WAIT_MS = 20000,        /**< for a completion that must come; a busy machine may take long */
	UNSENT_MS = 3000,       /**< for a datagram, which may be lost */
};

/** What a side tells the other one about its end of a cell. */
struct about {
	uint8_t gid[16];
	uint64_t addr;
	uint32_t qpn, rkey, window_rkey;
};

struct kind;

struct cell {
	const struct kind *kind;
	uint32_t size, psn, count, pause_ms, flow_label;
	enum ibv_mtu mtu;
	unsigned int family, timeout, retry, rnr_retry, traffic_class;
	bool leader_requests;
	enum ibv_wc_status want;      /**< how the requester's first work request ends */
	enum ibv_wc_status peer_want; /**< how the responder's receive ends */
	uint32_t inv_flag;            /**< how a receive says that a key was invalidated */
};

/** A side: what it keeps from cell to cell, then what the cell at hand has. */
struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *out, *in;
	int gid_index[2]; /**< IPv4, IPv6 */
	int sock;
	bool leader;

	struct cell cell;
	bool requester;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mw *window;
	int group_sock; /**< keeps the kernel in the group; -1: none */
	struct about mine, theirs;
	char problem[TEXT_BYTES]; /**< empty: none so far */
};

/** A thing to try. */
struct kind {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	bool receives;   /**< the responder posts a receive per message before it is connected */
	int short_by;    /**< receives have so many bytes less than the message */
	bool srq;
	bool window;     /**< the responder binds a memory window of type 2 */
	bool deaf;       /**< the responder never becomes ready to receive */
	bool multicast;  /**< to a group, which the responder joins */
	bool solicited;
	uint64_t addr_xor; /**< a remote address, or key, that is wrong */
	uint32_t rkey_xor;
	void (*request)(struct side *s);
	void (*receive)(struct side *s); /**< the responder's part; NULL: it only looks on */
	void (*verify)(struct side *s);  /**< the responder's, when the requester is done */
};
extern const struct kind kinds[];

/** Note what is wrong; the first problem of a cell stays. */
void problem(struct side *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define CHECK(s, cond, ...) \
	do { \
		if (!(cond)) \
			problem(s, __VA_ARGS__); \
	} while (0)

/* ---- peer_verbs.c: objects and work requests ---- */
void device_open(struct side *s, const char *name, const char *ipv4, const char *ipv6);
/** Make what the cell needs, as far as it goes before the other side is known. @return false if it can't be had */
bool cell_objects(struct side *s);
bool cell_connect(struct side *s);
void cell_destroy(struct side *s);

/** The bytes of message @p i of the cell. */
void pattern(uint8_t *p, uint32_t len, uint32_t i);
uint8_t *out_message(struct side *s, uint32_t i);
uint8_t *in_message(struct side *s, uint32_t i);
void expect_message(struct side *s, const uint8_t *p, uint32_t len, uint32_t i);
/** The same for data that no completion announces. */
void await_message(struct side *s, const uint8_t *p, uint32_t len, uint32_t i);
void expect_untouched(struct side *s);

void post_recv(struct side *s, uint32_t i, uint32_t len);
/** A work request of the cell's opcode for message @p i, signalled, as the other side's memory says. */
struct ibv_send_wr message_wr(struct side *s, struct ibv_sge *sge, uint32_t i);
void post_send(struct side *s, struct ibv_send_wr *wr);
/** Wait for the next completion. @return false if none came */
bool next_wc(struct side *s, struct ibv_cq *cq, struct ibv_wc *wc, int wait_ms);
void expect_send(struct side *s, uint64_t wr_id, enum ibv_wc_status status, int opcode);
void expect_state(struct side *s, enum ibv_qp_state state);
void bind_window(struct side *s);

/* ---- peer_tcp.c: the side channel ---- */
int tcp_listen_one(int port);
int tcp_connect_to(const char *address, int port);
/** End the program if the other side is gone: there is nothing to be done without it. */
void tcp_put(struct side *s, const void *data, size_t len);
void tcp_get(struct side *s, void *data, size_t len);
/** Both sides are here. */
void barrier(struct side *s);

#endif /* UROCE_INTEROP_PEER_H */
