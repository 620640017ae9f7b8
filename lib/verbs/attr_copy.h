/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Copying the members that have the same names in all structs of QP attributes: the verbs', the kernel's and ours.
 */
#ifndef UROCE_ATTR_COPY_H
#define UROCE_ATTR_COPY_H

/** Copy these members. Capacities and address vectors are left to the caller. */
#define ATTR_COPY_QP(to, from) \
	do { \
		(to)->qp_state = (from)->qp_state; \
		(to)->cur_qp_state = (from)->cur_qp_state; \
		(to)->path_mtu = (from)->path_mtu; \
		(to)->path_mig_state = (from)->path_mig_state; \
		(to)->qkey = (from)->qkey; \
		(to)->rq_psn = (from)->rq_psn; \
		(to)->sq_psn = (from)->sq_psn; \
		(to)->dest_qp_num = (from)->dest_qp_num; \
		(to)->qp_access_flags = (from)->qp_access_flags; \
		(to)->pkey_index = (from)->pkey_index; \
		(to)->alt_pkey_index = (from)->alt_pkey_index; \
		(to)->en_sqd_async_notify = (from)->en_sqd_async_notify; \
		(to)->sq_draining = (from)->sq_draining; \
		(to)->max_rd_atomic = (from)->max_rd_atomic; \
		(to)->max_dest_rd_atomic = (from)->max_dest_rd_atomic; \
		(to)->min_rnr_timer = (from)->min_rnr_timer; \
		(to)->port_num = (from)->port_num; \
		(to)->timeout = (from)->timeout; \
		(to)->retry_cnt = (from)->retry_cnt; \
		(to)->rnr_retry = (from)->rnr_retry; \
		(to)->alt_port_num = (from)->alt_port_num; \
		(to)->alt_timeout = (from)->alt_timeout; \
	} while (0)

#endif /* UROCE_ATTR_COPY_H */
