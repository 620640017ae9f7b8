/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The journals of the engines of a daemon that has crashed (transport/journal/journal.h), while its programs are restored.
 *
 * Owns: struct old_journals, from old_journals_open() to old_journals_close(). Called by: journals.c; those who restore objects. Thread: control.
 */
#ifndef UROCE_CONTROL_OLD_JOURNALS_PRIV_H
#define UROCE_CONTROL_OLD_JOURNALS_PRIV_H

#include "control/core/stream.h"
#include "mem/mw.h"
#include "transport/journal/journal.h"

struct control;

/** The journals of the engines: numbers of descriptors. Only in checkpoints, behind the record of the stack. */
struct journals_record {
	struct record_head head;
	uint32_t nb;
	uint32_t windows; /**< what is known of memory windows: mw_keep() */
	uint32_t fds[UROCE_MAX_ENGINES];
};

/**
 * Open them.
 * @param from  Names as many as this daemon has engines.
 * @param why  Of each engine: NULL, or why its journal can't be read, a static string.
 * @return 0, also if some can't be read; ENOMEM.
 */
int old_journals_open(struct control *c, const struct journals_record *from, struct stream_in *in, const char *why[UROCE_MAX_ENGINES]);
/** Nothing if none are open. */
void old_journals_close(struct control *c);
/** @return those that are open, or NULL. */
struct journals *old_journals(const struct control *c);
/** Find what was known last of the memory window with the index of @p key. @return false: nothing is open, or there was none. */
bool old_window(const struct control *c, uint32_t key, struct mw_state *to);

#endif /* UROCE_CONTROL_OLD_JOURNALS_PRIV_H */
