/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * From a member to the struct that it lies in, as Linux has it.
 */
#ifndef UROCE_CONTAINER_OF_H
#define UROCE_CONTAINER_OF_H

#include <stddef.h>

/* DPDK's rte_common.h has the same. */
#ifndef container_of
/** @return the struct of @p type whose @p member is at @p ptr. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#endif

#endif /* UROCE_CONTAINER_OF_H */
