/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What goes over ports, into a pcapng file, while a daemon or an application runs.
 *
 * Owns: struct capture: a pool of copies, which engines fill (struct engine_tap) and a thread of its own writes, so that no engine
 * waits for a disk; what there is no copy for is counted, and the file says so. A control is part of one at most. Engines learn of it by
 * their mailboxes. Packets are seen as the transport gets and gives them: behind an impairment, and not what goes from a host to
 * itself. A received packet that the transport dropped has a comment with the name of the counter. Called by: telemetry, for its own
 * control; apps, for those of all their stacks. Thread: any; takes control_lock() of one control after the other.
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
	CAPTURE_FROM_MAX = 16,        /**< controls */
};

/** Ports of one control. */
struct capture_from {
	struct control *control;
	uint32_t ports;    /**< a bit for each; those that it doesn't have count for nothing */
	uint32_t qpn;      /**< packets to and from this QP only; 0: all */
	/** [the caller's thread] The interface's name in the file; NULL: that of the configuration. */
	const char *(*name)(struct control *c, unsigned int port);
};

struct capture_params {
	const char *file;
	bool overwrite;      /**< what is there, and make it readable as umask says; else the file must not exist, and is the user's own */
	uint32_t snap_bytes; /**< of each packet at most; 0: all of it */
};

struct capture_stats {
	bool running;
	char file[CAPTURE_FILE_BYTES];
	unsigned int ports;
	int port;                /**< if it is one of the first control: its index; -1 */
	uint32_t qpn;            /**< of the first control */
	uint64_t packets, bytes; /**< in the file */
	uint64_t missed;         /**< that there was no copy for: the file is slower than the port */
	int error;               /**< errno of writing the file, 0: none */
};

struct capture;

/**
 * Begin.
 * @param from  @p n of different controls, which all live until capture_stop().
 * @param err  Gets what was wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0 and *@p out; EBUSY (one of them is being captured), ENOENT (no such port or QP), EINVAL, or the errno of making the file.
 */
int capture_start(const struct capture_params *p, const struct capture_from *from, unsigned int n, struct capture **out, char *err);
/** How is it going? */
void capture_status(const struct capture *k, struct capture_stats *out);
/** End it and free @p k: all that was seen is in the file when this returns. @param out  May be NULL. */
void capture_stop(struct capture *k, struct capture_stats *out);

/* ---- One control's own, which ends with it at the latest ---- */
/** @param port  Its index; -1: all. @return as capture_start(). The file must be an absolute path: nobody knows a daemon's folder. */
int control_capture_start(struct control *c, const struct capture_params *p, int port, uint32_t qpn, char *err);
/** @return false: none runs. */
bool control_capture_status(struct control *c, struct capture_stats *out);
/** @return 0; ENOENT: none runs; EPERM: it is the application's, which began it with capture_start(). */
int control_capture_stop(struct control *c, struct capture_stats *out);

#endif /* UROCE_CAPTURE_H */
