/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A checkpoint: the records of all objects of a stack as they are now, in a memfd that outlives the daemon when it crashes. docs/internals/restart.md.
 *
 * The memfd has a page with the number of the last transaction that counts, and behind it chunks of slots; the slots of a chunk have one size. A slot has
 * the records of one object, the number of the transaction that wrote it and, once it is replaced or its object is destroyed, that of its end.
 * checkpoint_commit() makes a transaction count by one store. A process is killed between two instructions, so what it stored before is there.
 *
 * Owns: the memfd and its mappings. Called by: core/saving.c; checkpoint_read() by app/uroced. Thread: control.
 */
#ifndef UROCE_CONTROL_CHECKPOINT_H
#define UROCE_CONTROL_CHECKPOINT_H

#include "control/core/stream.h"
#include "ring/abi.h"

/** Limits: of a checkpoint, of the records in a slot, and of the descriptors of one object. */
#define CHECKPOINT_BYTES (UINT64_C(2) << 30)
enum { CHECKPOINT_RECORDS_BYTES = 256 << 20, CHECKPOINT_OBJECT_FDS = 16 + UROCE_MAX_ENGINES };

/** Who keeps descriptors for the next daemon. */
struct checkpoint_host {
	/** The memfd of the checkpoint. @return 0 or an errno value. */
	int (*begin)(void *arg, int fd);
	/** Keep a duplicate of @p fd. @param number  Receives its number in records. @return 0 or an errno value. */
	int (*keep)(void *arg, int fd, uint32_t *number);
	/** The transactions that name it don't count any more. */
	void (*forget)(void *arg, uint32_t number);
	/** The checkpoint is complete for the first time: what the daemon before has left isn't needed any more. */
	void (*complete)(void *arg);
	void *arg;
};

/** Whose records those in a slot are. In the stream they come in this order. */
struct checkpoint_key {
	uint64_t session; /**< 0: the stack; UINT64_MAX: behind all sessions */
	uint32_t kind;    /**< of object */
	uint64_t order;   /**< among those of its kind; no two objects have the same */
};

struct checkpoint_slot;
/** A descriptor of an object. */
struct checkpoint_fd {
	uint64_t dev, ino; /**< of the file: a number may have become another file's */
	int fd;
	uint32_t number;
	bool used;
};
/** What the writer has to know of an object: zeroes for one that has no slot. */
struct checkpoint_entry {
	struct checkpoint_slot *slot;
	struct checkpoint_fd *fds;
	uint32_t nb_fds;
};

struct checkpoint;

/** @param host  Is copied. @return NULL with errno set. */
struct checkpoint *checkpoint_create(const struct checkpoint_host *host);
/** The entries must have been dropped. */
void checkpoint_destroy(struct checkpoint *c);
/** @return the memfd. */
int checkpoint_fd(const struct checkpoint *c);
/** @return bytes in use, with the memfd's other slots. */
uint64_t checkpoint_bytes(const struct checkpoint *c);

/**
 * Begin to write records: stream_put_fd() on @p o gives descriptors to the host.
 * @param o  An empty stream; its room may be used again for the next object.
 */
void checkpoint_begin(struct checkpoint *c, struct checkpoint_entry *e, struct stream_out *o);
/**
 * Write the records in @p o to a slot, in place of those that the object had.
 * @return 0; ENOSPC: the checkpoint is full, or the records or descriptors are too many; ENOMEM; what keep() returned. Then the object has no slot.
 */
int checkpoint_write(struct checkpoint *c, struct checkpoint_entry *e, const struct checkpoint_key *key, struct stream_out *o);
/** The object is destroyed. */
void checkpoint_drop(struct checkpoint *c, struct checkpoint_entry *e);
/** All that was written and dropped since the last call counts from now on. @return false: nothing was. */
bool checkpoint_commit(struct checkpoint *c);

/** What checkpoint_read() has found. */
struct checkpoint_found {
	uint32_t slots;   /**< that count and are whole */
	uint32_t damaged; /**< slots; the sessions of which they are have been left out */
	uint32_t sessions_lost;
};
/**
 * Append the records of a checkpoint to @p o, in the order of a hand-over.
 * @param told  Called with a line for each session that is left out; NULL: nobody wants to know.
 * @return 0; EPROTO: it isn't one of this version; ENOMEM; another errno value.
 */
int checkpoint_read(int fd, struct stream_out *o, struct checkpoint_found *n, void (*told)(void *arg, const char *text), void *arg);

#endif /* UROCE_CONTROL_CHECKPOINT_H */
