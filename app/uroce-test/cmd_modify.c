/* SPDX-License-Identifier: BSD-3-Clause */
/* modify: changes attributes of an object. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "objects.h"

enum { QPN_MAX = 0xffffff, WRS_MAX = 1 << 15, CQES_MAX = 1 << 22, HOP_LIMIT = 64 };

static const char *const mig_states[] = { "migrated", "rearm", "armed", NULL };

/** Numbers in struct ibv_qp_attr: name of the argument, bit of the mask, offset of the member. */
#define FIELD(name, bit, member) { name, bit, offsetof(struct ibv_qp_attr, member), sizeof(((struct ibv_qp_attr *)0)->member) }
static const struct {
	const char *name;
	int bit;
	size_t offset, bytes;
} fields[] = {
	FIELD("pkey_index", IBV_QP_PKEY_INDEX, pkey_index),
	FIELD("port", IBV_QP_PORT, port_num),
	FIELD("qkey", IBV_QP_QKEY, qkey),
	FIELD("dest_qpn", IBV_QP_DEST_QPN, dest_qp_num),
	FIELD("rq_psn", IBV_QP_RQ_PSN, rq_psn),
	FIELD("sq_psn", IBV_QP_SQ_PSN, sq_psn),
	FIELD("timeout", IBV_QP_TIMEOUT, timeout),
	FIELD("retry_cnt", IBV_QP_RETRY_CNT, retry_cnt),
	FIELD("rnr_retry", IBV_QP_RNR_RETRY, rnr_retry),
	FIELD("min_rnr_timer", IBV_QP_MIN_RNR_TIMER, min_rnr_timer),
	FIELD("max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic),
	FIELD("max_dest_rd_atomic", IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic),
};

static void
store(struct ibv_qp_attr *attr, size_t offset, size_t bytes, uint64_t value)
{
	/* This is correct on little-endian machines only; UROCE is for x86. */
	memcpy((char *)attr + offset, &value, bytes);
}

/**
 * Read the address vector into @p attr.
 * @return 0 or -1.
 */
static int
read_av(const struct call *c, const struct object *o, struct ibv_qp_attr *attr, int *mask)
{
	struct ibv_ah_attr *av = &attr->ah_attr;
	struct gid dgid;

	if (!call_has(c, "dgid")) {
		if (call_has(c, "sgid_index") || call_has(c, "hop_limit") || call_has(c, "traffic_class") || call_has(c, "flow_label"))
			return call_fail(c, "dgid is missing: sgid_index, hop_limit, traffic_class and flow_label go with it");
		return 0;
	}
	if (gid_parse(call_text(c, "dgid"), &dgid) != 0)
		return call_fail(c, "dgid: '%s': expected an IPv4 or IPv6 address", call_text(c, "dgid"));
	av->is_global = 1;
	av->port_num = 1;
	memcpy(av->grh.dgid.raw, &dgid, sizeof(dgid));
	av->grh.sgid_index = (uint8_t)call_number(c, "sgid_index", host_sgid_index(o->host, !gid_is_v4(&dgid)));
	av->grh.hop_limit = (uint8_t)call_number(c, "hop_limit", HOP_LIMIT);
	av->grh.traffic_class = (uint8_t)call_number(c, "traffic_class", 0);
	av->grh.flow_label = (uint32_t)call_number(c, "flow_label", 0);
	*mask |= IBV_QP_AV;
	return 0;
}

static int
modify_qp(struct call *c)
{
	struct object *o = object_find(OBJECT_QP, call_text(c, "qp"));
	struct ibv_qp_attr attr = { 0 };
	int mask = 0, rc;

	for (unsigned int i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (call_has(c, fields[i].name)) {
			store(&attr, fields[i].offset, fields[i].bytes, call_number(c, fields[i].name, 0));
			mask |= fields[i].bit;
		}
	if (call_has(c, "state")) {
		attr.qp_state = (enum ibv_qp_state)call_choice(c, "state", 0);
		mask |= IBV_QP_STATE;
	}
	if (call_has(c, "mtu")) {
		attr.path_mtu = (enum ibv_mtu)(call_choice(c, "mtu", 0) + 1);
		mask |= IBV_QP_PATH_MTU;
	}
	if (call_has(c, "access")) {
		attr.qp_access_flags = (unsigned int)access_bits(call_text(c, "access"));
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	if (call_has(c, "mig_state")) {
		attr.path_mig_state = (enum ibv_mig_state)call_choice(c, "mig_state", 0);
		mask |= IBV_QP_PATH_MIG_STATE;
	}
	if (read_av(c, o, &attr, &mask) != 0)
		return -1;
	if (mask == 0)
		return call_fail(c, "nothing was given to modify: `help modify qp` lists what can be");
	if (o->busy > 0)
		return call_fail(c, "%s: a workload runs on it: stop it first", o->name);
	rc = ibv_modify_qp(o->v.qp, &attr, mask);
	if (rc != 0)
		return call_fail(c, "%s, which is in %s: %s", o->name, qp_state_text(object_qp_state(o)), strerror(rc));
	printf("%s: %s\n", o->name, qp_state_text(object_qp_state(o)));
	return 0;
}

static int
modify_cq(struct call *c)
{
	struct object *o = object_find(OBJECT_CQ, call_text(c, "cq"));
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	int rc = 0;

	if (!call_has(c, "cqe") && !call_has(c, "count") && !call_has(c, "period"))
		return call_fail(c, "nothing was given to modify: expected cqe, count or period");
	if (call_has(c, "cqe"))
		rc = ibv_resize_cq(o->v.cq, (int)call_number(c, "cqe", 0));
	if (rc != 0)
		return call_errno(c, "ibv_resize_cq", rc);
	attr.moderate.cq_count = (uint16_t)call_number(c, "count", 0);
	attr.moderate.cq_period = (uint16_t)call_number(c, "period", 0);
	if (call_has(c, "count") || call_has(c, "period"))
		rc = ibv_modify_cq(o->v.cq, &attr);
	if (rc != 0)
		return call_errno(c, "ibv_modify_cq", rc);
	printf("%s: %d entries\n", o->name, o->v.cq->cqe);
	return 0;
}

static int
modify_srq(struct call *c)
{
	struct object *o = object_find(OBJECT_SRQ, call_text(c, "srq"));
	struct ibv_srq_attr attr = { .srq_limit = (uint32_t)call_number(c, "limit", 0) };
	int rc = ibv_modify_srq(o->v.srq, &attr, IBV_SRQ_LIMIT);

	if (rc != 0)
		return call_errno(c, "ibv_modify_srq", rc);
	printf("%s: limit %u\n", o->name, attr.srq_limit);
	return 0;
}

static int
modify_mr(struct call *c)
{
	struct object *o = object_find(OBJECT_MR, call_text(c, "mr"));
	int rc = ibv_rereg_mr(o->v.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access_bits(call_text(c, "access")));

	if (rc != 0)
		return call_errno(c, "ibv_rereg_mr", errno);
	printf("%s: lkey 0x%x rkey 0x%x\n", o->name, o->v.mr->lkey, o->v.mr->rkey);
	return 0;
}

/** Only the binding of a memory window can be modified. */
static int
modify_mw(struct call *c)
{
	struct object *o = object_find(OBJECT_MW, call_text(c, "mw")), *qp = object_find(OBJECT_QP, call_text(c, "qp"));
	struct object *mr = object_find(OBJECT_MR, call_text(c, "mr"));
	uint64_t offset = call_number(c, "offset", 0), length = call_number(c, "length", mr->bytes);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr->v.mr, .addr = (uintptr_t)mr->memory + offset, .length = length,
			       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC },
	};
	int rc;

	if (call_has(c, "access"))
		bind.bind_info.mw_access_flags = (unsigned int)access_bits(call_text(c, "access"));
	if (call_has(c, "offset") && !call_has(c, "length") && offset < mr->bytes)
		bind.bind_info.length = mr->bytes - offset;
	rc = ibv_bind_mw(qp->v.qp, o->v.mw, &bind);
	if (rc != 0)
		return call_errno(c, "ibv_bind_mw", rc);
	printf("%s: rkey 0x%x; %s gets a completion\n", o->name, o->v.mw->rkey, qp->cq->name);
	return 0;
}

static const struct arg qp_args[] = {
	{ "qp", "which", ARG_NAME, ARG_NEEDED, .names = qp_names },
	{ "state", "the next state", ARG_CHOICE, ARG_KEYED, .words = state_words },
	ARG_NUM("port", "of the device: 1", 0, 255),
	ARG_NUM("pkey_index", "partition", 0, 65535),
	ARG_NUM("qkey", "UD: what datagrams must carry", 0, 0xffffffff),
	{ "access", "what the peer may do, with commas between", ARG_CHOICE, ARG_KEYED, .list = true, .words = access_words },
	ARG_NUM("dest_qpn", "the peer's QPN", 0, QPN_MAX),
	ARG_ANY("dgid", "the peer's IPv4 or IPv6 address", ARG_KEYED),
	ARG_NUM("sgid_index", "own address: index in `show gid`", 0, 255),
	ARG_NUM("hop_limit", "routers on the path (64)", 0, 255),
	ARG_NUM("traffic_class", "DSCP and ECN (0)", 0, 255),
	ARG_NUM("flow_label", "of IPv6; also decides the UDP source port (0)", 0, 0xfffff),
	{ "mtu", "bytes of a packet's payload", ARG_CHOICE, ARG_KEYED, .words = mtu_words },
	ARG_NUM("rq_psn", "the peer's first PSN", 0, QPN_MAX),
	ARG_NUM("sq_psn", "own first PSN", 0, QPN_MAX),
	ARG_NUM("timeout", "of an ACK: 4.096 us times 2 to the power of it; 0: none", 0, 31),
	ARG_NUM("retry_cnt", "timeouts and sequence errors before it gives up", 0, 7),
	ARG_NUM("rnr_retry", "receiver-not-ready answers before it gives up, 7: never", 0, 7),
	ARG_NUM("min_rnr_timer", "code of the pause asked for by receiver-not-ready", 0, 31),
	ARG_NUM("max_rd_atomic", "READs and atomics outstanding", 0, 255),
	ARG_NUM("max_dest_rd_atomic", "READs and atomics of the peer outstanding", 0, 255),
	{ "mig_state", "path migration", ARG_CHOICE, ARG_KEYED, .words = mig_states },
	{ 0 },
};
static const struct arg cq_args[] = {
	{ "cq", "which", ARG_NAME, ARG_NEEDED, .names = cq_names },
	ARG_NUM("cqe", "entries", 1, CQES_MAX),
	ARG_NUM("count", "an event only for so many completions", 0, 65535),
	ARG_NUM("period", "or this many microseconds after the first", 0, 65535),
	{ 0 },
};
static const struct arg srq_args[] = {
	{ "srq", "which", ARG_NAME, ARG_NEEDED, .names = srq_names },
	{ "limit", "an event when fewer receives than this are left", ARG_NUMBER, ARG_NEEDED, .min = 0, .max = WRS_MAX },
	{ 0 },
};
static const struct arg mr_args[] = {
	{ "mr", "which", ARG_NAME, ARG_NEEDED, .names = mr_names },
	{ "access", "what may be done with it, with commas between", ARG_CHOICE, ARG_NEEDED, .list = true, .words = access_words },
	{ 0 },
};
static const struct arg mw_args[] = {
	{ "mw", "which, of type 1", ARG_NAME, ARG_NEEDED, .names = mw_names },
	{ "qp", "the QP that binds it", ARG_NAME, ARG_NEEDED, .names = qp_names },
	{ "mr", "what it is a window onto; made with access bind", ARG_NAME, ARG_NEEDED, .names = mr_names },
	ARG_NUM("offset", "its first byte (0)", 0, 1e12),
	ARG_NUM("length", "bytes (all); 0 unbinds", 0, 1e12),
	{ "access", "what may be done through it (write,read,atomic)", ARG_CHOICE, ARG_KEYED, .list = true, .words = access_words },
	{ 0 },
};

static const struct command table[] = {
	{ "modify qp", "Change a queue pair, as ibv_modify_qp does: each argument is one attribute.", qp_args, NULL, modify_qp },
	{ "modify cq", "Resize a completion queue, or moderate its events.", cq_args, NULL, modify_cq },
	{ "modify srq", "Arm the limit event of a shared receive queue.", srq_args, NULL, modify_srq },
	{ "modify mr", "Register memory anew with other rights.", mr_args, NULL, modify_mr },
	{ "modify mw", "Bind a memory window of type 1.", mw_args, NULL, modify_mw },
	{ 0 },
};
COMMANDS(table)
