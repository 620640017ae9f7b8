/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What there is, for somebody who has just come. Thread: main lcore.
 */
#ifndef UROCE_TEST_BANNER_H
#define UROCE_TEST_BANNER_H

/** Print the hosts with their ports and addresses, and commands to begin with. */
void banner_print(void);
/** @return what the host, object, workload or kind of workload called @p name is, for command_describe(); NULL: there is none. */
const char *banner_describe(const char *name);

#endif /* UROCE_TEST_BANNER_H */
