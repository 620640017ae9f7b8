/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How the stacks of a process go to another process (control/handover.h): the steps that uroced, which has several stacks and lcores for its engines,
 * and uroce_suspend() have in common.
 *
 * The one that goes:  suspend_settle(); engines stopped; suspend_save(); talk_send(); stack_leave().
 * The one that comes: stack_prepare(); talk_ask(); suspend_check(); talk_reply(); ports attached; stack_open().
 *
 * Owns: nothing. Called by: lib/uroce, app/uroced. Thread: as each function says.
 */
#ifndef UROCE_SUSPEND_H
#define UROCE_SUSPEND_H

#include "control/core/stream.h"
#include "uroce/stack.h"

/** What is written down of a process begins with this. */
void suspend_put_process(struct stream_out *o, unsigned int nb_stacks);
/**
 * [nobody drives the controls] Finish what is under way, for some seconds at most, and accept nothing new. Engines that no thread is in get turns.
 */
void suspend_settle(struct uroce *const *of, unsigned int n);
/**
 * [nobody drives the controls, engines stopped] Write down all programs, once no copy of their memory is under way. No new ones begin until
 * suspend_undo(), which is needed after a failure, too.
 * @return 0; EBUSY: the copies don't end; ENOMEM.
 */
int suspend_save(struct uroce *const *of, unsigned int n, struct stream_out *o);
/** What went wrong with suspend_save(), for a message. */
const char *suspend_why(int rc);
/** [nobody drives the controls] It was in vain: begin copies, and accept programs and their requests again. */
void suspend_undo(struct uroce *const *of, unsigned int n);
/**
 * Check whether stacks with these configurations can go on from @p in, which isn't read by that.
 * @param nb_engines,nb_cpus  Of each stack.
 * @param text  Receives what is wrong and what would be right, TALK_TEXT_BYTES long.
 * @return 0, or -1 with a text.
 */
int suspend_check(struct stream_in *in, const struct uroced_config *confs, unsigned int n, unsigned int nb_engines, unsigned int nb_cpus, char *text);
/**
 * [stack_host.hand_over] Another process asks for the programs of stack @p u: note it for uroce_suspend(), and tell the application.
 * @return 0 or an errno value.
 */
int suspend_asked(void *u, int sock);

#endif /* UROCE_SUSPEND_H */
