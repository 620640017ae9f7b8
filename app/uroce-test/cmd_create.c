/* SPDX-License-Identifier: BSD-3-Clause */
/* create: creates verbs objects. Each command prints the name that other commands use for the object. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_common.h>

#include "args.h"
#include "format.h"
#include "control/observe/inspect.h"
#include "objects.h"
#include "uroce/stack.h"

enum { MR_BYTES_MAX = 1 << 30, WRS_MAX = 1 << 15, SGES_MAX = 32, CQES_MAX = 1 << 22, HOP_LIMIT = 64, INLINE_MAX = 1 << 10 };

static const char *const qp_types[] = { "rc", "uc", "ud", "xrc_send", "xrc_recv", NULL };
static const enum ibv_qp_type qp_type_values[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };

/** Register an object and print its name; @p v is what its verbs call returned. */
static int
made(struct call *c, struct object *o, void *v, const char *what)
{
	int err = errno;

	if (o == NULL)
		return call_fail(c, "%d objects are there already", OBJECTS_MAX);
	if (v == NULL) {
		object_destroy(o);
		return call_errno(c, what, err);
	}
	o->v.any = v;
	printf("%s", o->name);
	return 0;
}

static struct host *
which_host(const struct call *c)
{
	return call_has(c, "host") ? host_find(call_text(c, "host")) : host_at(0);
}

static int
create_pd(struct call *c)
{
	struct host *h = which_host(c);
	struct object *o = object_new(OBJECT_PD, h);

	if (made(c, o, o != NULL ? ibv_alloc_pd(h->ctx) : NULL, "ibv_alloc_pd") != 0)
		return -1;
	printf(": of %s\n", h->name);
	return 0;
}

static int
create_mr(struct call *c)
{
	struct object *pd = object_find(OBJECT_PD, call_text(c, "pd")), *o;
	size_t bytes = call_number(c, "size", 0);
	int access = call_has(c, "access") ? access_bits(call_text(c, "access")) : connect_defaults.access;
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return call_errno(c, "memory", errno);
	o = object_new(OBJECT_MR, pd->host);
	if (o != NULL) {
		o->memory = memory;
		o->bytes = bytes;
		o->pd = object_use(pd);
	}
	if (made(c, o, o != NULL ? ibv_reg_mr(pd->v.pd, memory, bytes, access) : NULL, "ibv_reg_mr") != 0)
		return -1;
	printf(": of %s, addr 0x%llx length %zu lkey 0x%x rkey 0x%x\n", pd->host->name,
	       (unsigned long long)(uintptr_t)memory, bytes, o->v.mr->lkey, o->v.mr->rkey);
	return 0;
}

/** @return the number of the only CQ of @p h whose number is at least @p from; 0: there is none, or more than one. */
static uint64_t
new_cq_number(const struct host *h, uint64_t from)
{
	struct inspect_filter filter = INSPECT_ALL;
	uint64_t number;

	filter.from = from;
	return inspect_list(h->stack->control, INSPECT_CQ, &filter, &number, 1) == 1 ? number : 0;
}

/** @return a number greater than those of all CQs of @p h. */
static uint64_t
cq_numbers_end(const struct host *h)
{
	struct inspect_filter filter = INSPECT_ALL;
	static uint64_t numbers[UROCE_MAX_CQ];
	uint32_t n = inspect_list(h->stack->control, INSPECT_CQ, &filter, numbers, UROCE_MAX_CQ);

	return n > 0 ? numbers[RTE_MIN(n, (uint32_t)UROCE_MAX_CQ) - 1] + 1 : 1;
}

static int
create_cq(struct call *c)
{
	struct host *h = which_host(c);
	uint64_t from = cq_numbers_end(h);
	struct object *o = object_new(OBJECT_CQ, h);

	if (made(c, o, o != NULL ? ibv_create_cq(h->ctx, (int)call_number(c, "cqe", 256), NULL, NULL, 0) : NULL,
		 "ibv_create_cq") != 0)
		return -1;
	o->number = new_cq_number(h, from);
	printf(": of %s, %d entries\n", h->name, o->v.cq->cqe);
	return 0;
}

