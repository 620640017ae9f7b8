/* SPDX-License-Identifier: BSD-3-Clause */
/* post, poll, fill, dump mr: single work requests. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "format.h"
#include "objects.h"
#include "shell.h"

enum { POLL_MAX = 1024, WAIT_MAX_MS = 60000, LINE_BYTES = 16, DUMP_MAX = 4096, QPN_MAX = 0xffffff };

static const char *const op_words[] = { "send", "send_imm", "write", "write_imm", "read", "cmp_swap", "fetch_add", NULL };
static const enum ibv_wr_opcode op_values[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
						IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD };

/**
 * Check offset and length against the MR that the user named.
 * @return 0 or -1.
 */
static int
read_range(const struct call *c, const struct object *mr, uint64_t *offset, uint64_t *length)
{
	*length = 0;
	*offset = call_number(c, "offset", 0);
	if (*offset > mr->bytes)
		return call_fail(c, "offset: '%llu': %s has %zu bytes", (unsigned long long)*offset, mr->name, mr->bytes);
	*length = call_number(c, "length", mr->bytes - *offset);
	if (*length > mr->bytes - *offset)
		return call_fail(c, "length: '%llu': behind the offset %s has %llu bytes", (unsigned long long)*length, mr->name,
				 (unsigned long long)(mr->bytes - *offset));
	return 0;
}

/**
 * Make the command's SGE, if it names an MR.
 * @return the number of SGEs, or -1 with a message printed.
 */
static int
read_sge(const struct call *c, struct ibv_sge *sge)
{
	struct object *mr = object_find(OBJECT_MR, call_text(c, "mr"));
	uint64_t offset, length;

	if (mr == NULL)
		return 0;
	if (read_range(c, mr, &offset, &length) != 0)
		return -1;
	*sge = (struct ibv_sge){ .addr = (uintptr_t)mr->memory + offset, .length = (uint32_t)length, .lkey = mr->v.mr->lkey };
	return 1;
}

/** Find the target of a WRITE, READ or atomic: an MR of this process, an address and rkey, or the peer's memory. */
static int
read_remote(const struct call *c, const struct object *qp, uint64_t *addr, uint32_t *rkey)
{
	struct object *mr = object_find(OBJECT_MR, call_text(c, "remote_mr"));

	if (mr != NULL) {
		*addr = (uintptr_t)mr->memory;
		*rkey = mr->v.mr->rkey;
	} else if (call_has(c, "addr") || call_has(c, "rkey")) {
		*addr = call_number(c, "addr", 0);
		*rkey = (uint32_t)call_number(c, "rkey", 0);
	} else if (qp->peer.rkey != 0) {
		*addr = qp->peer.addr;
		*rkey = qp->peer.rkey;
	} else {
		return call_fail(c, "where to? Expected remote_mr, or addr and rkey");
	}
	*addr += call_number(c, "remote_offset", 0);
	return 0;
}

static int
read_ud(const struct call *c, struct ibv_send_wr *wr)
{
	struct object *ah = object_find(OBJECT_AH, call_text(c, "ah"));

	if (ah == NULL || !call_has(c, "qpn"))
		return call_fail(c, "a datagram needs ah and qpn");
	wr->wr.ud.ah = ah->v.ah;
	wr->wr.ud.remote_qpn = (uint32_t)call_number(c, "qpn", 0);
	wr->wr.ud.remote_qkey = (uint32_t)call_number(c, "qkey", OBJECT_UD_QKEY);
	return 0;
}

/**
 * Set the members that depend on the opcode and the QP's type.
 * @return 0 or -1.
 */
static int
read_target(const struct call *c, const struct object *qp, struct ibv_send_wr *wr)
{
	int rc;

	if (qp->v.qp->qp_type == IBV_QPT_UD)
		return read_ud(c, wr);
	if (qp->v.qp->qp_type == IBV_QPT_XRC_SEND && !call_has(c, "srqn"))
		return call_fail(c, "an XRC QP needs srqn, which `create srq` printed there");
	if (qp->v.qp->qp_type == IBV_QPT_XRC_SEND)
		wr->qp_type.xrc.remote_srqn = (uint32_t)call_number(c, "srqn", 0);
	switch (wr->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		rc = read_remote(c, qp, &wr->wr.atomic.remote_addr, &wr->wr.atomic.rkey);
		wr->wr.atomic.compare_add = call_number(c, wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? "compare" : "add", 0);
		wr->wr.atomic.swap = call_number(c, "swap", 0);
		return rc;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		return read_remote(c, qp, &wr->wr.rdma.remote_addr, &wr->wr.rdma.rkey);
	default:
		return 0;
	}
}

