/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The port's addresses that QPs and AHs of a session have as their own.
 *
 * Owns: nothing. Called by: addresses.c, qp_create.c, ah.c. Thread: control.
 */
#ifndef UROCE_OBJ_OWN_ADDRESS_PRIV_H
#define UROCE_OBJ_OWN_ADDRESS_PRIV_H

#include "control/core/session_priv.h"
#include "transport/path/changes.h"

/**
 * Address @p gid is no address of the session's port any more (@p gone), or again one: what QPs and AHs send from it is lost meanwhile.
 * @return how many of them have it.
 */
uint32_t own_address_gone(struct session *s, const struct gid *gid, bool gone);
/** AHs of the session follow neighbours whose MAC address has changed. @return how many have. */
uint32_t own_ahs_follow_mac(struct session *s, tp_mac_fn fn, const void *arg);
/** The device of the session's port has gone: its QPs fail, and it can make no new ones (session.device_gone). */
void own_device_gone(struct session *s);
/** @return a bit for each GID index that QPs and AHs of the session have been given. */
uint32_t own_address_indices(const struct session *s);
/**
 * [engine stopped] A QP of the daemon before is there again; the port may have other addresses than it had there.
 * @return obj_qp.gids.
 */
uint32_t own_address_resumed_qp(const struct session *s, struct qp *qp);
/** The same of an AH. @return obj_ah.sgid_index. */
uint8_t own_address_resumed_ah(const struct session *s, uint32_t wqe_handle);

#endif /* UROCE_OBJ_OWN_ADDRESS_PRIV_H */
