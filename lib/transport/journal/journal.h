/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Journals: what a transport knows, in memory that outlives its process. docs/internals/restart.md has the whole of it.
 *
 * A transport that is given memory (transport_config.journal) keeps a journal there: the record of each of its QPs, the counters of its SRQs, and what
 * it is about to show to others. After `kill -9` another process reads the journals of all transports, settles the rings that programs share with
 * the daemon, and gets records as transport/record/record.h has them, from which it makes everything again, as after a planned hand-over.
 *
 * A turn counts as a whole or not at all. Completions, heads of SRQs, the state that a QP shows to its client, events and packets wait for the word that makes it count:
 * transport_run() writes it at its end. These functions write it before they return, so that the caller may tell others what was done: qp_create(),
 * qp_modify(), qp_modify_paths(), qp_destroy(), qp_device_gone(), qp_restore(), srq_create(), srq_restore(), srq_set_limit(), srq_destroy(), qp_move_leave(),
 * qp_move_arrive(), qp_move_take_held() and cq_release_deferred(). Whoever sends what transport_tx() and transport_loop() have must do it after transport_run(), as
 * engines do.
 *
 * What isn't in a journal, and is the caller's to keep: which objects there are and with what parameters, moderation of CQs, AHs, groups, MRs and keys, memory windows, and
 * events that were handed to transport_config.event and notify.
 *
 * Owns: struct journals. Thread: the writing side belongs to its transport's engine; the reading side is for one thread.
 */
#ifndef UROCE_TRANSPORT_JOURNAL_H
#define UROCE_TRANSPORT_JOURNAL_H

#include "transport/record/record.h"

/* ---- Writing: transport_config.journal ---- */
/**
 * @return how many bytes of memory a journal needs; 0: a limit is 0 or beyond those of lib/ring/abi.h. Memory that is never used is never touched, so a sparse
 * memfd holds little more than what its QPs need: at most 8 KiB for each.
 */
size_t journal_bytes(const struct journal_limits *l);
/**
 * [engine] Make everything count that was done until now, and show it. Needed only by those who tell others of something before the next turn has ended, and for which the
 * functions named above don't do it. Nothing without a journal.
 */
void transport_commit(struct transport *tp);

/* ---- Reading: the journals of a process that was killed ---- */
/** The largest record that journals_qp() gives. */
#define JOURNAL_QP_BYTES ((uint32_t)(sizeof(struct qp_record) + sizeof(struct qp_record_wqe) + UROCE_MAX_RD_ATOMIC * (sizeof(struct qp_record_res) + \
	sizeof(struct qp_record_read) + sizeof(struct qp_record_kept)) + UROCE_MAX_SGE * sizeof(struct qp_record_sge)))

struct journals;
/** The memory of one journal. Nobody may write it any more. */
struct journal_memory {
	const void *at;   /**< aligned to a page; NULL: it is lost */
	size_t bytes;     /**< that may be read */
};

/**
 * Open the journals of all transports of one process, by the numbers of their engines. The memory must stay as it is until journals_close(). Nothing in it is
 * changed, so that a process that is killed while it reads leaves it to the next one; the new transports get other memory.
 * @param why  Of each engine: NULL, or why its journal can't be read: a static string that begins with the name of what is wrong. Its QPs are lost, and what it alone knew of
 * CQs and SRQs. @p nb entries.
 * @return 0, also if some or all can't be read; ENOMEM.
 */
int journals_open(const struct journal_memory *m, unsigned int nb, struct journals **out, const char **why);
void journals_close(struct journals *j);

/** What became of a QP. */
struct journal_qp {
	uint32_t qpn;
	unsigned int engine; /**< where it was */
	bool lost;           /**< its record is damaged: journals_qp() will say EBADMSG */
};
/** @return the number of QPs that there were, lost ones as well. Of a lost one even the number may be: then it isn't among them, and journals_qp() doesn't know it. */
uint32_t journals_qps(const struct journals *j);
/** Get the n-th of them, in the order of their numbers. */
void journals_nth_qp(const struct journals *j, uint32_t n, struct journal_qp *qp);
/**
 * Get the record of a QP, for qp_restore().
 * @param mrs  The table of MRs, already restored under their old keys: tells whether the atomic was executed that was under way. NULL: it counts as executed.
 * @param now_ns  Of the clock that the transports had: how much is left of its timer.
 * @param to  Room for JOURNAL_QP_BYTES, aligned to 8.
 * @param engine  If not NULL: gets the number of its engine.
 * @return 0; ENOENT: there was no such QP; EBADMSG: its record is damaged. In both cases a program that has it has lost it.
 */
int journals_qp(const struct journals *j, uint32_t qpn, struct mr_table *mrs, uint64_t now_ns, struct qp_record *to, unsigned int *engine);

/**
 * Settle a CQ: show completions that count and weren't shown, in their order, and take back the rest. Then get its record, for cq_restore(). Its program may
 * poll meanwhile. Doing it again changes nothing.
 * @param number  cq_params.number.
 * @param p  As it will be given to cq_restore(): the ring that is in use, with the program's counters in p->shared.
 * @param old  The ring before, if its program hasn't been told of a resize: what is unpolled there moves to p->ring, where the program's next
 * CQE is shared->cons. Else NULL: the program moves them.
 * @param moderation  completions << 16 | microseconds, as cq_moderate() was told.
 * @return 0; EINVAL: there can't be such a CQ in these journals; ENOMEM.
 */
int journals_cq(struct journals *j, uint32_t number, const struct cq_params *p, const struct cq_params *old, uint32_t moderation, struct cq_record *to);

/**
 * Get the record of an SRQ, for srq_restore(), which shows the program which slots are free.
 * @param number  srq_params.number.
 * @param p  As it will be given to srq_restore().
 * @param engine  If not NULL: gets the number of its engine.
 * @return 0; ENOENT: there is none; EBADMSG: it is damaged.
 */
int journals_srq(const struct journals *j, uint32_t number, const struct srq_params *p, struct srq_record *to, unsigned int *engine);

/** What an event was about. */
enum journal_object { JOURNAL_QP = 1, JOURNAL_CQ, JOURNAL_SRQ };
struct journal_event {
	enum uroce_event type;
	enum journal_object of;
	uint32_t number; /**< QP number; cq_params.number, srq_params.number */
};
/** @return the number of asynchronous events of turns that count, for which transport_config.event may not have been called. Some may have been told already. */
uint32_t journals_events(const struct journals *j);
void journals_nth_event(const struct journals *j, uint32_t n, struct journal_event *ev);

/**
 * Get what a transport had counted, for transport_restore(). It may be older by JOURNAL_COUNTERS_NS.
 * @return 0; EBADMSG: it is lost.
 */
int journals_counters(const struct journals *j, unsigned int engine, struct transport_record *to);
#define JOURNAL_COUNTERS_NS 10000000

#endif /* UROCE_TRANSPORT_JOURNAL_H */
