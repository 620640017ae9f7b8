/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Captures: the packets of ports, written to a pcapng file while a daemon or an application runs.
 *
 * Owns: struct capture: a pool of copies, which engines fill (struct engine_tap) and a separate thread writes, so that
 * no engine waits for a disk. Packets for which no copy was free are counted, and the file has the number. A control
 * can be part of only one capture. Captured are the packets that the transport receives and sends: after an impairment,
 * and without packets from a host to itself. A received packet that the transport dropped has a comment with the name
 * of the drop counter. Called by: telemetry, for its own control; apps, for those of all their stacks. Thread: any;
 * takes control_lock() of one control after the other.
 */
#ifndef UROCE_CAPTURE_H
#define UROCE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct control;

enum {
	CAPTURE_FILE_BYTES = 256,
	CAPTURE_COPIES = 4096,        /**< packets that have not been written to the file yet */
	CAPTURE_SNAP_MIN = 64,
	CAPTURE_FROM_MAX = 16,        /**< controls */
};

/** The ports of one control that are captured. */
struct capture_from {
	struct control *control;
	uint32_t ports;    /**< a bit per port; bits of ports that don't exist are ignored */
	uint32_t qpn;      /**< only packets to and from this QP; 0: all */
	/** [the caller's thread] @return the interface's name in the file. NULL: the name in the configuration. */
	const char *(*name)(struct control *c, unsigned int port);
};

struct capture_params {
	const char *file;
	bool overwrite;      /**< replace an existing file (mode by umask); else it must not exist, and gets mode 0600 */
	uint32_t snap_bytes; /**< captured of each packet at most; 0: all */
};

struct capture_stats {
	bool running;
	char file[CAPTURE_FILE_BYTES];
	unsigned int ports;
	int port;                /**< index if only one port of the first control is captured, else -1 */
	uint32_t qpn;            /**< of the first control */
	uint64_t packets, bytes; /**< in the file */
	uint64_t missed;         /**< packets for which no copy was free: the file is slower than the port */
	int error;               /**< errno of writing the file, 0: none */
};

struct capture;

/**
 * Start a capture.
 * @param from  @p n different controls, which must exist until capture_stop().
 * @param err  Receives what is wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0 and *@p out; EBUSY (one of them is being captured), ENOENT (no such port or QP), EINVAL, or the errno of
 * creating the file.
 */
int capture_start(const struct capture_params *p, const struct capture_from *from, unsigned int n, struct capture **out, char *err);
/** Get the counts so far. */
void capture_status(const struct capture *k, struct capture_stats *out);
/**
 * End the capture and free @p k; on return all copies are in the file.
 * @param out  Receives the counts; may be NULL.
 */
void capture_stop(struct capture *k, struct capture_stats *out);

/* ---- The capture of one control, which ends no later than the control ---- */
/**
 * @param port  Its index; -1: all.
 * @return as capture_start(). The file must be an absolute path, because the working directory is the daemon's.
 */
int control_capture_start(struct control *c, const struct capture_params *p, int port, uint32_t qpn, char *err);
/** @return false: none runs. */
bool control_capture_status(struct control *c, struct capture_stats *out);
/** @return 0; ENOENT: none is running; EPERM: the application started it with capture_start(). */
int control_capture_stop(struct control *c, struct capture_stats *out);

#endif /* UROCE_CAPTURE_H */
