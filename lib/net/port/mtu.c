/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The MTU of a port: chosen when it is opened, and changed by the kernel's interface or the configuration while
 * it runs. */
#include <errno.h>
#include <stdio.h>

#include <rte_common.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "net/port/port_priv.h"

uint32_t
net_roce_mtu(uint32_t ip_mtu)
{
	for (uint32_t code = UROCE_MTU_4096; code >= UROCE_MTU_256; code--)
		if ((128u << code) + NET_ROCE_OVERHEAD_BYTES <= ip_mtu)
			return code;
	return 0;
}

uint8_t
net_port_mtu_shift(const struct net_port *p)
{
	uint32_t code = net_roce_mtu(p->ip_mtu);

	return code != 0 ? (uint8_t)(7 + code) : 0;
}

/** @return the largest IP packet that fits a frame of the PMD. */
static uint32_t
frame_carries(const struct net_port *p)
{
	const struct pmd_profile *pmd = &p->priv->pmd;
	uint32_t most = pmd->max_frame > NET_ETH_VLAN_BYTES ? pmd->max_frame - NET_ETH_VLAN_BYTES : 0;

	return RTE_MIN(most, (uint32_t)UINT16_MAX);
}

/** Say why the MTU can't be larger, and what would allow it. */
static int
fail_mtu(struct opening *o, uint16_t mtu, uint32_t most)
{
	const struct net_port *p = o->p;
	const char *devarg = p->priv->pmd.size_devarg;

	if (p->shared && p->priv->kernel_mtu < mtu)
		return opening_fail(o, "mtu is %u, but %s has %u: ip link set dev %s mtu %u", mtu, p->netdev,
				    p->priv->kernel_mtu, p->netdev, mtu);
	if (devarg != NULL)
		return opening_fail(o, "mtu is %u, but %s carries at most %u with its buffers: give it devargs %s", mtu,
				    p->conf.ethdev, most, devarg);
	return opening_fail(o, "mtu is %u, but %s carries at most %u", mtu, p->conf.ethdev, most);
}

/** @return the IP MTU of a port for which none is configured. */
static uint32_t
usual(const struct net_port *p, uint32_t most)
{
	uint32_t mtu = p->priv->pmd.carries_mtu ? p->priv->pmd.default_mtu : p->priv->dev_mtu;

	return mtu != 0 ? RTE_MIN(most, mtu) : most;
}

/*
 * A configured value larger than RoCE v2 can use is accepted but not demanded of PMD and buffers, because people
 * configure the network's MTU, 9000.
 */
int
mtu_choose(struct opening *o, uint16_t mtu)
{
	const struct net_port *p = o->p;
	const struct pmd_profile *pmd = &p->priv->pmd;
	uint32_t most = frame_carries(p), want = mtu;

	if (p->shared)
		most = RTE_MIN(most, p->priv->kernel_mtu);
	if (want == 0)
		want = usual(p, most);
	if (want < NET_MIN_MTU)
		return opening_fail(o, "mtu is %u; RoCE v2 needs at least %u", want, NET_MIN_MTU);
	if (RTE_MIN(want, (uint32_t)NET_MAX_ROCE_IP_MTU) > most && mtu != 0)
		return fail_mtu(o, mtu, most);
	o->ip_mtu = RTE_MIN(want, most);
	if (pmd->pool_room == 0 && !pmd->xdp)
		o->ip_mtu = RTE_MIN(o->ip_mtu, pool_room(o->pool) - NET_ETH_VLAN_BYTES);
	if (o->ip_mtu < NET_MIN_MTU)
		return opening_fail(o, "mtu %u is too small for RoCE v2: it must be at least %u", o->ip_mtu,
				    NET_MIN_MTU);
	return 0;
}

void
mtu_use(struct net_port *p, uint32_t ip_mtu)
{
	uint32_t code = net_roce_mtu(ip_mtu);

	p->ip_mtu = ip_mtu;
	p->max_frame = RTE_MIN(ip_mtu + NET_ETH_VLAN_BYTES, p->priv->pmd.max_frame);
	p->active_mtu = code != 0 ? code : UROCE_MTU_256;
}

/* ---- Changes ---- */
/** @return what the interface and the configuration permit, whatever the PMD's buffers carry. */
static uint32_t
permitted(const struct net_port *p)
{
	return p->conf.mtu != 0 ? RTE_MIN(p->priv->kernel_mtu, (uint32_t)p->conf.mtu) : p->priv->kernel_mtu;
}

bool
net_port_mtu_follow(struct net_port *p)
{
	uint32_t now = p->shared && p->priv->kernel != NULL && !p->restarting ? kernel_mtu(p) : 0;

	if (now == 0 || now == p->priv->kernel_mtu)
		return false;
	p->priv->kernel_mtu = now;
	mtu_use(p, RTE_MIN(permitted(p), frame_carries(p)));
	return true;
}

uint32_t
net_port_kernel_mtu(const struct net_port *p)
{
	return p->shared ? p->priv->kernel_mtu : 0;
}

const char *
net_port_mtu_lacks(const struct net_port *p)
{
	if (!p->shared || net_roce_mtu(permitted(p)) <= net_roce_mtu(p->ip_mtu))
		return NULL;
	return p->priv->pmd.size_devarg != NULL ? p->priv->pmd.size_devarg : "";
}

/** Have the driver change the MTU of its device. @return 0 or an errno value with a message. */
static int
set_device(struct opening *o)
{
	const struct net_port *p = o->p;
	int rc = rte_eth_dev_set_mtu(p->port_id, (uint16_t)RTE_MIN(o->ip_mtu, (uint32_t)NET_MAX_ROCE_IP_MTU));

	if (rc == -EBUSY)
		opening_fail(o, "the driver of %s can't change its MTU while it is started", p->conf.ethdev);
	else if (rc == -ENOTSUP)
		opening_fail(o, "the driver of %s can't change its MTU", p->conf.ethdev);
	else if (rc != 0)
		opening_fail(o, "the driver of %s does not take MTU %u: %s", p->conf.ethdev, o->ip_mtu,
			     rte_strerror(-rc));
	return rc == -ENOTSUP ? EBUSY : -rc;
}

int
net_port_mtu_configure(struct net_port *p, uint16_t mtu, char *err, size_t err_bytes)
{
	struct opening o = { .p = p, .pool = p->priv->open_pool, .err = err, .err_bytes = err_bytes };
	int rc;

	if (net_port_is_gone(p)) { /* it counts when the device is opened */
		p->conf.mtu = mtu;
		return 0;
	}
	if (p->restarting) {
		opening_fail(&o, "it is being started: reload again when its link is up");
		return EBUSY;
	}
	if (mtu_choose(&o, mtu) != 0)
		return EINVAL;
	rc = p->priv->pmd.carries_mtu ? 0 : set_device(&o);
	if (rc != 0)
		return rc;
	p->conf.mtu = mtu;
	mtu_use(p, o.ip_mtu);
	return 0;
}
