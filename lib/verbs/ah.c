/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles, and multicast membership. */
#include "verbs/client_priv.h"

#include <endian.h>

#include "base/gid.h"
#include "verbs/ah_attr.h"

/* Position of the IPv4 header of a received datagram in the 40 bytes before its payload. */
enum { GRH_IPV4_OFFSET = 20, IPV4_HEADER_BYTES = 20 };

void
ah_attr_to_abi(struct uroce_ah_attr *to, const struct ibv_ah_attr *from)
{
	*to = (struct uroce_ah_attr){
		.flow_label = from->grh.flow_label,
		.sgid_index = from->grh.sgid_index,
		.hop_limit = from->grh.hop_limit,
		.traffic_class = from->grh.traffic_class,
		.sl = from->sl,
		.src_path_bits = from->src_path_bits,
		.static_rate = from->static_rate,
		.is_global = from->is_global,
		.port_num = from->port_num,
	};
	memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
}

void
ah_attr_from_abi(struct ibv_ah_attr *to, const struct uroce_ah_attr *from)
{
	*to = (struct ibv_ah_attr){
		.grh.flow_label = from->flow_label,
		.grh.sgid_index = from->sgid_index,
		.grh.hop_limit = from->hop_limit,
		.grh.traffic_class = from->traffic_class,
		.sl = from->sl,
		.src_path_bits = from->src_path_bits,
		.static_rate = from->static_rate,
		.is_global = from->is_global,
		.port_num = from->port_num,
	};
	memcpy(to->grh.dgid.raw, from->dgid, sizeof(from->dgid));
}

CLIENT_EXPORT struct ibv_ah *
ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct client_ah *ah = calloc(1, sizeof(*ah));
	struct client_call c;
	int err;

	if (!ah)
		return client_null(ENOMEM);
	client_call_init(&c, CTL_AH_CREATE);
	c.req.ah_create.pd = pd->handle;
	ah_attr_to_abi(&c.req.ah_create.attr, attr);
	err = client_call(to_ctx(pd->context), &c);
	if (err) {
		free(ah);
		return client_null(err);
	}
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	ah->ah.handle = c.rsp.handle.handle;
	return &ah->ah;
}

CLIENT_EXPORT int
ibv_destroy_ah(struct ibv_ah *ah)
{
	int err = client_destroy_handle(to_ctx(ah->context), CTL_AH_DESTROY, ah->handle);

	if (!err)
		free(ah);
	return err;
}

/* The checksum distinguishes an IPv4 header from bytes that happen to be in its place. */
static bool
is_ipv4_header(const uint8_t *h)
{
	uint32_t sum = 0;

	if (h[0] != 0x45)
		return false;
	for (int i = 0; i < IPV4_HEADER_BYTES; i += 2)
		sum += (uint32_t)h[i] << 8 | h[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static int
find_sgid(struct ibv_context *context, uint8_t port, const struct gid *gid)
{
	union ibv_gid mine;

	/* The GID of unused entries. */
	if (gid_is_zero(gid))
		return -1;
	for (int i = 0; i < UROCE_MAX_GIDS; i++)
		if (!ibv_query_gid(context, port, i, &mine) && gid_equal(gid_at(mine.raw), gid))
			return i;
	return -1;
}

CLIENT_EXPORT int
ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
		    struct ibv_ah_attr *attr)
{
	const uint8_t *h = (const uint8_t *)grh;
	struct gid from, to;
	uint32_t flow;
	int index;

	memset(attr, 0, sizeof(*attr));
	attr->port_num = port;
	/* With RoCE the address is in the GRH only. */
	if (!(wc->wc_flags & IBV_WC_GRH))
		return client_fail(EINVAL);
	attr->is_global = 1;
	if (is_ipv4_header(h + GRH_IPV4_OFFSET)) {
		from = gid_from_v4(h + GRH_IPV4_OFFSET + 12);
		to = gid_from_v4(h + GRH_IPV4_OFFSET + 16);
		attr->grh.traffic_class = h[GRH_IPV4_OFFSET + 1];
		attr->grh.hop_limit = 0xff;
	} else {
		from = *gid_at(grh->sgid.raw);
		to = *gid_at(grh->dgid.raw);
		flow = be32toh(grh->version_tclass_flow);
		attr->grh.traffic_class = flow >> 20 & 0xff;
		attr->grh.flow_label = flow & 0xfffff;
		attr->grh.hop_limit = 0xff;
	}
	memcpy(attr->grh.dgid.raw, &from, sizeof(from));
	index = find_sgid(context, port, &to);
	if (index < 0)
		return client_fail(ENOENT);
	attr->grh.sgid_index = index;
	return 0;
}

CLIENT_EXPORT struct ibv_ah *
ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

static int
mcast(struct ibv_qp *qp, enum ctl_op op, const union ibv_gid *gid)
{
	struct client_call c;

	client_call_init(&c, op);
	c.req.mcast.qp = qp->handle;
	memcpy(c.req.mcast.mgid, gid->raw, sizeof(c.req.mcast.mgid));
	return client_call(to_ctx(qp->context), &c);
}

CLIENT_EXPORT int
ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(qp, CTL_MCAST_ATTACH, gid);
}

CLIENT_EXPORT int
ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return mcast(qp, CTL_MCAST_DETACH, gid);
}
