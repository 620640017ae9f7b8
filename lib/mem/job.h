/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Jobs: copies to and from memory that isn't mapped here, which may take as long as the program likes: a page fault there may wait for
 * userfaultfd or a file system. So engines never make them. An engine describes the copy in a job and hands it to somebody else, a
 * copier thread (copier.h) or the simulator, who runs it and gives the job back.
 *
 * A job refers to nothing that can go away with an MR, a QP or a session: addresses are the program's, bytes are in the job's own buffer,
 * and the descriptor of the memory is open until the job is given back.
 */
#ifndef UROCE_MEM_JOB_H
#define UROCE_MEM_JOB_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/abi.h"

/** What a job does. */
enum mem_job_op {
	MEM_JOB_READ,      /**< memory to the buffer */
	MEM_JOB_WRITE,     /**< the buffer to memory: one piece after the other, the last bytes of each after all others of it */
	MEM_JOB_CMP_SWAP,  /**< atomics on eight bytes, see mr_atomic(); atomic among the jobs of a user's sessions */
	MEM_JOB_FETCH_ADD,
};

/** How far a job has come. */
enum mem_job_state {
	MEM_JOB_WAITS = 0, /**< nothing of it has been done */
	MEM_JOB_RUNS,      /**< it may be accessing memory */
	MEM_JOB_CUT,       /**< nobody wants it any more: it must not begin */
};

/** A piece of the program's memory. */
struct mem_piece {
	uint64_t va; /**< in the program's address space */
	uint32_t length;
};

struct mem_owner;

/**
 * What has become of an atomic, in memory that outlives the process. It was executed if `state` is the job's note_done; if it is note_begun, the program's memory tells: it has
 * `before` or `after`.
 */
struct mem_note {
	_Atomic uint64_t state;
	uint64_t before, after;
	uint64_t check;            /**< mem_note_check() */
};

/** @return the check of a note whose state is @p begun, or what this became. */
static inline uint64_t
mem_note_check(const struct mem_note *n, uint64_t begun)
{
	return n->before ^ (n->after << 1 | n->after >> 63) ^ begun ^ UINT64_C(0x5aa55aa55aa55aa5);
}

enum { MEM_JOB_PIECES = 64 }; /**< of a job, at most: those of several packets, or of a message */
static_assert((int)MEM_JOB_PIECES > (int)UROCE_MAX_SGE, "a packet and its GRH fit into a job");

struct mem_job {
	struct mem_job *next;      /**< for whoever has the job */
	struct mem_owner *owner;   /**< valid only while the job is handed over */
	void *lane;                /**< of the copier that runs it */
	void (*done)(struct mem_job *job); /**< called by who runs it, to give it back; set by the engine */
	void *engine;
	int fd;                    /**< /proc/PID/mem */
	int rc;                    /**< 0; EFAULT: there is no such memory; ECANCELED: it was not begun */
	uint8_t op;                /**< enum mem_job_op */
	uint8_t nb_pieces;
	uint8_t nb_done;           /**< WRITE: pieces that are in memory; if rc isn't 0, the next one could not be written */
	uint32_t nb_read;          /**< READ: bytes in the buffer; if rc isn't 0, the next one isn't there */
	uint32_t epoch;            /**< the lane's when the job was handed over (copier.h) */
	_Atomic uint32_t state;    /**< enum mem_job_state */
	uint32_t length;           /**< bytes of all pieces */
	uint8_t *data;
	uint64_t arg1, arg2;       /**< of atomics */
	uint64_t old;              /**< result of atomics */
	struct mem_note *note;     /**< of an atomic that is to be noted, or NULL */
	uint64_t note_begun, note_done;
	struct mem_piece pieces[MEM_JOB_PIECES]; /**< atomics: one */
};

/** [copier] Do the copy, unless it was cut. Sets rc and old. */
void mem_job_run(struct mem_job *job);

/**
 * [engine] Nobody waits for the job any more: it shall not begin.
 * @return true if it had not begun, and never will; false: it may be accessing memory.
 */
static inline bool
mem_job_cut(struct mem_job *job)
{
	uint32_t waits = MEM_JOB_WAITS;

	return atomic_compare_exchange_strong(&job->state, &waits, MEM_JOB_CUT) || waits == MEM_JOB_CUT;
}

/** [copier] @return false: the job was cut and must not begin. */
static inline bool
mem_job_begin(struct mem_job *job)
{
	uint32_t waits = MEM_JOB_WAITS;

	return atomic_compare_exchange_strong(&job->state, &waits, MEM_JOB_RUNS);
}

#endif /* UROCE_MEM_JOB_H */
