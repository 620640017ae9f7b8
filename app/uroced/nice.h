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

#endif /* UROCED_NICE_H */
