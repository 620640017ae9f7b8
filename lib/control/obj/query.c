/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes of devices and ports, which promise what lib/transport supports. */
#include <endian.h>
#include <stdio.h>

#include <rte_common.h>

#include "control/obj/obj_device_priv.h"

enum {
	/*
	 * Must not be 0, a vendor's OUI, or 0xffffff, which software takes for "no such device". The second lowest bit
	 * of the first byte means "locally administered": no vendor's OUI has it set.
	 */
	VENDOR_ID = 0x067572,
	VENDOR_PART_ID = 1,
	PAGE_SIZE_CAP = 0xfffff000,
	/* 4.096 us << 15, as in Linux's rxe: peers add it to their timeouts. */
	LOCAL_CA_ACK_DELAY = 15,
	/* enum ibv_device_cap_flags */
	CAP_AUTO_PATH_MIG = 1 << 4,
	CAP_CURR_QP_STATE_MOD = 1 << 7,
	CAP_PORT_ACTIVE_EVENT = 1 << 10,
	CAP_SYS_IMAGE_GUID = 1 << 11,
	CAP_RC_RNR_NAK_GEN = 1 << 12,
	CAP_MEM_WINDOW = 1 << 17,
	CAP_XRC = 1 << 20,
	CAP_MEM_MGT_EXTENSIONS = 1 << 21, /* LOCAL_INV and SEND_WITH_INV, the only parts of it that programs can use */
	CAP_MEM_WINDOW_TYPE_2B = 1 << 24,
	/* enum ibv_atomic_cap: memory that can't be mapped is atomic only among engines, so not ATOMIC_GLOB */
	ATOMIC_HCA = 1,
	/* struct ibv_port_attr */
	IB_PORT_DOWN = 1,
	IB_PORT_ACTIVE = 4,
	PHYS_DISABLED = 3,
	PHYS_LINK_UP = 5,
	LINK_LAYER_ETHERNET = 2,
	PORT_IP_BASED_GIDS = 1 << 26,
};

/*
 * In device_cap_flags_ex: IB_UVERBS_DEVICE_FLUSH_GLOBAL, IB_UVERBS_DEVICE_ATOMIC_WRITE. Our memory is not persistent.
 */
#define CAP_EX_FLUSH_GLOBAL (UINT64_C(1) << 38)
#define CAP_EX_ATOMIC_WRITE (UINT64_C(1) << 40)

/** Modified EUI-64 of a MAC address, which is stable and unique, as in Linux's RoCE drivers. Network byte order. */
static uint64_t
guid_of(const uint8_t mac[6])
{
	uint8_t g[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] };
	uint64_t v;

	memcpy(&v, g, sizeof(v));
	return v;
}

uint64_t
control_port_guid(const struct net_port *p)
{
	return be64toh(guid_of(p->mac));
}

int
op_device_get(struct session *s, struct request *r)
{
	uint32_t index = r->req->device_get.index;
	const struct net_port *p;

	if (index >= s->control->s.nb_ports)
		return req_fail(r, ENODEV, "no device %u: there are %u", index, s->control->s.nb_ports);
	p = s->control->s.ports[index];
	if (net_port_is_gone(p))
		return req_fail(r, ENODEV, "the device of %s is not there", p->conf.name);
	snprintf(r->rsp.device_get.name, CTL_NAME_BYTES, "%s", p->conf.name);
	snprintf(r->rsp.device_get.netdev, CTL_NAME_BYTES, "%s", p->netdev);
	r->rsp.device_get.node_guid = guid_of(p->mac);
	return 0;
}

int
op_device_query(struct session *s, struct request *r)
{
	const struct uroced_config *conf = s->control->s.conf;
	struct ctl_device_query_rsp *d = &r->rsp.device_query;

	*d = (struct ctl_device_query_rsp){
		.node_guid = guid_of(s->port->mac),
		/* A daemon is one system image: all its devices report the GUID of the first. */
		.sys_image_guid = guid_of(s->control->s.ports[0]->mac),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = PAGE_SIZE_CAP,
		.vendor_id = VENDOR_ID,
		.vendor_part_id = VENDOR_PART_ID,
		.max_qp = conf->max_qp,
		.max_qp_wr = UROCE_MAX_QP_WR,
		.device_cap_flags = CAP_AUTO_PATH_MIG | CAP_CURR_QP_STATE_MOD | CAP_PORT_ACTIVE_EVENT | CAP_SYS_IMAGE_GUID |
				    CAP_RC_RNR_NAK_GEN | CAP_MEM_WINDOW | CAP_MEM_WINDOW_TYPE_2B |
				    CAP_MEM_MGT_EXTENSIONS | CAP_XRC,
		.max_sge = UROCE_MAX_SGE,
		.max_sge_rd = UROCE_MAX_SGE,
		.max_cq = conf->max_cq,
		.max_cqe = UROCE_MAX_CQE,
		.max_mr = conf->max_mr,
		.max_mw = conf->max_mr,
		.max_pd = conf->max_pd,
		.max_qp_rd_atom = UROCE_MAX_RD_ATOMIC,
		.max_res_rd_atom = (uint32_t)RTE_MIN((uint64_t)conf->max_qp * UROCE_MAX_RD_ATOMIC, (uint64_t)INT32_MAX),
		.max_qp_init_rd_atom = UROCE_MAX_RD_ATOMIC,
		.atomic_cap = ATOMIC_HCA,
		.max_ah = conf->max_ah,
		.max_mcast_grp = UROCE_MAX_MCAST_GROUPS,
		.max_mcast_qp_attach = UROCE_MAX_MCAST_ATTACH,
		.max_total_mcast_qp_attach = UROCE_MAX_MCAST_GROUPS * UROCE_MAX_MCAST_ATTACH,
		.max_srq = conf->max_srq,
		.max_srq_wr = UROCE_MAX_QP_WR,
		.max_srq_sge = UROCE_MAX_SGE,
		.max_pkeys = UROCE_MAX_PKEYS,
		.local_ca_ack_delay = LOCAL_CA_ACK_DELAY,
		.phys_port_cnt = 1,
		.max_inline = UROCE_MAX_INLINE,
		/* Completions carry CLOCK_MONOTONIC in nanoseconds. */
		.hca_core_clock_khz = 1000000,
	};
	d->device_cap_flags_ex = d->device_cap_flags | CAP_EX_FLUSH_GLOBAL | CAP_EX_ATOMIC_WRITE;
	snprintf(d->fw_ver, sizeof(d->fw_ver), "%s", UROCE_VERSION);
	return 0;
}