/** Check that all objects that a new one refers to belong to the same host. @return 0 or -1. */
static int
same_host(const struct call *c, const struct object *a, const struct object *b)
{
	if (a == NULL || b == NULL || a->host == b->host)
		return 0;
	return call_fail(c, "%s is of %s, %s of %s: they must be of one host", a->name, a->host->name, b->name, b->host->name);
}

static struct ibv_srq *
make_srq(const struct call *c, struct object *pd, const struct object *cq, const struct object *xrcd)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = (uint32_t)call_number(c, "max_wr", 64),
						    .max_sge = (uint32_t)call_number(c, "max_sge", 1) } };
	struct ibv_srq_init_attr_ex ex = {
		.attr = init.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd->v.pd,
		.xrcd = xrcd != NULL ? xrcd->v.xrcd : NULL,
		.cq = cq != NULL ? cq->v.cq : NULL,
	};

	return xrcd != NULL ? ibv_create_srq_ex(pd->host->ctx, &ex) : ibv_create_srq(pd->v.pd, &init);
}

static int
create_srq(struct call *c)
{
	struct object *pd = object_find(OBJECT_PD, call_text(c, "pd")), *o;
	struct object *cq = object_find(OBJECT_CQ, call_text(c, "cq")), *xrcd = object_find(OBJECT_XRCD, call_text(c, "xrcd"));
	uint32_t number = 0;

	if ((cq == NULL) != (xrcd == NULL))
		return call_fail(c, "an SRQ for XRC needs both cq and xrcd, any other neither");
	if (same_host(c, pd, cq) != 0 || same_host(c, pd, xrcd) != 0)
		return -1;
	o = object_new(OBJECT_SRQ, pd->host);
	if (o != NULL) {
		o->pd = object_use(pd);
		o->cq = object_use(cq);
		o->xrcd = object_use(xrcd);
	}
	if (made(c, o, o != NULL ? make_srq(c, pd, cq, xrcd) : NULL, "ibv_create_srq") != 0)
		return -1;
	if (xrcd != NULL && ibv_get_srq_num(o->v.srq, &number) == 0)
		printf(": of %s, number 0x%x\n", pd->host->name, number);
	else
		printf(": of %s\n", pd->host->name);
	return 0;
}

/** Check the arguments that a QP of this type needs or must not have. */
static int
check_qp(const struct call *c, enum ibv_qp_type type, const struct object *cq, const struct object *xrcd)
{
	if (type == IBV_QPT_XRC_RECV && (xrcd == NULL || cq != NULL))
		return call_fail(c, "an xrc_recv QP needs xrcd, and has no cq: those of its SRQs get its completions");
	if (type != IBV_QPT_XRC_RECV && cq == NULL)
		return call_fail(c, "cq is missing: `create cq` makes one");
	if (type != IBV_QPT_XRC_RECV && xrcd != NULL)
		return call_fail(c, "xrcd is for xrc_recv QPs only");
	return 0;
}

static struct ibv_qp *
make_qp(const struct call *c, enum ibv_qp_type type, const struct object *pd, const struct object *cq, const struct object *recv_cq,
	const struct object *srq, const struct object *xrcd)
{
	bool receives = type != IBV_QPT_XRC_SEND && type != IBV_QPT_XRC_RECV && srq == NULL, sends = type != IBV_QPT_XRC_RECV;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.sq_sig_all = call_has(c, "sig_all"),
		.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.pd = pd->v.pd,
		.xrcd = xrcd != NULL ? xrcd->v.xrcd : NULL,
		.send_cq = cq != NULL ? cq->v.cq : NULL,
		.recv_cq = recv_cq != NULL ? recv_cq->v.cq : NULL,
		.srq = srq != NULL ? srq->v.srq : NULL,
		.cap = {
			.max_send_wr = sends ? (uint32_t)call_number(c, "max_send_wr", 64) : 0,
			.max_recv_wr = receives ? (uint32_t)call_number(c, "max_recv_wr", 64) : 0,
			.max_send_sge = sends ? (uint32_t)call_number(c, "max_send_sge", 1) : 0,
			.max_recv_sge = receives ? (uint32_t)call_number(c, "max_recv_sge", 1) : 0,
			.max_inline_data = sends ? (uint32_t)call_number(c, "max_inline", 0) : 0,
		},
	};

	return ibv_create_qp_ex(pd->host->ctx, &init);
}

