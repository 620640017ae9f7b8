/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect: connects two QPs of this process, or a QP of this process to one elsewhere, whose QPN, GID and PSN the user
 * types.
 */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "format.h"
#include "objects.h"

enum { QPN_MAX = 0xffffff };

/** Print what the user must type on the other side to connect with this QP. */
static void
print_words(const struct object *o, const struct object *mr, unsigned int sgid_index)
{
	char gid[GID_TEXT_BYTES];

	printf("%s: the other side types: connect QP qpn 0x%x psn 0x%x gid %s", o->name, o->v.qp->qp_num, o->psn,
	       gid_text(host_gid(o->host, sgid_index), gid));
	if (mr != NULL)
		printf(" addr 0x%llx length %zu rkey 0x%x", (unsigned long long)(uintptr_t)mr->memory, mr->bytes, mr->v.mr->rkey);
	putchar('\n');
}

static void
read_attr(const struct call *c, struct connect_attr *a)
{
	*a = connect_defaults;
	a->mtu = (enum ibv_mtu)(call_choice(c, "mtu", -1) + 1);
	a->timeout = (uint8_t)call_number(c, "timeout", a->timeout);
	a->retry_cnt = (uint8_t)call_number(c, "retry_cnt", a->retry_cnt);
	a->rnr_retry = (uint8_t)call_number(c, "rnr_retry", a->rnr_retry);
	a->rd_atomic = (uint8_t)call_number(c, "rd_atomic", a->rd_atomic);
	if (call_has(c, "access"))
		a->access = access_bits(call_text(c, "access"));
}

/**
 * Move @p o to RTS.
 * @return 0, or -1 with a message printed.
 */
static int
connect_one(struct call *c, struct object *o, const struct connect_attr *a, const struct object_peer *peer)
{
	const char *step;
	int rc = connect_qp(o->v.qp, a, o->psn, peer, &step);

	if (rc != 0)
		return call_fail(c, "%s: to %s: %s", o->name, step, strerror(rc));
	o->peer = *peer;
	o->connect = *a;
	return 0;
}

static int
must_be_fresh(const struct call *c, const struct object *o)
{
	enum ibv_qp_state s = object_qp_state(o);

	if (s == IBV_QPS_RESET || s == IBV_QPS_INIT)
		return 0;
	return call_fail(c, "%s is in %s: `modify qp %s state reset` lets it be connected again", o->name, qp_state_text(s), o->name);
}

static struct object_peer
peer_of(struct object *o, unsigned int sgid_index)
{
	struct object_peer p = { .known = true, .qp = o, .qpn = o->v.qp->qp_num, .psn = o->psn };

	p.gid = *host_gid(o->host, sgid_index);
	return p;
}

static int
connect_local(struct call *c, struct object *a, struct object *b)
{
	unsigned int ia = host_sgid_index(a->host, call_has(c, "ipv6")), ib = host_sgid_index(b->host, call_has(c, "ipv6"));
	struct object_peer pa = peer_of(a, ia), pb = peer_of(b, ib);
	struct connect_attr attr;

	if (a->v.qp->qp_type == IBV_QPT_UD || b->v.qp->qp_type == IBV_QPT_UD)
		return call_fail(c, "UD QPs aren't connected with each other: `connect` each alone, and `create ah` for the path");
	if (must_be_fresh(c, a) != 0 || (a != b && must_be_fresh(c, b) != 0))
		return -1;
	read_attr(c, &attr);
	attr.sgid_index = ia;
	if (connect_one(c, a, &attr, &pb) != 0)
		return -1;
	attr.sgid_index = ib;
	if (a != b && connect_one(c, b, &attr, &pa) != 0)
		return -1;
	printf("%s of %s (qpn 0x%x) and %s of %s (qpn 0x%x) are connected\n", a->name, a->host->name, a->v.qp->qp_num, b->name,
	       b->host->name, b->v.qp->qp_num);
	return 0;
}

