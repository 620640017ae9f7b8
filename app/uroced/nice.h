/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCED_NICE_H
#define UROCED_NICE_H

/**
 * Set the nice value of this thread and of those that it makes from now on; and of its session, if the process leads one and the kernel shares
 * CPUs by sessions.
 * @param nice  -20 to 19.
 * @return 0 or an errno value: EACCES or EPERM if the process lacks CAP_SYS_NICE.
 */
int nice_process(int nice);
/** For the moments in which no daemon serves programs that are there already: run before those. Without CAP_SYS_NICE it does nothing. Thread: main. */
void nice_hurry(void);
/** After nice_hurry(): the session has the value that it had before. [before rights are given up] */
void nice_calm_session(void);
/** After nice_hurry(): all threads of the process, those that were made meanwhile as well, have the value that it had before. It needs no right. */
void nice_calm(void);

/** What is left to do for process @p pid is the kernel's: not before what this one does for programs that wait. */
void nice_ending(int pid);
/** Nobody waits for this process any more: all of its threads run behind others. */
void nice_last(void);

#endif /* UROCED_NICE_H */
