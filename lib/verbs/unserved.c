/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that a uroce device doesn't support, with the results that the man pages give for such devices. */
#include "verbs/client_priv.h"

/* Defines a function that returns an object which no uroce device has. */
#define NONE(type, name, ...) \
	CLIENT_EXPORT type name(__VA_ARGS__) \
	{ \
		errno = EOPNOTSUPP; \
		return NULL; \
	}

/* Device memory is in a segment with its session's queues, which no other program may have. */
NONE(struct ibv_dm *, ibv_import_dm, struct ibv_context *context, uint32_t handle)
CLIENT_EXPORT void ibv_unimport_dm(struct ibv_dm *dm) { }
NONE(struct ibv_mr *, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)

CLIENT_EXPORT int
ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){ 0 };
	return 0;
}

/* Vendor 0 means no options, and we have none. */
CLIENT_EXPORT int
ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!ece->vendor_id && !ece->comp_mask)
		return 0;
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

/* Data is not guaranteed to become visible in order. */
CLIENT_EXPORT int
ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

/* Only the daemon knows Ethernet addresses. */
CLIENT_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
					      uint16_t *vid);
int
ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}
