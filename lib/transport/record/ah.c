/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of AHs, and of the addresses that all paths have.
 */
#include "transport/core/ah_priv.h"
#include "transport/record/record_priv.h"

struct record_addr
record_addr_of(const struct wire_addr *a)
{
	struct record_addr r = { .flow_label = a->flow_label, .vlan_tci = a->vlan_tci, .sport = a->sport, .ip_version = a->ip_version,
				 .traffic_class = a->traffic_class, .ttl = a->ttl, .vlan = a->vlan };

	memcpy(r.dmac, a->dmac, sizeof(r.dmac));
	memcpy(r.smac, a->smac, sizeof(r.smac));
	memcpy(r.sip, a->sip, sizeof(r.sip));
	memcpy(r.dip, a->dip, sizeof(r.dip));
	return r;
}

bool
record_addr_ok(const struct record_addr *r)
{
	return (r->ip_version == 4 || r->ip_version == 6) && r->vlan <= 1 && r->flow_label <= 0xfffff;
}

struct wire_addr
record_addr_get(const struct record_addr *r)
{
	struct wire_addr a = { .ip_version = r->ip_version, .traffic_class = r->traffic_class, .ttl = r->ttl, .vlan = r->vlan,
			       .vlan_tci = r->vlan_tci, .sport = r->sport, .flow_label = r->flow_label };

	memcpy(a.dmac, r->dmac, sizeof(a.dmac));
	memcpy(a.smac, r->smac, sizeof(a.smac));
	memcpy(a.sip, r->sip, sizeof(a.sip));
	memcpy(a.dip, r->dip, sizeof(a.dip));
	return a;
}

int
ah_save(const struct ah_table *t, uint32_t handle, uint32_t pd, struct ah_record *to)
{
	const struct tp_ah *ah = ah_get(t, handle, pd);

	if (ah == NULL)
		return EINVAL;
	memset(to, 0, sizeof(*to));
	to->handle = handle;
	to->pd = pd;
	to->addr = record_addr_of(&ah->path.addr);
	to->port = ah->path.port;
	to->pkey = ah->path.pkey;
	to->loopback = ah->path.loopback;
	to->multicast = ah->path.multicast;
	record_seal(to, RECORD_AH, AH_RECORD_VERSION, sizeof(*to));
	return 0;
}

int
ah_restore(struct ah_table *t, const struct ah_record *r, uint32_t room, uint16_t nb_ports, const char **why)
{
	const char *wrong = record_check(r, room, RECORD_AH, AH_RECORD_VERSION, sizeof(*r));
	struct tp_path path;
	int rc;

	if (wrong != NULL)
		return refused(why, wrong, EINVAL);
	if (r->head.size != sizeof(*r))
		return refused(why, "size: isn't that of an AH's record", EINVAL);
	if (!record_addr_ok(&r->addr))
		return refused(why, "addr: ip_version must be 4 or 6, vlan 0 or 1, flow_label have 20 bits", EINVAL);
	if (r->port >= nb_ports)
		return refused(why, "port: the transports have no such port", EINVAL);
	if (r->loopback > 1 || r->multicast > 1)
		return refused(why, "loopback: must be 0 or 1, as multicast", EINVAL);
	path = (struct tp_path){ .addr = record_addr_get(&r->addr), .port = r->port, .pkey = r->pkey, .loopback = r->loopback,
				 .multicast = r->multicast };
	rc = ah_create_as(t, r->pd, &path, r->handle);
	return rc == 0 ? 0 : refused(why, rc == EEXIST ? "handle: another AH has it" : "size: there is no memory for another AH", rc);
}
