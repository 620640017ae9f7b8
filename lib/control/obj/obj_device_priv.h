/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The device that a session opens: what it shares with the engines, and the attributes of devices and ports.
 *
 * Owns: the session's doorbells, asynchronous events, memory of queues and memfd of converted memory, from
 * DEVICE_OPEN to device_close(). Called by: the handlers of requests, session_end.c. Thread: control.
 */
#ifndef UROCE_OBJ_DEVICE_PRIV_H
#define UROCE_OBJ_DEVICE_PRIV_H

#include "control/core/session_priv.h"

/* ---- device.c ---- */
op_fn op_hello, op_memory, op_device_open;
/** Undo op_device_open(), however far it got; the session may have no objects left. */
void device_close(struct session *s);

/** The descriptors of an open device; -1: none. */
struct device_parts {
	int kicks[CTL_MAX_KICKS];
	int doorbells, memory, events;
};
/** Look at those of @p s, which remain its own. */
void device_look(const struct session *s, struct device_parts *p);
/**
 * [engines stopped] Open the device as it was in the daemon before.
 * @param p  Become the session's, even if this fails.
 * @return 0, or an errno value with @p r failed; device_close() is right after either.
 */
int device_restore(struct session *s, struct net_port *port, const struct device_parts *p, struct request *r);
/** As op_memory(), with a descriptor that the daemon before had checked. @param fd  Becomes the session's; -1: it had none. */
int memory_restore(struct session *s, int fd, struct request *r);

/* ---- query.c ---- */
op_fn op_device_get, op_device_query, op_port_query, op_gid_table;
/** Sum up, over all engines, the packets with wrong P_Keys and Q_Keys that a port received. */
void port_violations(const struct control *c, uint16_t port, uint64_t *bad_pkey, uint64_t *bad_qkey);

#endif /* UROCE_OBJ_DEVICE_PRIV_H */