static int
create_qp(struct call *c)
{
	struct object *pd = object_find(OBJECT_PD, call_text(c, "pd")), *cq = object_find(OBJECT_CQ, call_text(c, "cq"));
	struct object *srq = object_find(OBJECT_SRQ, call_text(c, "srq")), *xrcd = object_find(OBJECT_XRCD, call_text(c, "xrcd"));
	struct object *recv_cq = call_has(c, "recv_cq") ? object_find(OBJECT_CQ, call_text(c, "recv_cq")) : cq, *o;
	enum ibv_qp_type type = qp_type_values[call_choice(c, "type", 0)];
	char gid[GID_TEXT_BYTES];

	if (check_qp(c, type, cq, xrcd) != 0 || same_host(c, pd, cq) != 0 || same_host(c, pd, recv_cq) != 0 ||
	    same_host(c, pd, srq) != 0 || same_host(c, pd, xrcd) != 0)
		return -1;
	o = object_new(OBJECT_QP, pd->host);
	if (o != NULL) {
		o->pd = object_use(pd);
		o->cq = object_use(cq);
		o->recv_cq = object_use(recv_cq);
		o->srq = object_use(srq);
		o->xrcd = object_use(xrcd);
	}
	if (made(c, o, o != NULL ? make_qp(c, type, pd, cq, recv_cq, srq, xrcd) : NULL, "ibv_create_qp") != 0)
		return -1;
	o->psn = o->v.qp->qp_num * 2654435761u & PSN_MASK;
	printf(": %s of %s, qpn 0x%x psn 0x%x gid %s\n", qp_type_text(type), pd->host->name, o->v.qp->qp_num, o->psn,
	       gid_text(host_gid(pd->host, host_sgid_index(pd->host, false)), gid));
	return 0;
}

static int
create_ah(struct call *c)
{
	struct object *pd = object_find(OBJECT_PD, call_text(c, "pd")), *o;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct gid dgid;

	if (gid_parse(call_text(c, "dgid"), &dgid) != 0)
		return call_fail(c, "dgid: '%s': expected an IPv4 or IPv6 address", call_text(c, "dgid"));
	memcpy(attr.grh.dgid.raw, &dgid, sizeof(dgid));
	attr.grh.sgid_index = (uint8_t)call_number(c, "sgid_index", host_sgid_index(pd->host, !gid_is_v4(&dgid)));
	attr.grh.hop_limit = (uint8_t)call_number(c, "hop_limit", HOP_LIMIT);
	attr.grh.traffic_class = (uint8_t)call_number(c, "traffic_class", 0);
	attr.grh.flow_label = (uint32_t)call_number(c, "flow_label", 0);
	o = object_new(OBJECT_AH, pd->host);
	if (o != NULL)
		o->pd = object_use(pd);
	if (made(c, o, o != NULL ? ibv_create_ah(pd->v.pd, &attr) : NULL, "ibv_create_ah") != 0)
		return -1;
	printf(": of %s, to %s\n", pd->host->name, call_text(c, "dgid"));
	return 0;
}

static int
create_mw(struct call *c)
{
	struct object *pd = object_find(OBJECT_PD, call_text(c, "pd")), *o = object_new(OBJECT_MW, pd->host);
	enum ibv_mw_type type = call_number(c, "type", 1) == 2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;

	if (o != NULL)
		o->pd = object_use(pd);
	if (made(c, o, o != NULL ? ibv_alloc_mw(pd->v.pd, type) : NULL, "ibv_alloc_mw") != 0)
		return -1;
	printf(": type %d of %s, rkey 0x%x\n", type == IBV_MW_TYPE_2 ? 2 : 1, pd->host->name, o->v.mw->rkey);
	return 0;
}

static int
create_xrcd(struct call *c)
{
	struct host *h = which_host(c);
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
					   .oflags = O_CREAT };
	struct object *o = object_new(OBJECT_XRCD, h);

	if (made(c, o, o != NULL ? ibv_open_xrcd(h->ctx, &attr) : NULL, "ibv_open_xrcd") != 0)
		return -1;
	printf(": of %s\n", h->name);
	return 0;
}

