/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma_getaddrinfo(): getaddrinfo() with port spaces and QP types. */
#include "rdmacm/rdmacm_priv.h"

#include <netdb.h>

/** Fill in port space and QP type; if only one is given the other follows from it. */
static void
fill_types(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	rai->ai_port_space = hints->ai_port_space;
	rai->ai_qp_type = hints->ai_qp_type;
	if (!rai->ai_port_space)
		rai->ai_port_space = rai->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!rai->ai_qp_type)
		rai->ai_qp_type = rai->ai_port_space == RDMA_PS_TCP || rai->ai_port_space == RDMA_PS_IB ? IBV_QPT_RC :
													  IBV_QPT_UD;
}

static int
copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from, socklen_t len)
{
	*to = malloc(len);
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static int
look_up(const char *node, const char *service, struct rdma_addrinfo *rai)
{
	bool passive = rai->ai_flags & RAI_PASSIVE;
	struct addrinfo hints = {
		.ai_family = rai->ai_family,
		.ai_flags = (passive ? AI_PASSIVE : 0) | (rai->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
		.ai_socktype = rai->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM,
	};
	struct addrinfo *ai;
	char *name = NULL;
	int rc = getaddrinfo(node, service, &hints, &ai);

	if (rc)
		return rc;
	rai->ai_family = ai->ai_family;
	rc = passive ? copy_addr(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen) :
		       copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
	if (!rc && ai->ai_canonname) {
		name = strdup(ai->ai_canonname);
		rc = name ? 0 : EAI_MEMORY;
	}
	*(passive ? &rai->ai_src_canonname : &rai->ai_dst_canonname) = name;
	freeaddrinfo(ai);
	return rc;
}

RDMACM_EXPORT void
rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res);
	}
}

RDMACM_EXPORT int
rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct rdma_addrinfo *rai;
	int rc = 0;

	if (!node && !service && !hints)
		return cm_result(EINVAL);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return cm_result(ENOMEM);
	if (!hints)
		hints = &none;
	fill_types(rai, hints);
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	if (node || service)
		rc = look_up(node, service, rai);
	if (!rc && !rai->ai_src_len && hints->ai_src_len)
		rc = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (!rc && !rai->ai_dst_len && hints->ai_dst_len)
		rc = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	if (rc) {
		rdma_freeaddrinfo(rai);
		return rc;
	}
	*res = rai;
	return 0;
}
