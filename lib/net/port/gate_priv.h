/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What stands between net_memif and its peer: gate.c. Threads: control, EAL's interrupt thread. */
#ifndef UROCE_PORT_GATE_PRIV_H
#define UROCE_PORT_GATE_PRIV_H

struct net_port;

/** The port was opened. Does nothing for PMDs other than net_memif. @return 0, or ENOMEM. */
int gate_open(struct net_port *p);
/** The ethdev was closed. */
void gate_close(struct net_port *p);
/** No gate is being made any more. */
void gate_stop(struct net_port *p);

#endif /* UROCE_PORT_GATE_PRIV_H */
