/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The state of a port as its programs see it, and what follows when the link or the device changes. No I/O: what happened and the time
 * come in, what to do comes out.
 *
 *   DOWN ──link up──► UP ──link down──► DOWN
 *     │                │
 *     └── the device wants to be reset, or a memif client has lost its server
 *                      ▼
 *                  RESTARTING ──it started──► DOWN
 *                      │  ▲
 *            it failed ▼  │ after a time
 *                    WAITING
 *
 *   RECOVERING   the driver restarts the device itself
 *   GONE         the device was removed or can't be used any more, from any state, or has not been there yet. The ethdev is closed, and when the
 *                device is there again it is opened: DOWN
 *
 * Called by: control/ports.c. Thread: control.
 */
#ifndef UROCE_PORT_TRACK_H
#define UROCE_PORT_TRACK_H

#include <stdbool.h>
#include <stdint.h>

/** States. PORT_STATE_NAMES has their names in the same order. */
enum port_state { PORT_DOWN, PORT_UP, PORT_RESTARTING, PORT_WAITING, PORT_RECOVERING, PORT_GONE, PORT_STATES };
#define PORT_STATE_NAMES { "down", "up", "restarting", "waiting", "recovering", "removed" }

/** What happened, net_port_events(). */
enum port_event {
	PORT_EV_LINK = 1 << 0,            /**< the link may have changed */
	PORT_EV_WENT_DOWN = 1 << 1,       /**< the link was down, if only for a moment */
	PORT_EV_RESET = 1 << 2,           /**< the device can't go on before it has been reset */
	PORT_EV_REMOVED = 1 << 3,         /**< the device is gone, or beyond repair */
	PORT_EV_RECOVERING = 1 << 4,      /**< the driver has found an error of the device, and restarts it */
	PORT_EV_RECOVERED = 1 << 5,       /**< it has done so */
	PORT_EV_RESTARTED = 1 << 6,       /**< net_port_restart() has succeeded */
	PORT_EV_RESTART_FAILED = 1 << 7,
	PORT_EV_CLOSED = 1 << 9,          /**< net_port_abandon() has ended */
	PORT_EV_PRESENT = 1 << 10,        /**< GONE: the device seems to be there */
	PORT_EV_REOPENED = 1 << 11,       /**< net_port_reopen() has succeeded */
	PORT_EV_REOPEN_FAILED = 1 << 12,
	PORT_EV_ADDRS = 1 << 8,           /**< addresses of the kernel's interface may have changed; nothing for port_track_step() */
};

/** What to do, in this order. */
enum port_action {
	PORT_DO_PAUSE = 1 << 0,   /**< engines must not touch the ethdev */
	PORT_DO_RESTART = 1 << 1, /**< stop and start */
	PORT_DO_RESET = 1 << 2,   /**< reset in between */
	PORT_DO_RESUME = 1 << 3,  /**< engines use the ethdev again */
	PORT_SAY_DOWN = 1 << 4,   /**< IBV_EVENT_PORT_ERR */
	PORT_SAY_UP = 1 << 5,     /**< IBV_EVENT_PORT_ACTIVE */
	PORT_SAY_GONE = 1 << 6,   /**< IBV_EVENT_DEVICE_FATAL, and close the ethdev */
	PORT_DO_REOPEN = 1 << 7,  /**< open the ethdev again */
	PORT_SAY_BACK = 1 << 8,   /**< it is open: programs may have the device again */
};

enum {
	PORT_RETRY_MS = 500,    /**< between a start that failed and the next try */
	PORT_REOPEN_MS = 5000,  /**< between a try to open the device again that failed and the next */
	PORT_CONNECT_MS = 5000, /**< that a memif client which has started may take until its link is up */
};

struct port_track {
	enum port_state state;
	bool needs_peer;  /**< the port starts only if its peer is there, and starts again when it has gone */
	bool reset;       /**< the next start must follow a reset */
	bool again;       /**< RESTARTING: something happened meanwhile, so that it must be done once more */
	bool busy;        /**< GONE: the ethdev is being closed, or opened */
	uint64_t due_ns;  /**< WAITING, GONE: of the next try; DOWN and needs_peer: when to try again although the start succeeded */
	uint64_t downs, restarts, restart_failures, returns; /**< counters */
};

/** A port that has been opened; it is in DOWN. @param gone  It could not be opened: it is in GONE. */
void port_track_init(struct port_track *t, bool needs_peer, bool gone, uint64_t now_ns);
/**
 * @param events  enum port_event.
 * @param up  The link is up now.
 * @return enum port_action. SAY_DOWN with SAY_UP: the link was down for a moment.
 */
uint32_t port_track_step(struct port_track *t, uint32_t events, bool up, uint64_t now_ns);
/** @return when to call port_track_step() at the latest even if nothing happens, UINT64_MAX: never. */
uint64_t port_track_due(const struct port_track *t);
/** @return "up", "restarting" ... */
const char *port_state_name(enum port_state s);

#endif /* UROCE_PORT_TRACK_H */