static int
connect_remote(struct call *c, struct object *o)
{
	struct object_peer peer = {
		.known = true,
		.qpn = (uint32_t)call_number(c, "qpn", 0),
		.psn = (uint32_t)call_number(c, "psn", 0),
		.addr = call_number(c, "addr", 0),
		.length = call_number(c, "length", 0),
		.rkey = (uint32_t)call_number(c, "rkey", 0),
	};
	struct connect_attr attr;
	char gid[GID_TEXT_BYTES];

	if (!call_has(c, "qpn") || !call_has(c, "psn") || !call_has(c, "gid"))
		return call_fail(c, "a QP elsewhere needs qpn, psn and gid; `connect %s words` there prints them", o->name);
	if (gid_parse(call_text(c, "gid"), &peer.gid) != 0)
		return call_fail(c, "gid: '%s': expected an IPv4 or IPv6 address", call_text(c, "gid"));
	if (must_be_fresh(c, o) != 0)
		return -1;
	read_attr(c, &attr);
	attr.sgid_index = host_sgid_index(o->host, !gid_is_v4(&peer.gid));
	if (connect_one(c, o, &attr, &peer) != 0)
		return -1;
	printf("%s of %s (qpn 0x%x) is connected to qpn 0x%x at %s\n", o->name, o->host->name, o->v.qp->qp_num, peer.qpn,
	       gid_text(&peer.gid, gid));
	return 0;
}

static int
connect_ud(struct call *c, struct object *o)
{
	struct object_peer nobody = { .known = true };
	struct connect_attr attr;

	if (must_be_fresh(c, o) != 0)
		return -1;
	read_attr(c, &attr);
	if (connect_one(c, o, &attr, &nobody) != 0)
		return -1;
	printf("%s of %s (qpn 0x%x) is in RTS, qkey 0x%x\n", o->name, o->host->name, o->v.qp->qp_num, OBJECT_UD_QKEY);
	return 0;
}

static int
run_connect(struct call *c)
{
	struct object *o = object_find(OBJECT_QP, call_text(c, "qp")), *to = object_find(OBJECT_QP, call_text(c, "to"));
	bool remote = call_has(c, "qpn") || call_has(c, "psn") || call_has(c, "gid");

	if (call_has(c, "words") || (call_has(c, "mr") && to == NULL && !remote)) {
		print_words(o, object_find(OBJECT_MR, call_text(c, "mr")), host_sgid_index(o->host, call_has(c, "ipv6")));
		return 0;
	}
	if (to != NULL && remote)
		return call_fail(c, "either `to` a QP of this process, or qpn, psn and gid of one elsewhere");
	if (o->busy > 0 || (to != NULL && to->busy > 0))
		return call_fail(c, "a workload runs on it: stop it first");
	if (to != NULL)
		return connect_local(c, o, to);
	if (remote)
		return connect_remote(c, o);
	if (o->v.qp->qp_type == IBV_QPT_UD)
		return connect_ud(c, o);
	return call_fail(c, "to which QP? Expected `to` and one of this process, or qpn, psn and gid of one elsewhere");
}

static const struct arg args[] = {
	{ "qp", "which", ARG_NAME, ARG_NEEDED, .names = qp_names },
	{ "to", "the QP of this process", ARG_NAME, ARG_KEYED, .names = qp_names },
	ARG_NUM("qpn", "of a QP elsewhere", 1, QPN_MAX),
	ARG_NUM("psn", "its first PSN", 0, QPN_MAX),
	ARG_ANY("gid", "its IPv4 or IPv6 address", ARG_KEYED),
	ARG_NUM("addr", "its memory, for workloads that write and read there", 0, 0x1p63),
	ARG_NUM("length", "bytes of that", 0, 0x1p63),
	ARG_NUM("rkey", "key of that", 0, 0xffffffff),
	ARG_WORD("words", "connect nothing: print what the other side must type"),
	{ "mr", "memory that goes with the words", ARG_NAME, ARG_KEYED, .names = mr_names },
	ARG_WORD("ipv6", "by the IPv6 addresses"),
	{ "mtu", "bytes of a packet's payload; as large as the port has it", ARG_CHOICE, ARG_KEYED, .words = mtu_words },
	ARG_NUM("timeout", "of an ACK: 4.096 us times 2 to the power of it (14)", 0, 31),
	ARG_NUM("retry_cnt", "timeouts before it gives up (7)", 0, 7),
	ARG_NUM("rnr_retry", "receiver-not-ready answers before it gives up, 7: never (7)", 0, 7),
	ARG_NUM("rd_atomic", "READs and atomics outstanding (16)", 0, 32),
	{ "access", "what the peer may do; all but bind", ARG_CHOICE, ARG_KEYED, .list = true, .words = access_words },
	{ 0 },
};
static const struct command table[] = {
	{ "connect", "Take a QP from RESET to RTS, with its peer; a UD QP alone.", args, NULL, run_connect },
	{ 0 },
};
COMMANDS(table)
