/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names in the private nodes of rdma-core's symbol versions, all releases together, that nobody calls: STUB(name, node)
 * for each.
 */
#ifndef UROCE_PRIVATE_NAMES_H
#define UROCE_PRIVATE_NAMES_H

#define PRIVATE_NAMES(STUB, node) \
	STUB(__ioctl_final_num_attrs, node) \
	STUB(__verbs_log, node) \
	STUB(_verbs_init_and_alloc_context, node) \
	STUB(execute_ioctl, node) \
	STUB(ibv_cmd_advise_mr, node) \
	STUB(ibv_cmd_alloc_dm, node) \
	STUB(ibv_cmd_alloc_dmah, node) \
	STUB(ibv_cmd_alloc_mw, node) \
	STUB(ibv_cmd_alloc_pd, node) \
	STUB(ibv_cmd_attach_mcast, node) \
	STUB(ibv_cmd_close_xrcd, node) \
	STUB(ibv_cmd_create_ah, node) \
	STUB(ibv_cmd_create_comp_cntr, node) \
	STUB(ibv_cmd_create_counters, node) \
	STUB(ibv_cmd_create_cq, node) \
	STUB(ibv_cmd_create_cq_ex, node) \
	STUB(ibv_cmd_create_cq_ex2, node) \
	STUB(ibv_cmd_create_flow, node) \
	STUB(ibv_cmd_create_flow_action_esp, node) \
	STUB(ibv_cmd_create_qp, node) \
	STUB(ibv_cmd_create_qp_ex, node) \
	STUB(ibv_cmd_create_qp_ex2, node) \
	STUB(ibv_cmd_create_rwq_ind_table, node) \
	STUB(ibv_cmd_create_srq, node) \
	STUB(ibv_cmd_create_srq_ex, node) \
	STUB(ibv_cmd_create_wq, node) \
	STUB(ibv_cmd_dealloc_mw, node) \
	STUB(ibv_cmd_dealloc_pd, node) \
	STUB(ibv_cmd_dereg_mr, node) \
	STUB(ibv_cmd_destroy_ah, node) \
	STUB(ibv_cmd_destroy_comp_cntr, node) \
	STUB(ibv_cmd_destroy_counters, node) \
	STUB(ibv_cmd_destroy_cq, node) \
	STUB(ibv_cmd_destroy_flow, node) \
	STUB(ibv_cmd_destroy_flow_action, node) \
	STUB(ibv_cmd_destroy_qp, node) \
	STUB(ibv_cmd_destroy_rwq_ind_table, node) \
	STUB(ibv_cmd_destroy_srq, node) \
	STUB(ibv_cmd_destroy_wq, node) \
	STUB(ibv_cmd_detach_mcast, node) \
	STUB(ibv_cmd_export_dmabuf_fd, node) \
	STUB(ibv_cmd_free_dm, node) \
	STUB(ibv_cmd_free_dmah, node) \
	STUB(ibv_cmd_get_context, node) \
	STUB(ibv_cmd_inc_comp_cntr, node) \
	STUB(ibv_cmd_inc_err_comp_cntr, node) \
	STUB(ibv_cmd_modify_cq, node) \
	STUB(ibv_cmd_modify_flow_action_esp, node) \
	STUB(ibv_cmd_modify_qp, node) \
	STUB(ibv_cmd_modify_qp_ex, node) \
	STUB(ibv_cmd_modify_srq, node) \
	STUB(ibv_cmd_modify_wq, node) \
	STUB(ibv_cmd_open_qp, node) \
	STUB(ibv_cmd_open_xrcd, node) \
	STUB(ibv_cmd_poll_cq, node) \
	STUB(ibv_cmd_post_recv, node) \
	STUB(ibv_cmd_post_send, node) \
	STUB(ibv_cmd_post_srq_recv, node) \
	STUB(ibv_cmd_qp_attach_comp_cntr, node) \
	STUB(ibv_cmd_query_comp_cntr_caps, node) \
	STUB(ibv_cmd_query_context, node) \
	STUB(ibv_cmd_query_device, node) \
	STUB(ibv_cmd_query_device_any, node) \
	STUB(ibv_cmd_query_device_ex, node) \
	STUB(ibv_cmd_query_mr, node) \
	STUB(ibv_cmd_query_port, node) \
	STUB(ibv_cmd_query_port_speed, node) \
	STUB(ibv_cmd_query_qp, node) \
	STUB(ibv_cmd_query_srq, node) \
	STUB(ibv_cmd_read_comp_cntr, node) \
	STUB(ibv_cmd_read_counters, node) \
	STUB(ibv_cmd_read_err_comp_cntr, node) \
	STUB(ibv_cmd_reg_dm_mr, node) \
	STUB(ibv_cmd_reg_dmabuf_mr, node) \
	STUB(ibv_cmd_reg_mr, node) \
	STUB(ibv_cmd_reg_mr_ex, node) \
	STUB(ibv_cmd_req_notify_cq, node) \
	STUB(ibv_cmd_rereg_mr, node) \
	STUB(ibv_cmd_resize_cq, node) \
	STUB(ibv_cmd_set_comp_cntr, node) \
	STUB(ibv_cmd_set_err_comp_cntr, node) \
	STUB(ibv_dmabuf_heap_alloc, node) \
	STUB(ibv_dmabuf_heap_cc_shared_init, node) \
	STUB(ibv_dmabuf_heap_destroy, node) \
	STUB(ibv_dmabuf_heap_free, node) \
	STUB(ibv_get_fw_ver, node) \
	STUB(ibv_read_ibdev_sysfs_file, node) \
	STUB(verbs_init_cq, node) \
	STUB(verbs_open_device, node) \
	STUB(verbs_set_ops, node) \
	STUB(verbs_uninit_context, node)

#endif /* UROCE_PRIVATE_NAMES_H */
