/* SPDX-License-Identifier: BSD-3-Clause */
/* Small messages from and to memory as programs have it: variables, and what malloc() returns, at any address. */
#include <unistd.h>

#include "vt.h"

enum {
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	ROOM = 10000,
	GRH_BYTES = 40,
	MANY = 200, /* receives at a time, more than anything small */
};

/* Two QPs, and memory of both at odd addresses. */
struct two {
	struct ibv_cq *cq;
	struct ibv_qp *a, *b;
	uint8_t *from, *to;
	struct ibv_mr *from_mr, *to_mr;
};

static uint8_t *
odd(void)
{
	uint8_t *p = malloc(ROOM + 1);

	if (p == NULL)
		vt_die("malloc");
	return p + 1;
}

static void
begin(struct vt *t, struct two *w, enum ibv_qp_type type)
{
	w->cq = vt_cq(t, 4 * VT_DEPTH, NULL);
	w->a = vt_qp(t, type, w->cq, w->cq);
	w->b = vt_qp(t, type, w->cq, w->cq);
	vt_connect(t, w->a, w->b);
	vt_connect(t, w->b, w->a);
	w->from = odd();
	w->to = odd();
	w->from_mr = ibv_reg_mr(t->pd, w->from, ROOM, ACCESS);
	w->to_mr = ibv_reg_mr(t->pd, w->to, ROOM, ACCESS);
	if (w->from_mr == NULL || w->to_mr == NULL)
		vt_die("ibv_reg_mr");
}

static void
end(struct two *w)
{
	vt_destroy_qp(w->a);
	vt_destroy_qp(w->b);
	vt_destroy_cq(w->cq);
	VT_OK(ibv_dereg_mr(w->from_mr));
	VT_OK(ibv_dereg_mr(w->to_mr));
	free(w->from - 1);
	free(w->to - 1);
}

static void
fill(struct two *w, unsigned int seed)
{
	for (unsigned int i = 0; i < ROOM; i++) {
		w->from[i] = (uint8_t)(i * 31 + seed * 17 + 1);
		w->to[i] = 0x5e;
	}
}

static void
post_recv(struct ibv_qp *qp, uint64_t wr_id, struct ibv_sge *sges, int n)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sges, .num_sge = n }, *bad;

	VT_OK(ibv_post_recv(qp, &wr, &bad));
}

static void
post_send(struct ibv_qp *qp, uint64_t wr_id, struct ibv_send_wr wr, struct ibv_sge *sges, int n)
{
	struct ibv_send_wr *bad;

	wr.wr_id = wr_id;
	wr.sg_list = sges;
	wr.num_sge = n;
	wr.send_flags = IBV_SEND_SIGNALED;
	VT_OK(ibv_post_send(qp, &wr, &bad));
}

/* Two completions, one of them a receive of @p bytes. */
static void
both(struct two *w, unsigned int bytes)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

		VT_CHECK(vt_poll(w->cq, &wc) && wc.status == IBV_WC_SUCCESS, "%u bytes: status %d", bytes, wc.status);
		VT_CHECK(!(wc.opcode & IBV_WC_RECV) || wc.byte_len == bytes, "%u bytes, not %u", wc.byte_len, bytes);
	}
}

static const unsigned int sizes[] = { 1, 2, 7, 8, 64, 100, 1024, 1025, 2047, 2048, 2049, 4096, 9000 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* @return whether the message is where it belongs, and nothing else has changed */
static bool
arrived(const struct two *w, unsigned int from, unsigned int to, unsigned int bytes)
{
	for (unsigned int i = 0; i < ROOM; i++) {
		bool inside = i >= to && i < to + bytes;

		if (w->to[i] != (inside ? w->from[from + i - to] : 0x5e))
			return false;
	}
	return true;
}

static void
sends_of_any_size(struct vt *t)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND };
	struct two w;

	begin(t, &w, IBV_QPT_RC);
	for (unsigned int i = 0; i < SIZES; i++) {
		unsigned int n = sizes[i], half = n / 2;
		struct ibv_sge from[2] = { { (uintptr_t)w.from, half, w.from_mr->lkey }, { (uintptr_t)w.from + half, n - half, w.from_mr->lkey } };
		struct ibv_sge to = { (uintptr_t)w.to + 3, n + 20, w.to_mr->lkey };

		/* A piece of no bytes is no piece. */
		fill(&w, i);
		post_recv(w.b, 1, &to, 1);
		post_send(w.a, 2, send, half > 0 ? from : from + 1, half > 0 ? 2 : 1);
		both(&w, n);
		VT_CHECK(arrived(&w, 0, 3, n), "SEND of %u bytes", n);
	}
	end(&w);
}

