/* SPDX-License-Identifier: BSD-3-Clause */
/* The MTU of a port changes while programs run, by the kernel or the configuration: engines, QPs and the log. */
#include "control/mtu_priv.h"

#include "control/core/session_priv.h"
#include "transport/path/changes.h"

/** Slots of the QP table that an engine looks at in one message: it does nothing else meanwhile. */
enum { MTU_SLOTS = 4096 };

struct mtu_call {
	const struct net_port *port;
	uint32_t first;     /**< slot of the QP table */
	uint32_t too_large; /**< QPs so far */
};

static int
call_set_mtu(struct engine *e, void *arg, uint64_t now_ns)
{
	const struct net_port *p = ((const struct mtu_call *)arg)->port;

	transport_set_mtu(engine_transport(e), p->index, p->ip_mtu, net_port_mtu_shift(p));
	return 0;
}

static int
call_follow_mtu(struct engine *e, void *arg, uint64_t now_ns)
{
	struct mtu_call *call = arg;

	call->too_large += transport_follow_mtu(engine_transport(e), call->port->index, call->first, MTU_SLOTS);
	return 0;
}

/** @return how many QPs have a path MTU that is too large for the port. */
static uint32_t
tell_engines(struct control *c, const struct net_port *p)
{
	struct mtu_call call = { .port = p };
	uint32_t slots = qp_table_count(c->s.sh.qps) > 0 ? qp_table_slots(c->s.sh.qps) : 0;

	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_call(c->s.engines[i], call_set_mtu, &call);
	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		for (call.first = 0; call.first < slots; call.first += MTU_SLOTS)
			engine_call(c->s.engines[i], call_follow_mtu, &call);
	return call.too_large;
}

/** @return in bytes, for texts; 0: none. */
static uint32_t
roce_bytes(uint32_t ip_mtu)
{
	uint32_t code = net_roce_mtu(ip_mtu);

	return code != 0 ? 128u << code : 0;
}

void
mtu_begin(struct control *c, const struct net_port *p)
{
	c->ports[p->index].ip_mtu = p->ip_mtu;
}

void
mtu_changed(struct control *c, const struct net_port *p)
{
	uint32_t before = c->ports[p->index].ip_mtu, too_large;

	if (p->ip_mtu == before)
		return;
	too_large = tell_engines(c, p);
	c->ports[p->index].ip_mtu = p->ip_mtu;
	if (before != 0)
		CTL_LOG(NOTICE, "%s: MTU %u instead of %u: RoCE MTU %u, before %u", p->conf.name, p->ip_mtu, before,
			roce_bytes(p->ip_mtu), roce_bytes(before));
	if (too_large > 0)
		CTL_LOG(WARNING,
			"%s: %u QPs have a larger path MTU: their packets that don't fit into %u bytes are dropped "
			"(tx_too_long)",
			p->conf.name, too_large, p->ip_mtu);
	if (net_roce_mtu(p->ip_mtu) == 0)
		CTL_LOG(WARNING,
			"%s: MTU %u is too small for RoCE v2; programs are told RoCE MTU 256, whose packets don't fit",
			p->conf.name, p->ip_mtu);
}

void
mtu_follow(struct control *c, struct net_port *p)
{
	uint32_t before = net_port_kernel_mtu(p);
	const char *lacks;

	if (!net_port_mtu_follow(p))
		return;
	mtu_changed(c, p);
	lacks = net_port_mtu_lacks(p);
	if (lacks != NULL && net_port_kernel_mtu(p) > before)
		CTL_LOG(WARNING, "%s: %s has MTU %u, but %s carries at most %u with its buffers: RoCE MTU %u%s%s",
			p->conf.name, p->netdev, net_port_kernel_mtu(p), p->conf.ethdev, p->ip_mtu,
			roce_bytes(p->ip_mtu), lacks[0] != '\0' ? "; for more, start it with devargs " : "", lacks);
}