static int
post_send(struct call *c)
{
	struct object *qp = object_find(OBJECT_QP, call_text(c, "qp"));
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = call_number(c, "id", 0), .sg_list = &sge, .send_flags = IBV_SEND_SIGNALED,
				  .opcode = op_values[call_choice(c, "op", 0)] }, *bad;
	int rc;

	wr.num_sge = read_sge(c, &sge);
	if (wr.num_sge < 0 || read_target(c, qp, &wr) != 0)
		return -1;
	wr.imm_data = htonl((uint32_t)call_number(c, "imm", 0));
	wr.send_flags |= (call_has(c, "solicited") ? IBV_SEND_SOLICITED : 0) | (call_has(c, "fence") ? IBV_SEND_FENCE : 0) |
			 (call_has(c, "inline") ? IBV_SEND_INLINE : 0);
	rc = ibv_post_send(qp->v.qp, &wr, &bad);
	if (rc != 0)
		return call_fail(c, "%s, which is in %s: %s", qp->name, qp_state_text(object_qp_state(qp)), strerror(rc));
	printf("%s: posted\n", qp->name);
	return 0;
}

static int
post_recv(struct call *c)
{
	struct object *qp = object_find(OBJECT_QP, call_text(c, "queue")), *srq = object_find(OBJECT_SRQ, call_text(c, "queue"));
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = call_number(c, "id", 0), .sg_list = &sge }, *bad;
	int rc = 0;

	wr.num_sge = read_sge(c, &sge);
	if (wr.num_sge < 0)
		return -1;
	for (uint64_t i = 0; rc == 0 && i < call_number(c, "count", 1); i++)
		rc = qp != NULL ? ibv_post_recv(qp->v.qp, &wr, &bad) : ibv_post_srq_recv(srq->v.srq, &wr, &bad);
	if (rc != 0)
		return call_errno(c, call_text(c, "queue"), rc);
	printf("%s: posted\n", call_text(c, "queue"));
	return 0;
}

static const char *
wc_op_text(enum ibv_wc_opcode op)
{
	static const char *const words[] = {
		[IBV_WC_SEND] = "send", [IBV_WC_RDMA_WRITE] = "write", [IBV_WC_RDMA_READ] = "read", [IBV_WC_COMP_SWAP] = "cmp_swap",
		[IBV_WC_FETCH_ADD] = "fetch_add", [IBV_WC_BIND_MW] = "bind", [IBV_WC_LOCAL_INV] = "invalidate",
		[IBV_WC_RECV] = "recv", [IBV_WC_RECV_RDMA_WITH_IMM] = "recv_write_imm",
	};

	return (size_t)op < sizeof(words) / sizeof(words[0]) && words[op] != NULL ? words[op] : "?";
}

static void
add_wc(struct format *f, const struct ibv_wc *wc)
{
	format_row(f);
	format_number(f, "id", wc->wr_id);
	format_text(f, "status", "%s", ibv_wc_status_str(wc->status));
	format_hex(f, "qpn", wc->qp_num);
	if (wc->status != IBV_WC_SUCCESS) {
		format_number(f, "vendor_err", wc->vendor_err);
		return;
	}
	format_text(f, "op", "%s", wc_op_text(wc->opcode));
	if ((wc->opcode & IBV_WC_RECV) != 0) {
		format_number(f, "bytes", wc->byte_len);
		format_hex(f, "src_qp", wc->src_qp);
	}
	if ((wc->wc_flags & IBV_WC_WITH_IMM) != 0)
		format_hex(f, "imm", ntohl(wc->imm_data));
}

static int
run_poll(struct call *c)
{
	struct object *cq = object_find(OBJECT_CQ, call_text(c, "cq"));
	uint64_t want = call_number(c, "count", 1), got = 0;
	unsigned int ms = (unsigned int)call_number(c, "wait", 0);
	struct format *f = format_new();
	struct ibv_wc wc;
	int n;

	while (got < want) {
		n = ibv_poll_cq(cq->v.cq, 1, &wc);
		if (n < 0)
			break;
		got += (uint64_t)n;
		if (n > 0)
			add_wc(f, &wc);
		else if (ms == 0 || !shell_sleep(1))
			break;
		else
			ms--;
	}
	return call_answer(c, f, FORMAT_TABLE, "no completion");
}

static int
run_fill(struct call *c)
{
	struct object *mr = object_find(OBJECT_MR, call_text(c, "mr"));
	const char *text = call_text(c, "text");
	uint64_t offset, length;

	if (read_range(c, mr, &offset, &length) != 0)
		return -1;
	if (text != NULL && call_has(c, "byte"))
		return call_fail(c, "either byte or text");
	if (text != NULL && strlen(text) < length)
		length = strlen(text);
	if (text != NULL)
		memcpy(mr->memory + offset, text, length);
	else
		memset(mr->memory + offset, (int)call_number(c, "byte", 0), length);
	printf("%s: %llu bytes filled\n", mr->name, (unsigned long long)length);
	return 0;
}

