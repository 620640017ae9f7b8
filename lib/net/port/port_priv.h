/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/net/port share about opening, starting and stopping an ethdev. Thread: control, unless a function says otherwise.
 */
#ifndef UROCE_PORT_PRIV_H
#define UROCE_PORT_PRIV_H

#include <rte_common.h>
#include <rte_ethdev.h>

#include "net/net_priv.h"

/** State while a port is being opened, or started again. */
struct opening {
	struct net_port *p;
	struct rte_eth_dev_info info;
	struct rte_mempool *pool; /**< the caller's */
	uint32_t ip_mtu;          /**< the port's */
	uint16_t rx_desc, tx_desc;
	bool again;               /**< while the daemon serves: don't wait for a peer */
	char *err;
	size_t err_bytes;
};
/** Write "port NAME: ..." into the caller's message. @return -1. */
int opening_fail(struct opening *o, const char *format, ...) __rte_format_printf(2, 3);

/* ---- mtu.c ---- */
/**
 * Choose the IP MTU of a port whose ethdev and interface are known.
 * @param mtu  The configured one, or 0.
 * @return 0 and o->ip_mtu, or -1 with a message.
 */
int mtu_choose(struct opening *o, uint16_t mtu);
/** The port has IP MTU @p ip_mtu from now on. */
void mtu_use(struct net_port *p, uint32_t ip_mtu);

/* ---- queues.c ---- */
/** @return the data room of the mbufs of @p pool, without headroom. */
uint32_t pool_room(const struct rte_mempool *pool);
/** Configure the ethdev and its queues, and start it. @return 0, or -1 with a message. */
int queues_start(struct opening *o);
/**
 * [EAL's interrupt thread; no engine uses the ethdev] Stop it and start it again with the same queues.
 * @param reset  Reset the device in between, if its driver can.
 * @return 0, or -1 with a message.
 */
int queues_restart(struct net_port *p, bool reset, char *err, size_t err_bytes);
/** Stop and close the ethdev. @return false: EAL's interrupt thread didn't answer; the ethdev may go on using what it has. */
bool queues_close(struct net_port *p);

/* ---- gids.c ---- */
/** Fill the GID table of a port that is being opened. @return 0, or -1 with a message. */
int gids_open(struct opening *o);

/** Put the addresses that @p from has, which was opened in the place of @p p, at the indices that they had. */
void gids_take(struct net_port *p, const struct net_port *from);
/** No address is left. */
void gids_clear(struct net_port *p);

/* ---- reopen.c ---- */
/** Learn how the device of a port can be made again, before it is opened. */
void reopen_begin(struct net_port *p);
/** No closing or opening is under way any more; free what it left. */
void reopen_end(struct net_port *p);
/** PORT_EV_REOPENED: have the new ethdev. */
void reopen_adopt(struct net_port *p);

/* ---- port.c ---- */
/** net_port_open() for a port that has existed before. @param pool  Its RX pool, or NULL. */
struct net_port *port_open_again(const struct net_port *p, struct rte_mempool *pool, char *err, size_t err_bytes);

/* ---- event.c ---- */
/** A port is being made. */
void events_init(struct net_port *p);
/** The port was opened: have the driver report events. */
void events_begin(struct net_port *p);
/** No more events, and no restart is under way. */
void events_end(struct net_port *p);
/** [any] Note events, enum port_event, and wake who handles them. */
void events_put(struct net_port *p, uint32_t events);

#endif /* UROCE_PORT_PRIV_H */