static void
receives_in_pieces(struct vt *t)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 7 };
	struct two w;

	begin(t, &w, IBV_QPT_RC);
	for (unsigned int i = 0; i < SIZES; i++) {
		unsigned int n = sizes[i];
		struct ibv_sge from = { (uintptr_t)w.from + 9, n, w.from_mr->lkey };
		/* The second half first in memory. */
		struct ibv_sge to[2] = { { (uintptr_t)w.to + 5000, n / 2 + 1, w.to_mr->lkey }, { (uintptr_t)w.to, n, w.to_mr->lkey } };

		fill(&w, i);
		post_recv(w.b, 1, to, 2);
		post_send(w.a, 2, send, &from, 1);
		both(&w, n);
		VT_CHECK(memcmp(w.to + 5000, w.from + 9, n < n / 2 + 1 ? n : n / 2 + 1) == 0, "first piece of %u bytes", n);
		VT_CHECK(n <= n / 2 + 1 || memcmp(w.to, w.from + 9 + n / 2 + 1, n - n / 2 - 1) == 0, "second piece of %u bytes", n);
	}
	end(&w);
}

static void
writes_of_any_size(struct vt *t)
{
	struct two w;

	begin(t, &w, IBV_QPT_RC);
	for (unsigned int i = 0; i < SIZES; i++) {
		struct ibv_sge from = { (uintptr_t)w.from + 1, sizes[i], w.from_mr->lkey }, to = { (uintptr_t)w.to, 8, w.to_mr->lkey };
		struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					     .wr.rdma = { .remote_addr = (uintptr_t)w.to + 100, .rkey = w.to_mr->rkey } };

		/* The receive gets the immediate data and no bytes. */
		fill(&w, i);
		post_recv(w.b, 1, &to, 1);
		post_send(w.a, 2, write, &from, 1);
		both(&w, sizes[i]);
		VT_CHECK(arrived(&w, 1, 100, sizes[i]), "WRITE of %u bytes", sizes[i]);
	}
	end(&w);
}

static void
datagrams_of_any_size(struct vt *t)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND };
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	struct two w;

	begin(t, &w, IBV_QPT_UD);
	vt_ah_attr(t, &attr);
	ah = ibv_create_ah(t->pd, &attr);
	if (ah == NULL)
		vt_die("ibv_create_ah");
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = w.b->qp_num;
	send.wr.ud.remote_qkey = VT_QKEY;
	for (unsigned int i = 0; i < SIZES && sizes[i] <= 1024; i++) {
		struct ibv_sge from = { (uintptr_t)w.from, sizes[i], w.from_mr->lkey };
		struct ibv_sge to = { (uintptr_t)w.to, GRH_BYTES + sizes[i], w.to_mr->lkey };

		fill(&w, i);
		post_recv(w.b, 1, &to, 1);
		post_send(w.a, 2, send, &from, 1);
		both(&w, GRH_BYTES + sizes[i]);
		VT_CHECK(memcmp(w.to + GRH_BYTES, w.from, sizes[i]) == 0 && w.to[GRH_BYTES + sizes[i]] == 0x5e, "%u bytes", sizes[i]);
	}
	VT_OK(ibv_destroy_ah(ah));
	end(&w);
}