static int
run_dump(struct call *c)
{
	struct object *mr = object_find(OBJECT_MR, call_text(c, "mr"));
	uint64_t offset, length;

	if (read_range(c, mr, &offset, &length) != 0)
		return -1;
	if (!call_has(c, "length") && length > 64)
		length = 64;
	if (length > DUMP_MAX)
		return call_fail(c, "length: '%llu': at most %d bytes at a time", (unsigned long long)length, DUMP_MAX);
	for (uint64_t at = 0; at < length; at += LINE_BYTES) {
		printf("%08llx ", (unsigned long long)(offset + at));
		for (unsigned int i = 0; i < LINE_BYTES; i++) {
			if (at + i < length)
				printf(" %02x", mr->memory[offset + at + i]);
			else
				fputs("   ", stdout);
		}
		fputs("  ", stdout);
		for (unsigned int i = 0; i < LINE_BYTES && at + i < length; i++)
			putchar(isprint(mr->memory[offset + at + i]) ? mr->memory[offset + at + i] : '.');
		putchar('\n');
	}
	return 0;
}

/** Names for completion: all QPs, then all SRQs. */
static const char *
queue_names(unsigned int i)
{
	unsigned int qps;

	for (qps = 0; qps <= i && qp_names(qps) != NULL; qps++)
		;
	return qps > i ? qp_names(i) : srq_names(i - qps);
}

#define ARG_RANGE \
	ARG_NUM("offset", "first byte of it (0)", 0, 1e12), ARG_NUM("length", "bytes; all behind the offset", 0, 1e12)
static const struct arg send_args[] = {
	{ "qp", "which", ARG_NAME, ARG_NEEDED, .names = qp_names },
	{ "op", "what is to be done (send)", ARG_CHOICE, ARG_OPTIONAL, .words = op_words },
	{ "mr", "own memory; a message of no bytes if left out", ARG_NAME, ARG_KEYED, .names = mr_names },
	ARG_RANGE,
	{ "remote_mr", "the peer's memory, if it is in this process", ARG_NAME, ARG_KEYED, .names = mr_names },
	ARG_NUM("addr", "the peer's memory", 0, 0x1p63),
	ARG_NUM("rkey", "key of that", 0, 0xffffffff),
	ARG_NUM("remote_offset", "first byte of it (0)", 0, 1e12),
	ARG_NUM("imm", "immediate data", 0, 0xffffffff),
	ARG_NUM("compare", "of cmp_swap", 0, 0x1p63),
	ARG_NUM("swap", "of cmp_swap", 0, 0x1p63),
	ARG_NUM("add", "of fetch_add", 0, 0x1p63),
	{ "ah", "UD: the address handle", ARG_NAME, ARG_KEYED, .names = ah_names },
	ARG_NUM("qpn", "UD: the QP there", 0, QPN_MAX),
	ARG_NUM("qkey", "UD: its key", 0, 0xffffffff),
	ARG_NUM("srqn", "XRC: number of the SRQ there", 0, QPN_MAX),
	ARG_NUM("id", "wr_id, which the completion has (0)", 0, 1e15),
	ARG_WORD("solicited", "with a solicited event"),
	ARG_WORD("fence", "after all READs and atomics before it"),
	ARG_WORD("inline", "bytes are taken now"),
	{ 0 },
};
static const struct arg recv_args[] = {
	{ "queue", "QP or SRQ", ARG_NAME, ARG_NEEDED, .names = queue_names },
	{ "mr", "where the message goes; nowhere if left out", ARG_NAME, ARG_KEYED, .names = mr_names },
	ARG_RANGE,
	ARG_NUM("count", "so many times (1)", 1, 1 << 15),
	ARG_NUM("id", "wr_id, which the completion has (0)", 0, 1e15),
	{ 0 },
};
static const struct arg poll_args[] = {
	{ "cq", "which", ARG_NAME, ARG_NEEDED, .names = cq_names },
	ARG_NUM("count", "completions (1)", 1, POLL_MAX),
	ARG_NUM("wait", "milliseconds at most for them (0)", 0, WAIT_MAX_MS),
	ARG_JSON,
	{ 0 },
};
static const struct arg fill_args[] = {
	{ "mr", "which", ARG_NAME, ARG_NEEDED, .names = mr_names },
	ARG_RANGE,
	ARG_NUM("byte", "each byte (0)", 0, 255),
	ARG_ANY("text", "these characters", ARG_KEYED),
	{ 0 },
};
static const struct arg dump_args[] = {
	{ "mr", "which", ARG_NAME, ARG_NEEDED, .names = mr_names },
	ARG_RANGE,
	{ 0 },
};

static const struct command table[] = {
	{ "post send", "Post one send work request, signalled.", send_args, NULL, post_send },
	{ "post recv", "Post receives.", recv_args, NULL, post_recv },
	{ "poll", "Take completions from a completion queue.", poll_args, NULL, run_poll },
	{ "fill", "Write into an MR's memory.", fill_args, NULL, run_fill },
	{ "dump mr", "Show bytes of an MR's memory (64).", dump_args, NULL, run_dump },
	{ 0 },
};
COMMANDS(table)
