/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Opening the shared memory that another process has mapped.
 *
 * This is the only thing a stack does for programs with rights that they don't have themselves: it reads the list of their mappings
 * (CAP_SYS_PTRACE), takes hold of a mapped file (CAP_CHECKPOINT_RESTORE) and opens it (CAP_DAC_OVERRIDE). All checks that decide whether that may
 * be are here, in functions without state, so that a process of its own can run them for a daemon without privileges (struct shared_ops).
 *
 * Owns: nothing; the functions are in memory/opener.c. Called by: core/questions.c, app/uroced. Thread: any.
 */
#ifndef UROCE_OPENER_H
#define UROCE_OPENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	SHARED_BATCH = 64, /**< mappings in one call at most */
	SHARED_ASKED = 64, /**< questions of a stack without an answer at most */
};

/** A mapping of a program, in full. */
struct shared_range {
	uint64_t start, end;
	uint32_t writable; /**< 1: the file is to be opened for writing too */
	uint32_t reserved;
};

enum shared_status {
	SHARED_OK,
	SHARED_NO_HOLD,    /**< the mapped file can't be got hold of: err */
	SHARED_UNREADABLE, /**< the program's mappings can't be read */
	SHARED_PRIVATE,    /**< there is no such mapping, or it isn't shared */
	SHARED_CHANGED,    /**< something else is mapped there meanwhile */
	SHARED_NO_MEMORY,  /**< a file of another file system than tmpfs and hugetlbfs */
	SHARED_READ_ONLY,  /**< the mapping is read-only, but the file was to be opened for writing */
	SHARED_NO_OPEN,    /**< the file can't be opened: err */
	SHARED_NO_ANSWER,  /**< whoever opens files for this process can't be asked, or refuses */
	SHARED_LATE,       /**< the answer didn't come in time */
};

/** What became of a struct shared_range. */
struct shared_file {
	int fd;              /**< the caller's; -1 unless status is SHARED_OK */
	uint32_t status;     /**< enum shared_status */
	int32_t err;         /**< errno */
	uint64_t offset;     /**< of the mapping in the file */
	uint64_t page_bytes; /**< of the file */
};

/** The answer to a question: how many descriptors of it are whose, its taker decides. */
struct shared_answer {
	uint64_t number;                         /**< of the question */
	int32_t rc;                              /**< 0 or an errno value: there is nothing else then */
	int dir, maps;                           /**< of ask_process(), or -1 */
	uint32_t n;                              /**< of ask_open(): how many files */
	struct shared_file files[SHARED_BATCH];
};

/**
 * Who opens files: this process itself (shared_ops_own), or another one for it. The other one is asked, and answers later, in any order: whatever
 * a program does with its mappings, nobody here waits for them.
 */
struct shared_ops {
	int fd; /**< readable when there is an answer; -1: this process opens files itself, at once, and isn't asked */
	/** shared_process() for the process at the other end of @p sock. @return 0 or an errno value. EPIPE: nobody will ever answer. */
	int (*ask_process)(void *arg, uint64_t number, int sock);
	/** shared_open(). @return the same. */
	int (*ask_open)(void *arg, uint64_t number, int dir, int maps, const struct shared_range *ranges, unsigned int n);
	/** Take an answer, whose descriptors are then the caller's. @return 0; EAGAIN: there is none; EPIPE: nobody will ever answer. */
	int (*answer)(void *arg, struct shared_answer *a);
	void *arg;
	bool privileged; /**< whether opening can succeed at all */
};

/**
 * Open the directory of process @p pid in /proc, which stays that of this process even if the number is given to another.
 * @param dir  Receives it (O_PATH), or -1.
 * @param maps  Receives its list of mappings, or -1: no permission; NULL: not needed. It stays with the address space that the process has now.
 */
void shared_process(pid_t pid, int *dir, int *maps);

/**
 * Open the files of the mappings @p ranges, each with no more rights than the mapping has.
 * @param dir,maps  From shared_process().
 * @param n  SHARED_BATCH at most.
 * @param out  @p n results. Of these with status SHARED_OK the caller owns the descriptor.
 */
void shared_open(int dir, int maps, const struct shared_range *ranges, unsigned int n, struct shared_file *out);

/** @return true if @p dir and @p maps are of the same process, as shared_process() opened them, and not something else. */
bool shared_is_process(int dir, int maps);

/** Ask the kernel now for what shared_open() must know of its file systems. Later calls need no memfd_create(). */
void shared_prepare(void);

/** Close the descriptors of @p a. */
void shared_answer_close(struct shared_answer *a);

/** @return ops of a process that opens files itself. */
struct shared_ops shared_ops_own(void);

#endif /* UROCE_OPENER_H */
