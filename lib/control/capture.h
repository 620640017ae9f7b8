/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What goes over ports, into a pcapng file, while the daemon runs.
 *
 * Owns: struct capture, at most one at a time: a pool of copies, which engines fill (struct engine_tap) and a thread of its own writes, so
 * that no engine waits for a disk; what there is no copy for is counted, and the file says so. Engines learn of it by their
 * mailboxes. Packets are seen as the transport gets and gives them: behind an impairment, and not what goes from a host to itself. A
 * received packet that the transport dropped has a comment with the name of the counter. Called by: telemetry, apps. Thread:
 * any; takes control_lock().
 */
#ifndef UROCE_CAPTURE_H
#define UROCE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct control;

enum {
	CAPTURE_FILE_BYTES = 256,
	CAPTURE_COPIES = 4096,        /**< packets on their way to the file */
	CAPTURE_SNAP_MIN = 64,
};

struct capture_params {
	const char *file;  /**< absolute path; must not exist, and will be readable by the daemon's user only */
	int port;          /**< index; -1: all */
	uint32_t qpn;      /**< packets to and from this QP only; 0: all */
	uint32_t snap_bytes; /**< of each packet at most; 0: all of it */
};

struct capture_stats {
	bool running;
	char file[CAPTURE_FILE_BYTES];
	int port;
	uint32_t qpn;
	uint64_t packets, bytes; /**< in the file */
	uint64_t missed;         /**< that there was no copy for: the file is slower than the port */
	int error;               /**< errno of writing the file, 0: none */
};

/**
 * Begin.
 * @param err  Gets what was wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0; EBUSY (one runs already), ENOENT (no such port or QP), EINVAL, or the errno of making the file.
 */
int control_capture_start(struct control *c, const struct capture_params *p, char *err);
/** How is it going? @return false: none runs. */
bool control_capture_status(struct control *c, struct capture_stats *out);
/** End it: all that was seen is in the file when this returns. @return 0, or ENOENT: none runs. */
int control_capture_stop(struct control *c, struct capture_stats *out);

#endif /* UROCE_CAPTURE_H */
