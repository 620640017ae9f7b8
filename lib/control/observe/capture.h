/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Captures: the packets of ports, written into a pcapng file while a daemon or an application runs.
 *
 * Owns: struct capture: a pool of copies, which engines fill (struct engine_tap) and a thread of its own writes, so
 * that no engine waits for a disk. Packets for which there is no free copy are counted, and the file says how many. A
 * control is part of one capture at most. Packets are those that the transport receives and sends: after an
 * impairment, and without those from a host to itself. A received packet that the transport dropped has a comment
 * with the name of the counter. Called by: telemetry, for its own control; apps, for those of all their stacks.
 * Thread: any; takes control_lock() of one control after the other.
 */
#ifndef UROCE_CAPTURE_H
#define UROCE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct control;

enum {
	CAPTURE_FILE_BYTES = 256,
	CAPTURE_COPIES = 4096,        /**< packets that are not in the file yet */
	CAPTURE_SNAP_MIN = 64,
	CAPTURE_FROM_MAX = 16,        /**< controls */
};

/** Ports of one control. */
struct capture_from {
	struct control *control;
	uint32_t ports;    /**< a bit for each; those of ports that don't exist are ignored */
	uint32_t qpn;      /**< packets to and from this QP only; 0: all */
	/** [the caller's thread] The interface's name in the file; NULL: that of the configuration. */
	const char *(*name)(struct control *c, unsigned int port);
};

struct capture_params {
	const char *file;
	bool overwrite;      /**< an existing file, with the mode that umask gives; else the file must not exist, and only the user can read it */
	uint32_t snap_bytes; /**< of each packet at most; 0: all of it */
};

struct capture_stats {
	bool running;
	char file[CAPTURE_FILE_BYTES];
	unsigned int ports;
	int port;                /**< index, if one port of the first control is captured; else -1 */
	uint32_t qpn;            /**< of the first control */
	uint64_t packets, bytes; /**< in the file */
	uint64_t missed;         /**< packets without a free copy: the file is slower than the port */
	int error;               /**< errno of writing the file, 0: none */
};

struct capture;

/**
 * Begin.
 * @param from  @p n of different controls, which all live until capture_stop().
 * @param err  Gets what was wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0 and *@p out; EBUSY (one of them is being captured), ENOENT (no such port or QP), EINVAL, or the errno of
 * making the file.
 */
int capture_start(const struct capture_params *p, const struct capture_from *from, unsigned int n, struct capture **out, char *err);
/** Get the counts so far. */
void capture_status(const struct capture *k, struct capture_stats *out);
/** End it and free @p k; when this returns all copies are in the file. @param out  Gets the counts; may be NULL. */
void capture_stop(struct capture *k, struct capture_stats *out);

/* ---- The capture of one control, which ends with it at the latest ---- */
/**
 * @param port  Its index; -1: all.
 * @return as capture_start(). The file must be an absolute path, since the working folder is the daemon's.
 */
int control_capture_start(struct control *c, const struct capture_params *p, int port, uint32_t qpn, char *err);
/** @return false: none runs. */
bool control_capture_status(struct control *c, struct capture_stats *out);
/** @return 0; ENOENT: none runs; EPERM: it is the application's, which began it with capture_start(). */
int control_capture_stop(struct control *c, struct capture_stats *out);

#endif /* UROCE_CAPTURE_H */
