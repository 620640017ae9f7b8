/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Whose QP is it: on this host, a user can't pass for another one towards a peer.
 *
 * A peer knows a program by its QP number and this host's address, and accepts packets for a connection from whatever QP of this host has
 * sent them. So a program may connect in the name of its user's QPs only, and not to a QP to which another user is connected
 * already. docs/security.md has the rules.
 *
 * Owns: the table of connected QPs by their peers, of which each struct obj_qp is an entry. Called by: qp.c, xrc.c, cma. Thread:
 * control.
 */
#ifndef UROCE_IDENTITY_H
#define UROCE_IDENTITY_H

#include "control/obj/obj_qp_priv.h"

struct user;

/** @return true if @p u has a QP with this number, or has the XRC target with it open. */
bool identity_owns_qp(struct control *c, const struct user *u, uint32_t qpn);
/** @return true if such a QP is in the state ERR. */
bool identity_qp_failed(struct control *c, const struct user *u, uint32_t qpn);

/**
 * Check whether @p qp may be connected to the peer QP @p qpn at @p gid.
 * @return 0; EADDRINUSE: another user's QP is, and no connection manager says that the peer has agreed to this one.
 */
int identity_check_peer(struct session *s, const struct obj_qp *qp, const struct gid *gid, uint32_t qpn);
/** @p qp is connected to that peer now. */
void identity_connected(struct session *s, struct obj_qp *qp, const struct gid *gid, uint32_t qpn);
/** @p qp is going to be destroyed, or back to RESET. It need not be connected. */
void identity_disconnected(struct obj_qp *qp);

#endif /* UROCE_IDENTITY_H */
