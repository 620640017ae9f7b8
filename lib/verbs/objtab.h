/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Cookies: numbers for CQs, QPs and SRQs that the daemon puts into events.
 *
 * Events waiting in a socket can outlive their object. A cookie contains an index and the generation of its slot, so for
 * such an event no object is found, where a pointer would refer to freed memory. The mutex also protects the objects'
 * counts of reported events: an object that was removed under the mutex gets no more events.
 *
 * Used by: one struct objtab per context. Thread: any. objtab_add() and objtab_remove() take the mutex; a caller of
 * objtab_get() holds it as long as it uses the object.
 */
#ifndef UROCE_CLIENT_OBJTAB_H
#define UROCE_CLIENT_OBJTAB_H

#include <pthread.h>
#include <stdint.h>

struct objtab_slot {
	void *obj;
	uint32_t generation;
	uint32_t next_free; /**< index + 1, 0: none */
};

struct objtab {
	pthread_mutex_t mutex;
	struct objtab_slot *slots;
	uint32_t nb_slots;
	uint32_t first_free; /**< index + 1, 0: none */
};

/** Initialize an empty table. */
void objtab_init(struct objtab *t);
/** Free the table, not the objects. */
void objtab_fini(struct objtab *t);
/** @return a cookie, or UINT64_MAX if there is no memory. */
uint64_t objtab_add(struct objtab *t, void *obj);
/** [mutex held] @return the object, or NULL if it was removed. */
void *objtab_get(const struct objtab *t, uint64_t cookie);
/** Make the cookie invalid. */
void objtab_remove(struct objtab *t, uint64_t cookie);

#endif /* UROCE_CLIENT_OBJTAB_H */
