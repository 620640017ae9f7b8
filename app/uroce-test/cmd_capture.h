/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The capture that `capture start` started. Thread: main lcore.
 */
#ifndef UROCE_TEST_CMD_CAPTURE_H
#define UROCE_TEST_CMD_CAPTURE_H

/** End the capture and print its result; does nothing if there is none. */
void capture_end(void);

#endif /* UROCE_TEST_CMD_CAPTURE_H */
