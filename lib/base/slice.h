/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Time slices of threads that others wait for: engines and copiers. Thread: any, for itself.
 */
#ifndef UROCE_BASE_SLICE_H
#define UROCE_BASE_SLICE_H

#include <stdint.h>

enum { SLICE_SHORT_NS = 100000 }; /**< Linux's minimum; its default is about 3 ms */

/**
 * Ask for time slices of @p ns: a thread with a short slice runs soon after it wakes up, for as long as it doesn't use more than its share.
 * Since Linux 6.12; before it this does nothing (sched_setattr(2), kernel/sched/fair.c).
 * @return the slice before; 0: none, or this thread isn't SCHED_OTHER.
 */
uint64_t slice_set(uint64_t ns);

#endif /* UROCE_BASE_SLICE_H */
