/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The capture that `capture start` began. Thread: main lcore.
 */
#ifndef UROCE_TEST_CMD_CAPTURE_H
#define UROCE_TEST_CMD_CAPTURE_H

/** End it and say what it has; does nothing if there is none. */
void capture_end(void);

#endif /* UROCE_TEST_CMD_CAPTURE_H */