#define ARG_PD { "pd", "protection domain", ARG_NAME, ARG_NEEDED, .names = pd_names }
static const struct arg pd_args[] = { ARG_HOST, { 0 } };
static const struct arg xrcd_args[] = { ARG_HOST, { 0 } };
static const struct arg cq_args[] = { ARG_HOST, ARG_NUM("cqe", "entries (256)", 1, CQES_MAX), { 0 } };
static const struct arg mr_args[] = {
	ARG_PD,
	{ "size", "bytes", ARG_NUMBER, ARG_NEEDED, .min = 1, .max = MR_BYTES_MAX },
	{ "access", "what may be done with it, with commas between; all but bind if left out", ARG_CHOICE, ARG_KEYED, .list = true,
	  .words = access_words },
	{ 0 },
};
static const struct arg srq_args[] = {
	ARG_PD,
	ARG_NUM("max_wr", "receives that it holds (64)", 1, WRS_MAX),
	ARG_NUM("max_sge", "pieces of a receive (1)", 1, SGES_MAX),
	{ "cq", "XRC: where its receives complete", ARG_NAME, ARG_KEYED, .names = cq_names },
	{ "xrcd", "XRC: its domain", ARG_NAME, ARG_KEYED, .names = xrcd_names },
	{ 0 },
};
static const struct arg qp_args[] = {
	ARG_PD,
	{ "cq", "completion queue; an xrc_recv QP has none", ARG_NAME, ARG_OPTIONAL, .names = cq_names },
	{ "type", "transport service (rc)", ARG_CHOICE, ARG_KEYED, .words = qp_types },
	{ "recv_cq", "completion queue of receives, if it is another one", ARG_NAME, ARG_KEYED, .names = cq_names },
	{ "srq", "where receives are taken from", ARG_NAME, ARG_KEYED, .names = srq_names },
	{ "xrcd", "xrc_recv: its domain", ARG_NAME, ARG_KEYED, .names = xrcd_names },
	ARG_NUM("max_send_wr", "send WRs that it holds (64)", 0, WRS_MAX),
	ARG_NUM("max_recv_wr", "receives that it holds (64)", 0, WRS_MAX),
	ARG_NUM("max_send_sge", "pieces of a send WR (1)", 0, SGES_MAX),
	ARG_NUM("max_recv_sge", "pieces of a receive (1)", 0, SGES_MAX),
	ARG_NUM("max_inline", "bytes that fit into a send WR (0)", 0, INLINE_MAX),
	ARG_WORD("sig_all", "every send WR completes with a completion"),
	{ 0 },
};
static const struct arg ah_args[] = {
	ARG_PD,
	ARG_ANY("dgid", "an IPv4 or IPv6 address", ARG_NEEDED),
	ARG_NUM("sgid_index", "own address: index in `show gid`", 0, 255),
	ARG_NUM("hop_limit", "routers on the path (64)", 0, 255),
	ARG_NUM("traffic_class", "DSCP and ECN (0)", 0, 255),
	ARG_NUM("flow_label", "of IPv6; also decides the UDP source port (0)", 0, 0xfffff),
	{ 0 },
};
static const struct arg mw_args[] = { ARG_PD, ARG_NUM("type", "1, or 2 for windows bound by WRs (1)", 1, 2), { 0 } };

static const struct command table[] = {
	{ "create pd", "Allocate a protection domain.", pd_args, NULL, create_pd },
	{ "create mr", "Allocate memory, zeroed, and register it.", mr_args, NULL, create_mr },
	{ "create cq", "Create a completion queue.", cq_args, NULL, create_cq },
	{ "create srq", "Create a shared receive queue.", srq_args, NULL, create_srq },
	{ "create qp", "Create a queue pair, in RESET. `connect` takes it to RTS, `modify qp` step by step.", qp_args, NULL, create_qp },
	{ "create ah", "Create an address handle: the path of datagrams.", ah_args, NULL, create_ah },
	{ "create mw", "Allocate a memory window. `modify mw` binds it.", mw_args, NULL, create_mw },
	{ "create xrcd", "Open an XRC domain of its own.", xrcd_args, NULL, create_xrcd },
	{ 0 },
};
COMMANDS(table)
