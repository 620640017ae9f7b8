/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions between the kernel's structs (rdma/ib_user_verbs.h, ib_user_sa.h) and those of verbs, for librdmacm. */
#include "verbs/client_priv.h"

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "verbs/attr_copy.h"

CLIENT_EXPORT void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from);
CLIENT_EXPORT void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, const struct ib_uverbs_qp_attr *from);
CLIENT_EXPORT void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, const struct ib_user_path_rec *from);
CLIENT_EXPORT void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, const struct ibv_sa_path_rec *from);

void
ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from)
{
	memcpy(to->grh.dgid.raw, from->grh.dgid, sizeof(to->grh.dgid.raw));
	to->grh.flow_label = from->grh.flow_label;
	to->grh.sgid_index = from->grh.sgid_index;
	to->grh.hop_limit = from->grh.hop_limit;
	to->grh.traffic_class = from->grh.traffic_class;
	to->dlid = from->dlid;
	to->sl = from->sl;
	to->src_path_bits = from->src_path_bits;
	to->static_rate = from->static_rate;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
}

void
ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, const struct ib_uverbs_qp_attr *from)
{
	ATTR_COPY_QP(to, from);
	to->cap = (struct ibv_qp_cap){ from->max_send_wr, from->max_recv_wr, from->max_send_sge, from->max_recv_sge,
				       from->max_inline_data };
	ibv_copy_ah_attr_from_kern(&to->ah_attr, &from->ah_attr);
	ibv_copy_ah_attr_from_kern(&to->alt_ah_attr, &from->alt_ah_attr);
}

/* Copy the members that both structs of a path record have, except the GIDs. */
#define COPY_PATH_REC(to, from) \
	do { \
		(to)->dlid = (from)->dlid; \
		(to)->slid = (from)->slid; \
		(to)->raw_traffic = (from)->raw_traffic; \
		(to)->flow_label = (from)->flow_label; \
		(to)->hop_limit = (from)->hop_limit; \
		(to)->traffic_class = (from)->traffic_class; \
		(to)->reversible = (from)->reversible; \
		(to)->numb_path = (from)->numb_path; \
		(to)->pkey = (from)->pkey; \
		(to)->sl = (from)->sl; \
		(to)->mtu_selector = (from)->mtu_selector; \
		(to)->mtu = (from)->mtu; \
		(to)->rate_selector = (from)->rate_selector; \
		(to)->rate = (from)->rate; \
		(to)->packet_life_time_selector = (from)->packet_life_time_selector; \
		(to)->packet_life_time = (from)->packet_life_time; \
		(to)->preference = (from)->preference; \
	} while (0)

void
ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, const struct ib_user_path_rec *from)
{
	memcpy(to->dgid.raw, from->dgid, sizeof(to->dgid.raw));
	memcpy(to->sgid.raw, from->sgid, sizeof(to->sgid.raw));
	COPY_PATH_REC(to, from);
}

void
ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, const struct ibv_sa_path_rec *from)
{
	memcpy(to->dgid, from->dgid.raw, sizeof(to->dgid));
	memcpy(to->sgid, from->sgid.raw, sizeof(to->sgid));
	COPY_PATH_REC(to, from);
}