/** Convert an Ethernet speed to the speed and width codes of verbs (Linux: ib_get_eth_speed()). */
static void
speed_codes(uint32_t mbps, uint32_t *speed, uint32_t *width)
{
	enum { SDR = 1, DDR = 2, QDR = 4, FDR10 = 8, FDR = 16, EDR = 32, HDR = 64, NDR = 128 };
	enum { X1 = 1, X4 = 2, X8 = 4, X2 = 16 };
	static const struct {
		uint32_t mbps, speed, width;
	} codes[] = {
		{ 1000, SDR, X1 },    { 10000, FDR10, X1 },    { 20000, DDR, X4 },  { 25000, EDR, X1 },
		{ 40000, FDR10, X4 }, { 50000, EDR, X2 },      { 100000, EDR, X4 }, { 200000, HDR, X4 },
		{ 400000, NDR, X4 },  { UINT32_MAX, NDR, X8 },
	};
	unsigned int i = 0;

	while (mbps > codes[i].mbps)
		i++;
	/* Virtual ports don't know their speed. */
	if (mbps == 0 || mbps == UINT32_MAX)
		i = 1;
	*speed = codes[i].speed;
	*width = codes[i].width;
}

void
port_violations(const struct control *c, uint16_t port, uint64_t *bad_pkey, uint64_t *bad_qkey)
{
	*bad_pkey = *bad_qkey = 0;
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		const struct tp_violations *v = transport_violations(engine_transport(c->s.engines[i]), port);

		*bad_pkey += counter_read(&v->bad_pkey);
		*bad_qkey += counter_read(&v->bad_qkey);
	}
}

int
op_port_query(struct session *s, struct request *r)
{
	struct ctl_port_query_rsp *p = &r->rsp.port_query;
	uint64_t bad_pkey, bad_qkey;
	uint32_t mbps = 0;
	/* As reported by the last event, so that a program that sees an active port gets no event saying so again. */
	bool up = s->control->link_up[s->port->index] && !s->device_gone;

	net_port_link(s->port, &mbps);
	*p = (struct ctl_port_query_rsp){
		.state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN,
		.max_mtu = UROCE_MTU_4096,
		.active_mtu = s->port->active_mtu,
		.gid_tbl_len = UROCE_MAX_GIDS,
		.port_cap_flags = PORT_IP_BASED_GIDS,
		.max_msg_sz = UROCE_MAX_MSG_BYTES,
		.phys_state = up ? PHYS_LINK_UP : PHYS_DISABLED,
		.link_layer = LINK_LAYER_ETHERNET,
	};
	for (unsigned int i = 0; i < UROCE_MAX_PKEYS; i++) {
		p->pkeys[i] = s->port->conf.pkeys[i];
		if (p->pkeys[i] != 0)
			p->pkey_tbl_len = i + 1;
	}
	port_violations(s->control, s->port->index, &bad_pkey, &bad_qkey);
	/* The counters stop at their largest value (14.2.5.6). */
	p->bad_pkey_cntr = (uint32_t)RTE_MIN(bad_pkey, (uint64_t)UINT32_MAX);
	p->qkey_viol_cntr = (uint32_t)RTE_MIN(bad_qkey, (uint64_t)UINT32_MAX);
	memcpy(p->mac, s->port->mac, sizeof(p->mac));
	speed_codes(mbps, &p->active_speed, &p->active_width);
	return 0;
}

int
op_gid_table(struct session *s, struct request *r)
{
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct gid *gid = net_gid(s->port, i);

		if (gid != NULL)
			memcpy(r->rsp.gid_table.gid[i], gid, sizeof(*gid));
	}
	r->rsp.gid_table.ndev_ifindex = s->port->ifindex;
	return 0;
}