/* The order of messages, and each in its own place. */
static void
more_messages_than_fit_anywhere(struct vt *t)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND };
	struct two w[MANY / VT_DEPTH + 1];
	const unsigned int pairs = MANY / VT_DEPTH + 1, each = 20;

	for (unsigned int p = 0; p < pairs; p++) {
		begin(t, &w[p], IBV_QPT_RC);
		fill(&w[p], p);
	}
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int p = 0; p < pairs; p++) {
			for (unsigned int i = 0; i < VT_DEPTH; i++) {
				struct ibv_sge to = { (uintptr_t)w[p].to + i * 2 * each, each, w[p].to_mr->lkey };

				post_recv(w[p].b, i, &to, 1);
			}
		}
		for (unsigned int p = 0; p < pairs; p++) {
			for (unsigned int i = 0; i < VT_DEPTH; i++) {
				struct ibv_sge from = { (uintptr_t)w[p].from + round + i, each, w[p].from_mr->lkey };

				post_send(w[p].a, i, send, &from, 1);
			}
		}
		for (unsigned int p = 0; p < pairs; p++) {
			for (unsigned int i = 0; i < VT_DEPTH; i++)
				both(&w[p], each);
			for (unsigned int i = 0; i < VT_DEPTH; i++)
				VT_CHECK(memcmp(w[p].to + i * 2 * each, w[p].from + round + i, each) == 0, "round %u: message %u", round, i);
		}
	}
	for (unsigned int p = 0; p < pairs; p++)
		end(&w[p]);
}

/* A message that came before its memory was deregistered is there; one that comes later is refused. */
static void
receives_of_memory_that_is_deregistered(struct vt *t)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;
	struct two w;

	begin(t, &w, IBV_QPT_RC);
	fill(&w, 1);
	for (unsigned int i = 0; i < 2; i++) {
		struct ibv_sge from = { (uintptr_t)w.from, 50, t->mr->lkey }, to = { (uintptr_t)w.to + 100 * i, 50, w.to_mr->lkey };

		from.addr = (uintptr_t)t->buf;
		memcpy(t->buf, w.from, 50);
		post_recv(w.b, 10 + i, &to, 1);
		post_send(w.a, i, send, &from, 1);
		if (i == 0) {
			/* The receive's completion stays in the CQ: it comes before the send's. */
			for (int ms = 0; ms < 100; ms++)
				usleep(1000);
			VT_OK(ibv_dereg_mr(w.to_mr));
			VT_CHECK(memcmp(w.to, w.from, 50) == 0, "what had come isn't there");
			memset(w.to, 0x5e, 50);
			both(&w, 50);
		}
	}
	for (int i = 0; i < 2; i++) {
		VT_CHECK(vt_poll(w.cq, &wc) && wc.status == (wc.wr_id < 10 ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR),
			 "WR %d: status %d", (int)wc.wr_id, wc.status);
	}
	for (unsigned int i = 0; i < ROOM; i++)
		VT_CHECK(w.to[i] == 0x5e, "byte %u was written", i);
	w.to_mr = ibv_reg_mr(t->pd, w.to, ROOM, ACCESS);
	end(&w);
}

/* Who sees the last byte of a WRITE may take its memory away: nothing of the message is missing. */
static void
memory_is_deregistered_once_a_write_is_seen(struct vt *t)
{
	enum { ROUNDS = 400, BYTES = 100 };
	struct two w;

	begin(t, &w, IBV_QPT_RC);
	for (unsigned int round = 1; round <= ROUNDS && !vt_failed; round++) {
		volatile uint8_t *last = w.to + BYTES - 1;
		struct ibv_sge from = { (uintptr_t)t->buf, BYTES, t->mr->lkey };
		struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { .remote_addr = (uintptr_t)w.to, .rkey = w.to_mr->rkey } };
		uint64_t until = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);

		*last = 0;
		memset(t->buf, 1 + (int)(round % 200), BYTES);
		post_send(w.a, round, write, &from, 1);
		while (*last == 0 && vt_now_ns() < until)
			;
		VT_OK(ibv_dereg_mr(w.to_mr));
		vt_expect(w.cq, round, IBV_WC_SUCCESS);
		w.to_mr = ibv_reg_mr(t->pd, w.to, ROOM, ACCESS);
		if (w.to_mr == NULL)
			vt_die("ibv_reg_mr");
	}
	end(&w);
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(sends_of_any_size), VT_CASE(receives_in_pieces), VT_CASE(writes_of_any_size), VT_CASE(datagrams_of_any_size),
		VT_CASE(more_messages_than_fit_anywhere), VT_CASE(receives_of_memory_that_is_deregistered),
		VT_CASE(memory_is_deregistered_once_a_write_is_seen),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
